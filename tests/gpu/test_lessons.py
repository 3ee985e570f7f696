"""What the lessons say that a GPU does, done on one."""

import pytest
import torch
import triton
import triton.language as tl

from course import apart

pytestmark = pytest.mark.gpu


@triton.jit
def total_kernel(x_ptr, total_ptr):
    offsets = tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)
    part = tl.sum(tl.load(x_ptr + offsets), axis=0)
    tl.store(total_ptr, tl.load(total_ptr) + part)


@triton.jit
def order_kernel(counter_ptr, order_ptr):
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(order_ptr + ticket, tl.program_id(axis=0))


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
    ones, total = torch.ones(1024 * 1024, device="cuda"), torch.zeros(1, device="cuda")
    total_kernel[(1024,)](ones, total)
    assert 0 < total.item() < ones.numel() / 2


def test_programs_run_in_no_order():
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    order = torch.empty(512, dtype=torch.int32, device="cuda")
    order_kernel[(512,)](counter, order)
    started = order.tolist()
    print(started[:16])
    assert sorted(started) == list(range(512)) != started
    assert started[:16] != list(range(16))


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
