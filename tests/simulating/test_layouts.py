"""Blocks of different layouts: what Gluon's compiler refuses, `simulate` refuses too, and no
more."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course import lower
from course.lowering.api import LowerError
from course.simulating.api import simulate
from course.simulating.faults import SimulationError


@gluon.jit
def meeting_kernel(x_ptr, out_ptr, CASE: gl.constexpr):
    narrow: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    wide: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    i = gl.arange(0, 1024, layout=narrow)
    j = gl.arange(0, 1024, layout=wide)
    open_ = gl.arange(0, 1024, layout=gl.AutoLayout())
    row = gl.arange(0, 32, layout=gl.SliceLayout(1, tile))
    column = gl.arange(0, 32, layout=gl.SliceLayout(0, tile))
    if CASE == "sum":
        gl.store(out_ptr + i, i + j)
    elif CASE == "comparison":
        gl.store(out_ptr + i, i < j)
    elif CASE == "where":
        gl.store(out_ptr + i, gl.where(i > 5, j, 0))
    elif CASE == "maximum":
        gl.store(out_ptr + i, gl.maximum(i, j))
    elif CASE == "load's mask":
        gl.store(out_ptr + i, gl.load(x_ptr + i, mask=j < 900, other=0))
    elif CASE == "load's other":
        gl.store(out_ptr + i, gl.load(x_ptr + i, mask=i < 900, other=j))
    elif CASE == "loaded":
        gl.store(out_ptr + i, i + gl.load(x_ptr + j))
    elif CASE == "stored":
        gl.store(out_ptr + i, j)
    elif CASE == "store's mask":
        gl.store(out_ptr + i, i, mask=j < 900)
    elif CASE == "addresses":
        gl.store(out_ptr + i + j, 1)
    elif CASE == "slices":
        gl.store(out_ptr + row, row + column)
    elif CASE == "reduced":
        gl.store(out_ptr + row, gl.sum(row[:, None] + column[None, :], 0))
    elif CASE == "converted":
        gl.store(out_ptr + i, i + gl.convert_layout(j, narrow))
    elif CASE == "open":
        gl.store(out_ptr + i, open_ + i, mask=open_ < 900)
    elif CASE == "tile":
        x = gl.load(x_ptr + 32 * row[:, None] + column[None, :])
        gl.store(out_ptr + row, row + gl.sum(x + column[None, :], 1))


REFUSED = (
    "sum", "comparison", "where", "maximum", "load's mask", "load's other", "loaded", "stored",
    "store's mask", "addresses", "slices", "reduced",
)  # fmt: skip
TAKEN = ("converted", "open", "tile")


def _simulated(case):
    x = torch.zeros(2048, dtype=torch.int32)
    simulate(meeting_kernel, (1,), x, x.clone(), case)


@pytest.mark.parametrize("case", REFUSED)
def test_different_layouts_in_one_operation_are_refused(case):
    two = r"different layouts .*: (Blocked|Slice)Layout\(.*\) and (Blocked|Slice)Layout\(.*\)"
    with pytest.raises(
        SimulationError, match=two + r"(.|\n)*In meeting_kernel, line \d+: gl.store"
    ):
        _simulated(case)
    with pytest.raises(LowerError, match="Layout mismatch in broadcast"):
        lower(meeting_kernel, "*i32", "*i32", case, target="sm_90")


@pytest.mark.parametrize("case", TAKEN)
def test_what_the_compiler_takes_is_followed(case):
    _simulated(case)
    assert lower(meeting_kernel, "*i32", "*i32", case, target="sm_90").ttgir
