"""What may be given as an argument, and what is said of the rest."""

from typing import NamedTuple

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course import cost, lower
from course.cli import split_signature
from course.errors import CourseError
from course.lowering.api import LowerError
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD


class Size(NamedTuple):
    rows: int
    columns: int


class Tensors(NamedTuple):
    x: torch.Tensor
    out: torch.Tensor


@gluon.jit
def column_kernel(x_ptr, layout: gl.constexpr):
    offsets = gl.arange(0, 256, layout)
    gl.store(x_ptr + offsets, gl.load(x_ptr + offsets))


def test_a_layout_is_an_argument_of_a_gluon_kernel():
    tile = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    for layout in (gl.BlockedLayout([2], [32], [4], [0]), gl.SliceLayout(0, tile)):
        lowered = lower(column_kernel, "*fp32:16", layout, target="sm_90")
        width = 4 if isinstance(layout, gl.SliceLayout) else 2
        assert f"ld.global.v{width}.b32" in lowered.ptx


def test_what_heuristics_choose_is_taken_from_the_arguments():
    def even(n, **options):
        lowered = lower(kernels.chosen_kernel, torch.zeros(64), n, BLOCK=64, **options)
        return lowered.metadata["constants"]["EVEN"]

    assert even(8) == "True"
    assert even(7) == "False"
    assert even(7, EVEN=True) == "True"


def test_parameters_may_be_called_as_the_jits_own():
    by_place = lower(kernels.self_kernel, "*i32:16", "i32", 64)
    assert list(by_place.metadata["signature"]) == ["self", "grid", "BLOCK"]
    assert lower(kernels.self_kernel, "*i32:16", grid="i32", BLOCK=64).ttir == by_place.ttir


def test_a_jitted_function_may_be_a_constant():
    lowered = lower(kernels.apply_kernel, "*fp32:16", kernels.square, 64, target="sm_90")
    assert "arith.mulf" in lowered.ttir


GIVEN = "BLOCK is a constant and was given as"


@pytest.mark.parametrize(
    ("block", "options", "says"),
    [
        ("i32", {}, f"{GIVEN} i32, so give the value that it has in a launch"),
        ("x", {}, f"{GIVEN} x"),
        (None, {}, f"{GIVEN} None"),
        (64, {"num_warps": "x"}, "num_warps is 'x': it must be a power of two"),
        (64, {"num_ctas": 3}, "num_ctas is 3: it must be a power of two"),
        (64, {"num_warps": 3}, "num_warps is 3"),
    ],
)
def test_a_constant_or_an_option_without_a_proper_value_is_named(block, options, says):
    with pytest.raises(CourseError, match=says):
        lower(kernels.tile_sum_kernel, "*fp32:16", "*fp32:16", block, **options)


@triton.jit
def pair_kernel(tensors, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE.rows)[:, None] * SIZE.columns + tl.arange(0, SIZE.columns)[None, :]
    tl.store(tensors.out + i, tl.load(tensors.x + i))


def test_tuples_keep_the_names_of_their_items():
    tensors = Tensors(torch.ones(32), torch.zeros(32))
    assert "tensor<4x8x!tt.ptr<f32>>" in lower(pair_kernel, tensors, Size(4, 8)).ttir
    assert cost(pair_kernel, (1,), tensors, Size(4, 8)).bytes_stored == 4 * 32


@triton.jit
def rows_kernel(x_ptr, shape, strides, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    row = x_ptr + tl.program_id(0) * strides[0] + columns * strides[1]
    tl.store(row, 1.0, mask=columns < shape[1])


def test_the_shape_of_a_tensor_is_a_tuple():
    x = torch.zeros(3, 5)
    assert "tt.store" in lower(rows_kernel, x, x.shape, x.stride(), BLOCK=8).ttir
    assert cost(rows_kernel, (3,), x, x.shape, x.stride(), BLOCK=8).bytes_stored == 4 * 15


NO_LIST = "x_ptr is a list: give a tensor, or a tuple where the kernel takes one"
ROW = torch.ones(2)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1.0, 2.0], NO_LIST),
        (torch.eye(4).to_sparse(), "cannot be given a sparse tensor: pass the dense tensors"),
        (torch.nested.nested_tensor([ROW, ROW]), "cannot be given a nested tensor"),
        (ROW.to(torch.complex64), r"A kernel cannot be given a tensor of torch\.complex64"),
        (object(), "An argument of type object cannot be described"),
    ],
    ids=["list", "sparse", "nested", "complex", "object"],
)
def test_a_value_that_no_kernel_takes_is_named(value, says):
    with pytest.raises(CourseError, match=says):
        lower(kernels.tile_sum_kernel, value, "*fp32:16", 64)


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((*ADD, 64), {"BLOCK_SIZE": 64}, "BLOCK_SIZE is given twice"),
        (ADD, {"BLOCK_SIZE": 64, "grid": (1,)}, "grid belongs to a launch"),
        (ADD, {"BLOCK_SIZE": 64, "num_wraps": 4}, "num_wraps"),
        (ADD, {"BLOCK": 64}, "no parameter BLOCK, and nothing is given for BLOCK_SIZE"),
    ],
)
def test_arguments_that_do_not_fit_the_kernel_are_named(args, kwargs, says):
    with pytest.raises(LowerError, match=says):
        lower(kernels.add_kernel, *args, **kwargs)


def test_what_is_no_kernel_or_no_target_is_named():
    takes = r"lower takes a kernel, a function under @triton\.jit; this is an int"
    with pytest.raises(CourseError, match=takes):
        lower(3)
    with pytest.raises(CourseError, match="There is no target 'sm_33': there is sm_70"):
        lower(kernels.add_kernel, *ADD, BLOCK_SIZE=64, target="sm_33")


def test_signatures_are_split_outside_brackets():
    parts = split_signature("*fp32:16, tensordesc<fp16[64, 64]>, (1, 2), 1024,")
    assert parts == ["*fp32:16", "tensordesc<fp16[64, 64]>", "(1, 2)", "1024"]
