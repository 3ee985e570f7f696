"""tma.async_atomic_add: what several programs add to one place, and what must be waited for."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course.simulating.api import simulate
from course.simulating.faults import HazardError


def descriptor(tensor):
    layout = gl.NVMMASharedLayout.get_default_for([16, 32], gl.float32)
    return TensorDescriptor(tensor, [*tensor.shape], [*tensor.stride()], [16, 32], layout)


@gluon.jit
def add_kernel(out_desc, FAULT: gl.constexpr):
    """Every program adds 1, and then 2, to the first tile, and 3 to a tile of its own."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(out_desc.dtype, [16, 32], out_desc.layout)
    rows = (0, 0, (1 + gl.program_id(0)) * 16)
    for i in gl.static_range(3):
        tile.store(gl.full([16, 32], i + 1.0, gl.float32, layout))
        if FAULT != "no fence":
            fence_async_shared()
        tma.async_atomic_add(out_desc, [rows[i], 0], tile)
        if FAULT != "no wait":
            tma.store_wait(0)
    if FAULT == "a store as well":
        tma.async_store(out_desc, [16, 0], tile)
        tma.store_wait(0)


def test_what_programs_add_to_one_place_is_summed():
    out = torch.arange(70 * 32).reshape(70, 32).float()
    before = out.clone()
    simulate(add_kernel, (4,), descriptor(out), "none")
    assert torch.equal(out[:16], before[:16] + 4 * (1 + 2))
    assert torch.equal(out[16:], before[16:] + 3)  # the last program's tile reaches past the end


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no fence", "tile was written by store and is copied out with no fence"),
        ("no wait", "tile is written while a copy out of it is still under way"),
        ("a store as well", r"out_desc\[512\] is written and added to in one launch"),
    ],
)
def test_a_fault_is_named(fault, says):
    out = torch.zeros(64, 32)
    with pytest.raises(HazardError, match=says):
        simulate(add_kernel, (2,), descriptor(out), fault)


def test_a_nan_that_is_added_stays():
    out = torch.zeros(64, 32)
    out[3, 5] = float("nan")
    simulate(add_kernel, (1,), descriptor(out), "none")
    assert out[3, 5].isnan()
    assert out.isnan().sum() == 1
