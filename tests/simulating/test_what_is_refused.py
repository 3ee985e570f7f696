"""simulate refuses what Gluon's compiler refuses, and writes whose order nothing decides."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course.simulating.api import simulate
from course.simulating.faults import HazardError, SimulationError


@gluon.jit
def strided_kernel(x_ptr, out_ptr, BLOCK: gl.constexpr, STEP: gl.constexpr, LANES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, BLOCK, layout=layout)
    first = gl.program_id(0) * STEP
    gl.store(out_ptr + first + offsets // LANES, gl.load(x_ptr + first + offsets))


def run(programs=2, block=32, step=32, lanes=1, num_warps=4, x=None):
    x = torch.arange(1.0, 129) if x is None else x
    out = torch.zeros(128)
    simulate(strided_kernel, (programs,), x, out, block, step, lanes, num_warps=num_warps)
    return out


def test_a_right_kernel_runs():
    assert run(programs=4).tolist() == list(range(1, 129))


def test_a_layout_for_other_warps_is_refused():
    with pytest.raises(SimulationError, match=r"warps_per_cta=\[4\] are 4 warps, and 8 run this"):
        run(num_warps=8)


def test_a_block_whose_size_is_no_power_of_two_is_refused():
    with pytest.raises(SimulationError, match="powers of two, and this one has 24"):
        run(block=24)


def test_lanes_that_write_different_values_to_one_place_are_named():
    with pytest.raises(HazardError, match=r"Two lanes write different values to out_ptr\[0\]"):
        run(lanes=2)
    run(programs=1, lanes=2, x=torch.ones(128))  # which of equal values is the last is the same


def test_programs_may_write_the_same_value_to_one_place():
    assert run(step=16)[:48].tolist() == list(range(1, 49))


@gluon.jit
def everybody_kernel(x_ptr, out_ptr, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, BLOCK, layout=layout)
    x = gl.load(x_ptr + offsets)
    gl.store(out_ptr + offsets, x + gl.program_id(0))


def test_programs_that_all_write_the_whole_result_are_named():
    out = torch.zeros(32)[8:]
    with pytest.raises(
        HazardError, match=r"Programs 0 and 1 write different values to out_ptr\[0\]"
    ):
        simulate(everybody_kernel, (2,), torch.ones(16), out, 16)


@gluon.jit
def large_kernel(out_ptr, SIZE: gl.constexpr):
    gl.allocate_shared_memory(gl.float32, [SIZE], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    gl.store(out_ptr, 1.0)


def test_more_shared_memory_than_a_program_may_have_is_refused():
    simulate(large_kernel, 1, torch.zeros(1), 2**15)
    words = r"262,144 bytes of shared memory: a program may have 232,448\."
    with pytest.raises(SimulationError, match=words):
        simulate(large_kernel, 1, torch.zeros(1), 2**16)
