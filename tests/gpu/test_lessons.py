"""What the lessons say that a GPU does, done on one."""

import pytest
import torch
import triton
import triton.language as tl

from course import apart
from course.benching.observed import PROGRAMS, SHOWN, observe

pytestmark = pytest.mark.gpu


@triton.jit
def bfloat16_kernel(x_ptr, twice_ptr, dot_ptr):
    offsets = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + offsets)
    tl.store(twice_ptr + offsets, x + x)
    tl.store(dot_ptr + offsets, tl.dot(x, x))


@triton.jit
def far_kernel(x_ptr, distance):
    tl.store(x_ptr, tl.load(x_ptr + distance))


def test_a_race_loses_most_parts():
    seen = observe()
    assert 0 < seen.race_total < 1024 * PROGRAMS / 2


def test_programs_start_in_no_order():
    assert observe().first_programs != tuple(range(SHOWN))


def test_bfloat16_is_right_on_a_gpu():
    ones = torch.ones(16, 16, device="cuda", dtype=torch.bfloat16)
    twice, dot = torch.empty_like(ones), torch.empty(16, 16, device="cuda")
    bfloat16_kernel[(1,)](ones, twice, dot)
    assert (twice == 2).all() and (dot == 16).all()


def read_far_away():
    x = torch.zeros(4, device="cuda")
    far_kernel[(1,)](x, 1_000_000_000_000)
    print(x)


def test_a_read_far_out_of_bounds_ends_the_child_and_not_this_process(capsys, monkeypatch):
    for function in (read_far_away, far_kernel.fn):
        monkeypatch.setattr(function, "__module__", "__main__")
    apart(read_far_away)
    assert "illegal memory access" in capsys.readouterr().out
    assert torch.ones(3, device="cuda").sum().item() == 3
