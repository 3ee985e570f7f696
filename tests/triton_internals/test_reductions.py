"""Reductions by a function of the kernel's own: what they give, and what they take."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course.triton_internals.interpreter import interpreter_watched
from course.triton_internals.operation_counts import effort_counted, operations_counted


class Unseen:
    """An observer that looks at nothing."""

    def launch(self, launch): ...
    def program(self, program): ...
    def access(self, access): ...


@triton.jit
def joined_moments(mean, squares, count, other_mean, other_squares, other_count):
    apart = other_mean - mean
    total = count + other_count
    share = tl.where(total == 0, 0.0, other_count / total)
    squares += other_squares + apart * apart * count * share
    return mean + apart * share, squares, total


@triton.jit
def variance_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    counts = (i < n).to(tl.float32)
    _, squares, count = tl.reduce((x, tl.zeros_like(x), counts), 0, joined_moments)
    tl.store(out_ptr, squares / count)


@triton.jit
def larger(a, b):
    return a if a > b else b


@triton.jit
def most_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, BLOCK)), 0, larger))


@triton.jit
def left(a, b):
    return a


@triton.jit
def right(a, b):
    return b


@triton.jit
def ends_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i[:, None] * BLOCK + i[None, :])
    tl.store(out_ptr + i, tl.reduce(x, 1, left))
    tl.store(out_ptr + BLOCK + i, tl.reduce(x, 1, right))
    tl.store(out_ptr + 2 * BLOCK + i, tl.reshape(tl.reduce(x, 0, right, keep_dims=True), (BLOCK,)))
    tl.store(out_ptr + 3 * BLOCK, tl.reduce(x, None, right))


@triton.jit
def sums_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i[:, None] * BLOCK + i[None, :])
    tl.store(out_ptr + i, tl.sum(x, 1))
    tl.store(out_ptr + BLOCK + i[:, None], tl.sum(x, 1, keep_dims=True))
    tl.store(out_ptr + 2 * BLOCK, tl.sum(x))


def run(kernel, *args):
    def stop():
        raise AssertionError

    with (
        np.errstate(all="ignore"),
        operations_counted() as operations,
        interpreter_watched(Unseen()),
        effort_counted(10**9, stop) as effort,
    ):
        kernel[(1,)](*args)
    return effort.operations, operations.simple


@pytest.fixture
def x():
    return torch.randn(512, generator=torch.Generator().manual_seed(0))


def test_a_combine_of_several_values_runs_on_halves_of_a_block(x):
    out = torch.zeros(1)
    taken, counted = run(variance_kernel, x, out, 300, 512)
    assert out.item() == pytest.approx(x[:300].var(correction=0).item(), rel=1e-5)
    assert taken < 512  # one by one it takes some 30 for each element
    assert counted["fp32"] == 511 * 10 + 1  # as many results as one by one


def test_a_combine_that_branches_on_its_numbers_runs_one_by_one(x):
    out = torch.zeros(1)
    run(most_kernel, x, out, 512)
    assert out.item() == x.max().item()


def test_operands_keep_their_order_along_every_axis(x):
    out, square = torch.zeros(13), x[:16].reshape(4, 4)
    run(ends_kernel, square, out, 4)
    ends = [*square[:, 0], *square[:, -1], *square[-1], square[-1, -1]]
    assert out.tolist() == [end.item() for end in ends]


def test_half_precision_is_added_in_half_precision():
    """As compiled code does: 2,048 + 1 is 2,048 there, and 2,048 + 2 is not."""
    out, x = torch.zeros(17, dtype=torch.float16), torch.ones(8, 8, dtype=torch.float16)
    x[:, 0] = 2048
    run(sums_kernel, x, out, 8)
    assert out.tolist() == [2054.0] * 16 + [8 * 2054.0]
    run(sums_kernel, x.float(), (exact := torch.zeros(17)), 8)
    assert exact.tolist() == [2055.0] * 16 + [8 * 2055.0]


@triton.jit
def row_extremes_kernel(x_ptr, out_ptr, place_ptr, WHOLE: tl.constexpr):
    rows, cols = tl.arange(0, 4), tl.arange(0, 8)
    x = tl.load(x_ptr + rows[:, None] * 8 + cols[None, :])
    if WHOLE:
        tl.store(out_ptr, tl.max(x))
    else:
        most, place = tl.max(x, axis=1, return_indices=True)
        tl.store(out_ptr + rows, most)
        tl.store(place_ptr + rows, place)
        tl.store(place_ptr + 4 + rows, tl.argmin(x, axis=1))


@pytest.mark.filterwarnings("error")
def test_a_row_without_a_number_has_an_extreme_that_is_none():
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    x[2] = float("nan")
    x[1, 0] = float("nan")
    out, places = torch.zeros(4), torch.zeros(8, dtype=torch.int32)
    with interpreter_watched(Unseen()):
        row_extremes_kernel[(1,)](x, out, places, WHOLE=False)
    numbers = [0, 1, 3]
    assert out[2].isnan() and torch.equal(out[numbers], x.nan_to_num(-9).amax(1)[numbers])
    assert places[2] == places[6] == 0
    assert torch.equal(places[4:][numbers].long(), x.nan_to_num(9).argmin(1)[numbers])
    with interpreter_watched(Unseen()):
        row_extremes_kernel[(1,)](x, out, places, WHOLE=True)
        assert out[0] == x.nan_to_num(-9).max()
        row_extremes_kernel[(1,)](x * float("nan"), out, places, WHOLE=True)
    assert out[0].isnan()
