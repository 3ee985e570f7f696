"""Kernels as Triton's own Gluon tutorials write them."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import ampere
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from course import simulate
from course.simulating.faults import HazardError
from tests.simulating.kernels import descriptor


@gluon.jit
def tiles_kernel(in_desc, out_desc, x_ptr, sum_ptr, FAULT: gl.constexpr = ""):
    """A tile per program, by a barrier of tutorial 04; its sum is stored in the type of x."""
    smem = gl.allocate_shared_memory(in_desc.dtype, in_desc.block_type.shape, in_desc.type.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    for i in gl.static_range(2):
        mbarrier.init(ready.index(i), count=1)
    fence_async_shared()
    row, column = gl.program_id(0) * 16, gl.program_id(1) * 64
    mbarrier.expect(bar, in_desc.block_type.nbytes)
    tma.async_load(in_desc, [row, column], bar, smem)
    # Right where the phase is the first one: nothing is used.
    mbarrier.arrive(ready.index(gl.program_id(1) - 1), count=1, pred=FAULT == "arrive")
    mbarrier.wait(bar, 0)
    if FAULT == "buffer":
        rows = gl.allocate_shared_memory(gl.float32, [2, 16], smem.type.layout)
        rows.index(gl.program_id(0) + 2).load()
    mbarrier.invalidate(bar)
    if FAULT == "invalidated":
        mbarrier.wait(bar, 0)
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    total = gl.sum(gl.sum(smem.load(layout), axis=1), axis=0).to(x_ptr.dtype.element_ty)
    gl.store(sum_ptr + gl.program_id(0) * gl.num_programs(1) + gl.program_id(1), total)
    copied = gl.allocate_shared_memory(in_desc.dtype, smem.type.shape, smem.type.layout)
    copied.store(smem.load(layout))
    fence_async_shared()
    tma.async_store(out_desc, [row, column], copied)
    tma.store_wait(0)


def tiles(fault=""):
    x = torch.arange(32 * 128).reshape(32, 128).to(torch.float16) / 64
    out, sums = torch.zeros_like(x), torch.zeros(4, dtype=torch.float32)
    simulate(
        tiles_kernel,
        (2, 2),
        descriptor(x, [16, 64]),
        descriptor(out, [16, 64]),
        x,
        sums,
        FAULT=fault,
    )
    return x, out, sums


def test_barriers_in_shared_memory_types_of_descriptors_and_grids_of_two_axes():
    x, out, sums = tiles()
    assert torch.equal(out, x)
    of_tiles = x.reshape(2, 16, 2, 64).sum(dim=(1, 3), dtype=torch.float32).ravel()
    assert torch.allclose(sums, of_tiles, rtol=2e-3)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("arrive", r"ready has 2 barriers, and no number -1\.\n.*pred=FAULT"),
        ("buffer", r"rows has 2 buffers, and no number 2\."),
        ("invalidated", r"must not wait for bar after mbarrier\.invalidate, without another mb"),
    ],
)
def test_what_is_out_of_range_is_a_hazard_where_it_is_used(fault, says):
    with pytest.raises(HazardError, match=says):
        tiles(fault)


@gluon.jit
def uncommitted_kernel(x_ptr, COMMITS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [1], [0])
    smem = gl.allocate_shared_memory(gl.float32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    ampere.async_copy.async_load(smem, x_ptr + gl.arange(0, 128, layout))
    if COMMITS:
        ampere.async_copy.commit_group()
    else:
        ampere.async_copy.wait_group(0)
    gl.store(x_ptr + gl.arange(0, 128, layout), smem.load(layout))


@pytest.mark.parametrize(
    ("commits", "says"),
    [
        (False, r"no async_copy\.commit_group stands behind it, so no async_copy\.wait_group"),
        (True, r"nobody has waited with async_copy\.wait_group"),
    ],
)
def test_a_copy_that_no_group_holds_is_told_so(commits, says):
    with pytest.raises(HazardError, match=says):
        simulate(uncommitted_kernel, 1, torch.zeros(128), commits, num_warps=1)
