"""Which promises loads wait for, read from the TTIR of kernels of the course."""

from pathlib import Path

import pytest

from course.lowering.api import lower_file
from course.lowering.missing_promises import missing_promises

ROOT = Path(__file__).parents[2]
ADD = "vector_add.py:add_kernel", "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024"
GELU = (
    "bias_gelu.py:bias_gelu_kernel",
    "*fp16:16, *fp16:16, *fp16:16, i32, i32:16, i32:16, i32:1, 4, 1024",
)
STRIDES = ", i32:16" * 12
ATTENTION = (
    "attention/export.py:_fwd_kernel",
    f"*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp32, *fp32, fp32, i32, i32{STRIDES}, "
    "i32, i32, i32, i32:16, i1, i1, i1, 1, 64, 64, 64",
)


def missing(kernel, parts):
    file, name = kernel.split(":")
    lowered = lower_file(ROOT / "kernels" / file, name, parts, "sm_90", num_warps=4)
    return missing_promises(lowered.ttir)


def parts_of(signature):
    return [part.strip() for part in signature.split(",")]


@pytest.mark.parametrize("case", [ADD, GELU, ATTENTION])
def test_where_all_is_promised_nothing_is_missing(case):
    kernel, signature = case
    assert missing(kernel, parts_of(signature)) == {}


# The argument at each place, where a promise was there and is taken away.
@pytest.mark.parametrize(
    ("case", "place", "name"),
    [
        (ADD, 0, "x_ptr"), (ADD, 3, "n_elements"),
        (GELU, 0, "x_ptr"), (GELU, 4, "n_cols"), (GELU, 5, "stride_xm"),
        (ATTENTION, 1, "K"), (ATTENTION, 11, "stride_qm"), (ATTENTION, 17, "stride_vn"),
        (ATTENTION, 24, "head_dim"),
    ],
)  # fmt: skip
def test_the_one_argument_without_a_promise_is_named(case, place, name):
    kernel, signature = case
    parts = parts_of(signature)
    assert parts[place].endswith(":16")
    parts[place] = parts[place].removesuffix(":16")
    assert missing(kernel, parts) == {name: 16}


def test_what_only_stores_and_masks_of_whole_rows_need_is_not_missing():
    """The output's address and strides; the lengths, compared along the other axis."""
    kernel, signature = ATTENTION
    parts = parts_of(signature)
    for place in (3, 18, 19, 20):
        parts[place] = parts[place].removesuffix(":16")
    assert missing(kernel, parts) == {}


def test_the_stride_between_neighbors_must_be_1():
    kernel, signature = GELU
    parts = parts_of(signature)
    parts[6] = "i32"
    assert missing(kernel, parts) == {"stride_xn": 1}
    parts[4] = parts[5] = "i32"
    assert missing(kernel, parts) == {"stride_xn": 1, "n_cols": 16, "stride_xm": 16}
