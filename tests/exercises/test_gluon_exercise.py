"""Exercises in Gluon: what is no answer, what is left open, and what each fault is called."""

import pytest
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course import check
from course.exercises.judges.simulated import NAMES, _judged
from course.simulating.api import simulate
from course.simulating.faults import SimulationError
from tests.simulating import kernels

CALLED = {
    "never arrives": ("deadlock", "arrivals"),
    "wrong phase of empty": ("deadlock", "arrivals"),
    "arrives at the wrong slot": ("deadlock", "arrivals"),
    "one arrival too many asked": ("deadlock", "arrivals"),
    "too many bytes expected": ("deadlock", "bytes"),
    "nothing expected": ("deadlock", "no expect"),
    "no wait for full": ("hazard", "early read"),
    "wrong phase of full": ("hazard", "early read"),
    "no wait for empty": ("hazard", "too many arrivals"),
    "arrives too early": ("hazard", "early read"),
    "no fence before the next copy": ("hazard", "no fence"),
    "no fence": ("hazard", "no fence"),
}
"""fault -> verdict, kind"""


@pytest.mark.parametrize("fault", CALLED)
def test_a_fault_has_a_verdict_and_a_name(fault):
    args, _, _ = kernels.ring_arguments(7, 2, fault)
    with pytest.raises(SimulationError) as caught:
        simulate(kernels.ring_kernel, (1,), *args)
    judged = _judged(caught.value, "a case")
    assert (judged.verdict, judged.kind) == CALLED[fault]
    assert judged.reason.startswith(f"{NAMES[judged.kind]}.")


@triton.jit
def tl_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK):
    pass


@gluon.jit
def unknown_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    gl.atomic_add(out_ptr + i, gl.load(x_ptr + i, mask=i < n), mask=i < n)


@gluon.jit
def auto_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.AutoLayout()
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    x = gl.load(x_ptr + i, mask=i < n)
    y = gl.load(y_ptr + i, mask=i < n)
    gl.store(out_ptr + i, x + y, mask=i < n)


def test_a_layout_that_is_left_open_is_named_with_its_line():
    checked = check("layout-for-wide-loads", auto_kernel)
    assert checked.verdict == "does not compile"
    assert "  i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)" in checked.reason
    assert "this block has no layout" in checked.reason


def test_a_kernel_of_tl_is_no_answer():
    assert "It must be a Gluon kernel" in str(checked := check("layout-for-wide-loads", tl_kernel))
    assert checked.verdict == "no answer"
    assert "this is a kernel" in str(checked)


def test_a_kernel_of_gluon_is_no_answer_where_tl_is_asked_for():
    assert "this is a Gluon kernel" in str(check("every-pair", unknown_kernel))


def test_what_the_simulation_does_not_know_counts_neither_as_right_nor_as_wrong():
    checked = check("layout-for-wide-loads", unknown_kernel)
    assert checked.verdict == "left to the GPU", torch.__version__
    assert "does not know gl.atomic_add" in str(checked)
    assert "Write it with what the lesson uses" in str(checked)
