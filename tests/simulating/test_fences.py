"""A fence orders what the threads that call it know of, and nothing else."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    mbarrier,
    tma,
)

from course.simulating.api import simulate
from course.simulating.faults import HazardError
from tests.simulating.kernels import descriptor


@gluon.jit
def _write(out, ready, FENCE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    out.store(gl.full([16, 64], 2.0, gl.float16, layout))
    if FENCE == "of the writer":
        fence_async_shared()
    mbarrier.arrive(ready, count=1)


@gluon.jit
def _copy(out_desc, out, ready, FENCE: gl.constexpr):
    if FENCE == "of the reader before it waits":
        fence_async_shared()
    mbarrier.wait(ready, 0)
    if FENCE == "of the reader":
        fence_async_shared()
    tma.async_store(out_desc, [0, 0], out)
    tma.store_wait(0)


@gluon.jit
def handed_kernel(out_desc, FENCE: gl.constexpr):
    out = gl.allocate_shared_memory(out_desc.dtype, [16, 64], out_desc.layout)
    ready = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=1)
    gl.warp_specialize(
        [(_copy, (out_desc, out, ready, FENCE)), (_write, (out, ready, FENCE))], [4], [24]
    )


@pytest.mark.parametrize("fence", ["of the writer", "of the reader"])
def test_a_fence_on_either_side_of_the_barrier_is_enough(fence):
    out = torch.zeros(16, 64, dtype=torch.float16)
    simulate(handed_kernel, (1,), descriptor(out, [16, 64]), fence)
    assert (out == 2).all()


@pytest.mark.parametrize("fence", ["nobody's", "of the reader before it waits"])
def test_a_fence_of_those_who_do_not_know_of_a_write_does_not_order_it(fence):
    out = torch.zeros(16, 64, dtype=torch.float16)
    with pytest.raises(HazardError, match="out was written by store and is copied out with no fen"):
        # The writer goes first, so that its write is there when the reader calls the fence.
        simulate(handed_kernel, (1,), descriptor(out, [16, 64]), fence, orders=["backwards"])


@gluon.jit
def refilled_kernel(x_desc, ACT: gl.constexpr, FENCE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    x = gl.allocate_shared_memory(x_desc.dtype, [16, 64], x_desc.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    if ACT == "written by store":
        x.store(gl.full([16, 64], 2.0, gl.float16, layout))
    else:
        mbarrier.expect(full, x_desc.nbytes_per_cta)
        tma.async_load(x_desc, [0, 0], full, x)
        mbarrier.wait(full, 0)
        x.load(layout)
    if FENCE:
        fence_async_shared()
    mbarrier.expect(full, x_desc.nbytes_per_cta)
    tma.async_load(x_desc, [0, 0], full, x)
    mbarrier.wait(full, 0 if ACT == "written by store" else 1)


@pytest.mark.parametrize("act", ["written by store", "read by load"])
def test_memory_that_threads_have_used_is_fenced_before_it_is_filled_again(act):
    x = descriptor(torch.zeros(16, 64, dtype=torch.float16), [16, 64])
    simulate(refilled_kernel, (1,), x, act, True)
    with pytest.raises(HazardError, match=f"x was {act} and is copied into with no fence"):
        simulate(refilled_kernel, (1,), x, act, False)


@gluon.jit
def threads_kernel(x_ptr, out_desc, FENCE: gl.constexpr):
    """A copy by threads (cp.async) into memory that they have read, and a TMA copy out of it."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, 16, gl.SliceLayout(1, layout))[:, None]
    cols = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    x = gl.allocate_shared_memory(out_desc.dtype, [16, 64], out_desc.layout)
    x.store(gl.full([16, 64], 2.0, gl.float16, layout))
    fence_async_shared()
    x.load(layout)
    async_copy.async_load(x, x_ptr + rows * 64 + cols)
    async_copy.commit_group()
    async_copy.wait_group(0)
    if FENCE:
        fence_async_shared()
    tma.async_store(out_desc, [0, 0], x)
    tma.store_wait(0)


def test_copies_by_threads_need_a_fence_only_before_those_that_are_not():
    x = torch.randn(16, 64).half()
    out = torch.zeros_like(x)
    simulate(threads_kernel, (1,), x, descriptor(out, [16, 64]), True)
    assert torch.equal(out, x)
    with pytest.raises(HazardError, match="x was written by store and is copied out with no fence"):
        simulate(threads_kernel, (1,), x, descriptor(out, [16, 64]), False)


@gluon.jit
def _nothing():
    pass


@gluon.jit
def _fenced_copy(out_desc, out):
    fence_async_shared()
    tma.async_store(out_desc, [0, 0], out)
    tma.store_wait(0)


@gluon.jit
def _store(out):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    out.store(gl.full([16, 64], 2.0, gl.float16, layout))


@gluon.jit
def around_kernel(out_desc, WRITTEN: gl.constexpr):
    """A write before or in a partition, and its fence in a partition or after it."""
    out = gl.allocate_shared_memory(out_desc.dtype, [16, 64], out_desc.layout)
    if WRITTEN == "before the partitions":
        _store(out)
        gl.warp_specialize([(_nothing, ()), (_fenced_copy, (out_desc, out))], [4], [24])
    else:
        gl.warp_specialize([(_nothing, ()), (_store, (out,))], [4], [24])
        _fenced_copy(out_desc, out)


@pytest.mark.parametrize("written", ["before the partitions", "in a partition"])
def test_partitions_begin_and_end_as_if_they_had_waited(written):
    out = torch.zeros(16, 64, dtype=torch.float16)
    simulate(around_kernel, (1,), descriptor(out, [16, 64]), written)
    assert (out == 2).all()
