"""warp_specialize: what the first partition inherits, and what is refused."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

from course.simulating.api import simulate
from course.simulating.faults import SimulationError
from tests.simulating.kernels import descriptor


@gluon.jit
def _wait(warps_ptr):
    tma.store_wait(0)
    gl.store(warps_ptr, gl.num_warps())


@gluon.jit
def _count(warps_ptr):
    gl.store(warps_ptr + 1, gl.num_warps())


@gluon.jit
def begun_kernel(out_desc, warps_ptr):
    """The first partition waits for a copy that was begun before."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [8, 1], [1, 0])
    out = gl.allocate_shared_memory(out_desc.dtype, [16, 64], out_desc.layout)
    out.store(gl.full([16, 64], 2.0, gl.float16, layout))
    fence_async_shared()
    tma.async_store(out_desc, [0, 0], out)
    gl.warp_specialize([(_wait, (warps_ptr,)), (_count, (warps_ptr,))], [2], [24])
    gl.store(warps_ptr + 2, gl.num_warps())


def test_the_first_partition_goes_on_with_what_the_kernel_has_begun():
    out, warps = torch.zeros(16, 64, dtype=torch.float16), torch.zeros(3)
    simulate(begun_kernel, (1,), descriptor(out, [16, 64]), warps, num_warps=8)
    assert (out == 2).all()
    assert warps.tolist() == [8, 2, 8]


@gluon.jit
def _nested(warps_ptr):
    gl.warp_specialize([(_count, (warps_ptr,)), (_count, (warps_ptr,))], [4], [24])


@gluon.jit
def nested_kernel(warps_ptr):
    gl.warp_specialize([(_count, (warps_ptr,)), (_nested, (warps_ptr,))], [4], [24])


def test_a_partition_within_a_partition_is_refused():
    with pytest.raises(SimulationError, match=r"A partition cannot call gl\.warp_specialize"):
        simulate(nested_kernel, (1,), torch.zeros(2))


@gluon.jit
def lengths_kernel(warps_ptr, WARPS: gl.constexpr, REGS: gl.constexpr):
    gl.warp_specialize([(_count, (warps_ptr,)), (_count, (warps_ptr,))], WARPS, REGS)


@pytest.mark.parametrize(
    ("warps", "regs", "words"),
    [
        ([4, 4], [24], "worker_num_warps needs one .* 1 in all, and has 2"),
        ([4], [], "worker_num_regs needs one .* 1 in all, and has 0"),
    ],
)
def test_lists_of_another_length_are_refused(warps, regs, words):
    with pytest.raises(SimulationError, match=words):
        simulate(lengths_kernel, (1,), torch.zeros(2), warps, regs)
