"""What verify says leads to the mend: names, places and lines are the reader's own."""

import pytest
import torch
import triton
import triton.language as tl

from course import MODE
from course.verifying.api import verify
from course.verifying.inputs import Case, Input

pytestmark = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: a GPU cannot be watched so")


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.jit
def tile_kernel(x_ptr, out_ptr, stride, apart, COLS: tl.constexpr, ROWS: tl.constexpr):
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    x = tl.load(x_ptr + rows[:, None] * stride + cols[None, :])
    tl.store(out_ptr + rows[:, None] * apart + cols[None, :], x)


@triton.jit
def wide_kernel(x_ptr, out_ptr):
    cols = tl.arange(0, 2048)
    tl.store(out_ptr + cols, tl.load(x_ptr + cols), mask=cols < 2000)


@triton.jit
def planes_kernel(x_ptr, out_ptr):
    cols = tl.arange(0, 8)
    x = tl.load(x_ptr + tl.program_id(axis=2) * 8 + cols)
    tl.store(out_ptr + cols, x)


@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + cols, mask=cols < n), axis=0))


@triton.jit
def last_of_each_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n)
    tl.store(out_ptr + cols, x - x, mask=cols < n)


def copied(x):
    out = torch.empty(x.shape, dtype=x.dtype)
    copy_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def tiled(stride, apart, cols=8, rows=4):
    def tiled(x):
        out = torch.empty(x.shape, dtype=x.dtype)
        tile_kernel[(1,)](x, out, stride, apart, COLS=cols, ROWS=rows)
        return out

    return tiled


def backwards(x):
    out = torch.empty_like(x)
    copy_kernel[(1,)](out, x, x.numel(), BLOCK=64)
    return out


def planes(x):
    out = torch.empty_like(x)
    planes_kernel[(1, 1, 3)](x, out)
    return out


def summed(x):
    out = torch.empty(1, dtype=x.dtype)
    total_kernel[(1,)](x, out, x.numel(), BLOCK=64)
    return out


def partly_written(x):
    out = torch.empty_like(x)
    copy_kernel[(1,)](x, out, x.numel(), BLOCK=8)
    return out


def nan_of_infinities(x):
    out = torch.empty_like(x)
    last_of_each_kernel[(1,)](x, out, x.numel(), BLOCK=64)
    return out


@triton.jit
def third_axis_kernel(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(out_ptr, tl.sum(x, axis=2))


def along_a_third_axis(x):
    out = torch.empty_like(x)
    third_axis_kernel[(1,)](x, out)
    return out


def reason(function, *shape, layout="contiguous", values="normal", reference=torch.clone):
    case = Case((Input(shape, layout=layout, values=values),))
    (outcome,) = verify(function, reference, [case]).outcomes
    assert outcome.verdict == "wrong"
    return outcome.reason


def test_a_read_in_a_gap_names_the_elements_and_how_far_they_are_apart():
    said = reason(copied, 20, layout="every second element")
    assert "Program 0 read between x_ptr[0] and x_ptr[1]: x_ptr has gaps" in said
    assert "its elements are 2 apart. Multiply the offsets by its stride" in said


def test_a_program_of_a_grid_of_two_axes_has_two_numbers():
    def tiles(x):
        out = torch.empty_like(x)
        wide_kernel[(1, 2)](x, out)
        return out

    says = "Program (0, 0) read outside x_ptr, whose length is 2,000: at [2000]"
    assert says in reason(tiles, 2000)


def test_the_numbers_of_a_case_have_the_names_of_the_function():
    def scaled(x, scale, causal):
        return x * (scale + causal)

    case = Case((Input((5,)),), scalars=(0.17677669, 3))
    (outcome,) = verify(scaled, lambda x, *_: x, [case]).outcomes
    assert outcome.case == "5 float32, scale = 0.1768, causal = 3"


@pytest.mark.parametrize(
    ("function", "shape", "layout", "says"),
    [
        (tiled(8, 8, rows=8), (4, 8), "contiguous", "outside x_ptr, which is 4 x 8: at [4, 0]"),
        (tiled(13, 8, 16), (4, 8), "left part of a wider one",
         "outside x_ptr, which is 4 x 8 with strides (13, 1): at [0, 8]"),
        (tiled(8, 4), (4, 8), "contiguous", "different values to out_ptr[0, 4]."),
        (planes, (3, 1, 8), "contiguous",
         "Programs (0, 0, 0) and (0, 0, 2) wrote different values to out_ptr[0, 0, 0]."),
    ],
    ids=["past the rows", "past a row", "rows that overlap", "planes"],
)  # fmt: skip
def test_a_place_is_an_index_in_as_many_axes_as_the_tensor_has(function, shape, layout, says):
    assert says in reason(function, *shape, layout=layout)


@pytest.mark.parametrize(
    ("function", "shape", "line"),
    [
        (tiled(8, 8, rows=8), (4, 8), "x = tl.load(x_ptr + rows[:, None] * stride"),
        (tiled(8, 4), (4, 8), "tl.store(out_ptr + rows[:, None] * apart"),
        (planes, (3, 1, 8), "tl.store(out_ptr + cols, x)"),
        (along_a_third_axis, (16,), "tl.store(out_ptr, tl.sum(x, axis=2))"),
    ],
    ids=[
        "a read outside",
        "lanes that race",
        "programs that race",
        "an exception in one of Triton's helpers",
    ],
)
def test_the_line_is_named_and_shown(function, shape, line):
    first = reason(function, *shape).splitlines()[0]
    assert first.startswith("Line ") and f" of test_messages.py:  {line}" in first


def test_each_line_of_what_is_wrong_is_indented():
    case = Case((Input((4, 8)),))
    _, first, *lines = str(verify(tiled(8, 4), torch.clone, [case])).splitlines()
    assert first == "First wrong case: 4 x 8 float32."
    assert len(lines) == 2 and all(line.startswith("    ") for line in lines)


def test_arguments_in_the_wrong_order_are_named_as_the_kernel_knows_them():
    line, sentence = reason(backwards, 20).split("\n")
    assert "tl.store(out_ptr + offsets" in line
    assert sentence == (
        "It changed its input x, which the kernel calls out_ptr: look at the order of the "
        "arguments."
    )


def test_undefined_lanes_are_named_where_the_wrong_element_is_computed_from_them():
    assert "undefined, and hold infinities here: this element is computed from them" in reason(
        summed, 20, reference=lambda x: x.sum(0, keepdim=True)
    )


@pytest.mark.parametrize(
    ("function", "values"), [(partly_written, "normal"), (nan_of_infinities, "NaN and inf")]
)
def test_undefined_lanes_are_not_named_where_they_change_nothing(function, values):
    assert "undefined" not in reason(function, 20, values=values)
