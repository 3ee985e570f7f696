"""A NaN in a result is followed back to the line in which the program's first NaN comes up."""

import pytest
import torch
import triton
import triton.language as tl

from course import MODE, verify
from course.verifying.inputs import Case, Input

pytestmark = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: a GPU shows no variables")

CASES = (Case((Input((2, 8), values="far apart"),)),)


@triton.jit
def quotient_kernel(x_ptr, out_ptr):
    offsets = tl.program_id(0) * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + offsets) * 100.0
    power = tl.exp(x)
    share = power / tl.exp(tl.max(x, axis=0))
    tl.store(out_ptr + offsets, share * 2.0)


@triton.jit
def sum_of_kernel(power):
    total = tl.sum(power - power, axis=0)
    return total


@triton.jit
def helper_kernel(x_ptr, out_ptr):
    offsets = tl.program_id(0) * 8 + tl.arange(0, 8)
    power = tl.exp(tl.load(x_ptr + offsets) * 100.0)
    share = power * 0.0 + sum_of_kernel(power)
    tl.store(out_ptr + offsets, share)


@triton.jit
def nameless_kernel(x_ptr, out_ptr):
    offsets = tl.program_id(0) * 8 + tl.arange(0, 8)
    power = tl.exp(tl.load(x_ptr + offsets) * 100.0)
    tl.store(out_ptr + offsets, power / power)


def launched(kernel):
    def function(x):
        out = torch.empty_like(x)
        kernel[(2,)](x, out)
        return out

    return function


def softmax_twice(x):
    return 2 * torch.softmax(x * 100, dim=1)


@pytest.mark.parametrize(
    ("kernel", "line", "name"),
    [
        (quotient_kernel, "share = power / tl.exp(tl.max(x, axis=0))", "share"),
        (helper_kernel, "total = tl.sum(power - power, axis=0)", "total"),
    ],
)
def test_the_line_and_the_variable_are_named(kernel, line, name):
    said = str(verify(launched(kernel), softmax_twice, CASES))
    assert "got nan" in said
    assert line in said
    assert f"The first NaN comes up in that line, in {name}." in said


def test_a_nan_that_no_variable_holds_is_not_guessed_at():
    said = str(verify(launched(nameless_kernel), softmax_twice, CASES))
    assert "got nan" in said
    assert "The first NaN" not in said


def test_a_nan_that_is_wanted_is_no_mistake():
    def reference(x):
        power = torch.exp(x.float() * 100)
        return (2 * power / power.max(dim=1, keepdim=True).values).to(x.dtype)

    said = str(verify(launched(quotient_kernel), reference, CASES))
    assert "The first NaN" not in said
