"""Why a result is wrong, where the accesses of its programs show it."""

import pytest
import torch
import triton
import triton.language as tl

from course import MODE
from course.verifying.api import verify
from course.verifying.inputs import Case, Input

pytestmark = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: the interpreter sees accesses")

VECTOR, MATRIX = Case((Input((100,)),)), Case((Input((40, 50)),))


def told(function, reference, case=VECTOR, block=32) -> str:
    (outcome,) = verify(function, reference, [case], block=block).outcomes
    assert outcome.verdict == "wrong"
    return outcome.reason


@triton.jit
def scale_kernel(x_ptr, out_ptr, n_elements, a, b, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, a * x + b, mask=mask)


def numbers_in_the_wrong_order(x):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 32),)](x, out, -0.5, x.numel(), 2.0, BLOCK_SIZE=32)
    return out


def in_place(x):
    scale_kernel[(triton.cdiv(x.numel(), 32),)](x, x, x.numel(), 2.0, 0.0, BLOCK_SIZE=32)
    return x


def test_a_count_that_is_none_is_named():
    words = "The mask keeps program 0 from storing it, and n_elements is -0.5: look at the order"
    assert words in told(numbers_in_the_wrong_order, lambda x: x)


def test_one_tensor_for_two_parameters_is_named():
    words = "input x, which the kernel calls x_ptr and out_ptr: allocate an output"
    assert words in told(in_place, lambda x: 2 * x)


@triton.jit
def rows_kernel(x_ptr, limit_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    limit = tl.load(limit_ptr + row)
    cols = tl.arange(0, BLOCK_SIZE)
    far = row * (row > 39).to(tl.int32) * 10**7
    x = tl.load(x_ptr + far + row * n_cols + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * n_cols + cols, tl.minimum(x, limit), mask=cols < n_cols)


def a_program_too_many(x, limit):
    out = torch.empty_like(x)
    rows_kernel[(x.shape[0] + 1,)](x, limit, out, x.shape[1], BLOCK_SIZE=64)
    return out


def test_what_was_outside_first_is_told_and_not_what_was_far():
    case = Case((Input((40, 50)), Input((40,))))
    words = "Program 40 read outside limit_ptr, whose length is 40: at [40]."
    assert words in told(a_program_too_many, lambda x, limit: x, case, block=None)


@triton.jit
def sums_kernel(x_ptr, out_ptr, n_cols, end, BLOCK_SIZE: tl.constexpr):
    row, total = tl.program_id(0), 0.0
    for start in range(0, end, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        total += tl.sum(tl.load(x_ptr + row * n_cols + cols))
    tl.store(out_ptr + row, total)


def sums_up_to(end):
    def sums(x):
        out = torch.empty(len(x))
        sums_kernel[(len(x),)](x, out, x.shape[1], end, BLOCK_SIZE=16)
        return out

    return sums


def test_only_a_loop_that_goes_on_too_far_is_told_so_where_a_mask_would_help_as_well():
    words = "Its block begins at [39, 64], past the end: does a loop go on too far?"
    assert words in told(sums_up_to(65), lambda x: x.sum(1), Case((Input((40, 64)),)), None)
    assert "has no mask" in told(sums_up_to(50), lambda x: x.sum(1), MATRIX, None)


@triton.jit
def looping_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    for start in range(0, n, BLOCK_SIZE):
        offsets = tl.program_id(0) * n + start + tl.arange(0, BLOCK_SIZE)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def an_axis_too_many(x):
    out = torch.empty_like(x)
    looping_kernel[(1, 2000)](x, out, x.numel(), BLOCK_SIZE=32)
    return out


def test_an_axis_that_no_program_asks_for_is_named_before_all_of_it_has_run():
    case = Case((Input((100_000,)),))
    words = "2,000 programs along axis 1, and none asks for tl.program_id(1): each element is done"
    assert words in told(an_axis_too_many, torch.clone, case, block=1024)


@triton.jit
def rounding_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    a = tl.load(a_ptr + offsets, mask=offsets < n).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=offsets < n)
    gated = (tl.sigmoid(a).to(tl.float16) * a.to(tl.float16)).to(tl.float16)
    gated = (gated + 1).to(tl.float16) - 1
    tl.store(out_ptr + offsets, gated * b, mask=offsets < n)


def rounded_between(a, b):
    out = torch.empty_like(a)
    rounding_kernel[(triton.cdiv(a.numel(), 256),)](a, b, out, a.numel(), BLOCK_SIZE=256)
    return out


def test_a_line_that_rounds_on_the_way_is_named():
    case = Case((Input((1000,), torch.float16),) * 2)
    text = told(rounded_between, lambda a, b: torch.nn.functional.silu(a) * b, case)
    assert "gated = (tl.sigmoid(a)" in text.split("\n")[0]
    assert "compute in float32 and round once" in text


@triton.jit
def sum_of_two_kernel(x_ptr, y_ptr, out_ptr, n, START: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load((y_ptr if START else x_ptr) + (offsets + START) % n, mask=offsets < n)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)


def sum_of_two(start):
    def function(x, y):
        out = torch.empty_like(x)
        sum_of_two_kernel[(4,)](x, y, out, x.numel(), START=start, BLOCK_SIZE=32)
        return out

    return function


def test_a_number_is_named_that_the_program_does_not_read():
    two = Case((Input((100,)), Input((100,))))
    words = "This element needs y_ptr, which nobody reads."
    assert words in told(sum_of_two(0), torch.add, two)
    words = "This element needs y_ptr[0], and program 0, which stores it, reads only y_ptr[40] to "
    assert words in told(sum_of_two(40), torch.add, two)


def test_nothing_is_said_to_be_unread_where_all_of_it_is_read():
    two = Case((Input((100,)), Input((100,))))
    assert "This element needs" not in told(sum_of_two(100), torch.sub, two)


@triton.jit
def by_axis_1_kernel(x_ptr, out_ptr):
    number = tl.program_id(1)
    tl.store(out_ptr + number, tl.load(x_ptr + number))


@triton.jit
def numbered_twice_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def launched(kernel, grid, *options):
    def function(x):
        out = torch.empty_like(x)
        kernel[grid](x, out, *options)
        return out

    return function


def test_one_number_is_no_offset_in_bytes():
    words, case = "tl.program_id(1) is always 0, since the grid is (5,)", Case((Input((5,)),))
    assert words in told(launched(by_axis_1_kernel, (5,)), torch.clone, case, None)


def test_a_block_that_begins_far_past_the_end_is_named():
    words = "Its block of 128 begins at element 16,384, where pid * BLOCK_SIZE is 128"
    case = Case((Input((300,)),))
    assert words in told(launched(numbered_twice_kernel, (3,), 300, 128), torch.clone, case, 128)


@triton.jit
def tile_kernel(x_ptr, out_ptr, n_rows, n_cols, DOWN, ALONG, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * DOWN + cols[None, :] * ALONG, mask=mask)
    tl.store(out_ptr + rows[:, None] * n_cols + cols[None, :], x, mask=mask)


@pytest.mark.parametrize(
    "steps, says",
    [
        ((128, 1), ""),
        ((256, 1), "lie 256 apart and columns 1, and x_ptr's axes 128 and 1: look at the strides"),
        ((1, 192), "lie 1 apart and columns 192, and x_ptr's axes 128 and 1: look at the strides"),
    ],
)
def test_other_strides_are_told_and_no_mask_blamed(steps, says):
    def tiled(x):
        out = torch.empty_like(x)
        tile_kernel[(2,)](x, out, *x.shape, *steps, BLOCK=64)
        return out

    result = verify(tiled, torch.clone, [Case((Input((64, 128)),))])
    assert result.right if not says else says in str(result) and "must be" not in str(result)


@triton.jit
def edge_of_rows_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(0) * 8 + tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + rows * n_cols + cols, mask=(rows <= n_rows) & (cols < n_cols), other=0.0)
    tl.store(out_ptr + rows * n_cols + cols, x, mask=(rows < n_rows) & (cols < n_cols))


def one_row_too_many(x):
    out = torch.empty_like(x)
    edge_of_rows_kernel[(triton.cdiv(x.shape[1], 8),)](x, out, *x.shape, BLOCK=64)
    return out


def test_a_row_too_many_is_not_taken_for_columns():
    case = Case((Input((40, 33)),))
    reason = told(one_row_too_many, lambda x: x, case, None)
    assert "at [40, 0]. Some rows of this tile are outside" in reason
