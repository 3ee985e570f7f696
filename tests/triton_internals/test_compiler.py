"""Launches that compile and run nothing, to machine code or no further than Triton's own IR."""

import contextlib

import pytest
import torch
import triton
import triton.language as tl

from course.gpus.limits import target_of
from course.isolate import runs_in
from course.triton_internals.compiler import MOST_UNFINISHED, launches_compiled

H100 = target_of("sm_90").triton


@triton.jit
def copy_kernel(x_ptr, out_ptr, n: tl.constexpr):
    offsets = tl.arange(0, n)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def returning_kernel(x_ptr, out_ptr, n: tl.constexpr):
    return tl.load(x_ptr)


@triton.jit
def mismatched_kernel(x_ptr, out_ptr, n: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, n), tl.arange(0, 2 * n))


KERNELS = {each.__name__: each for each in (copy_kernel, returning_kernel, mismatched_kernel)}


@runs_in("compile")
def compiled(name: str, launches: int, to_machine_code: bool) -> tuple[int, int, int]:
    """How many launches were compiled to their end, how many up to TTGIR, and how many refused."""
    x = torch.zeros(64)
    with launches_compiled(H100, to_machine_code=to_machine_code) as done:
        for number in range(launches):
            with contextlib.suppress(Exception):  # it is noted among the problems
                KERNELS[name][(1,)](x, x, 2 ** (number % 4), num_warps=1)
    return len(done.kernels), done.unfinished, len(done.problems)


@pytest.mark.parametrize(
    ("kernel", "to_machine_code", "came_of_it"),
    [
        ("copy_kernel", True, (4, 0, 0)),
        ("copy_kernel", False, (0, 4, 0)),
        ("mismatched_kernel", False, (0, 0, 4)),
        ("returning_kernel", False, (0, 0, 4)),  # which only LLVM's part refuses
    ],
)
def test_what_is_refused_is_refused_either_way(kernel, to_machine_code, came_of_it):
    assert compiled(kernel, 4, to_machine_code) == came_of_it


def test_a_launch_for_each_element_is_compiled_a_few_times(monkeypatch):
    assert compiled("copy_kernel", 1000, False) == (0, MOST_UNFINISHED, 0)
