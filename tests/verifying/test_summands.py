"""A sum of several terms is held to the size of its terms, and any other result to its own."""

import math
import re

import pytest
import torch
import triton
import triton.language as tl

from course.verifying.api import verify
from course.verifying.compare import close, tolerance_for
from course.verifying.inputs import Case, Input, vectors
from course.verifying.summands import Summands
from tests.support.launchers import elementwise

pytestmark = pytest.mark.gpu_too

SMALL = [case for case in vectors(3) if case.elements <= 4096]
FLOATS = [case for case in SMALL if case.dtype == "float32"]


def total(x, y, z):
    return x + y + z


def gated(x, y, z):
    return x * torch.sigmoid(y) + z


@triton.jit
def total_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    first = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, first + tl.load(z_ptr + offsets, mask=mask), mask=mask)


def in_float32(function):
    return lambda *tensors: function(*(each.float() for each in tensors)).to(tensors[0].dtype)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (total, total),
        (lambda x, y, z: x + (y + z), total),
        (in_float32(total), total),
        (elementwise(total_kernel), total),
        (lambda x, y, z: torch.stack([x, y, z]).sum(0), total),
        (gated, gated),
        (in_float32(gated), gated),
        (lambda x, y, z: z - (0.0 - torch.sigmoid(y) * x), gated),
    ],
    ids=["itself", "other order", "in float32", "a kernel", "a sum", "gated", "gated in float32",
         "gated, other order"],
)  # fmt: skip
def test_a_right_sum_of_three_is_right_where_it_cancels_and_where_two_overflow(function, reference):
    result = verify(function, reference, SMALL)
    assert result.right, result


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, z: x + y,
        lambda x, y, z: x + y + z * 1.0001,
        lambda x, y, z: x + y + z + 1e-4 * x.abs(),
        lambda x, y, z: (x.bfloat16() + y.bfloat16() + z.bfloat16()).to(x.dtype),
        lambda x, y, z: (x.half() + y + z.half()).to(x.dtype),
        lambda x, y, z: total(x, y, z).clamp(-1e38, 1e38),
    ],
    ids=["a term forgotten", "off by 1e-4", "off by a part of x", "bfloat16", "float16", "clamped"],
)
def test_a_wrong_sum_of_three_is_wrong(function):
    assert not verify(function, total, FLOATS).right


def test_one_operation_is_held_to_its_own_result():
    """As x + y is in float16, though the two may cancel."""
    cases = [Case((Input((4000,), torch.float16),) * 2)]
    coarse = lambda x, y: (x.float() + y.float() * 1.0008).half()  # noqa: E731
    assert not verify(coarse, torch.add, cases).right


def test_a_product_and_what_follows_a_sum_are_held_to_one_rounding():
    cases = [Case((Input((4000,), torch.float16),) * 2)]
    for reference, rounded in (
        (lambda x, y: x * torch.sigmoid(x) * y, lambda x, y: x * torch.sigmoid(x) * y),
        (lambda x, y: torch.tanh(x + y), lambda x, y: torch.tanh(x + y)),
    ):
        assert not verify(rounded, reference, cases).right
        assert verify(in_float32(reference), reference, cases).right


def test_what_a_sum_adds_up_is_known_through_products_and_numbers():
    x, y = torch.tensor([3.0, 0.0]), torch.tensor([-2.0, 1.0])
    with Summands() as summands:
        results = 2 * x + y, 1 - x * y, -(x + y - y), x + y, (x + y).exp(), (x + y).flip(0) + x
    sizes = [summands.size(result) for result in results]
    assert [size if size is None else size.tolist() for size in sizes] == [
        [8.0, 1.0], [7.0, 1.0], [7.0, 2.0], None, None, None,
    ]  # fmt: skip


def test_no_tensor_is_kept_once_the_reference_has_dropped_it():
    x = torch.ones(3)
    with Summands() as summands:
        for _ in range(5):
            (x.exp() + x).sum()
    assert len(summands._computed) == 0


@pytest.mark.parametrize(
    ("out", "right"),
    [(math.inf, True), (-math.inf, False), (math.nan, False), (65_504.0, True), (65_440.0, False)],
)
def test_a_sum_just_below_infinity_may_be_rounded_up_to_it(out, right):
    x, y, z = torch.tensor([[16.0], [65_472.0], [17.0]], dtype=torch.float16)
    assert x + y + z == 65_504 and (x + (y + z)).isinf()
    exact = torch.tensor([65_505.0], dtype=torch.float64)
    result = torch.tensor([out], dtype=torch.float16)
    assert close(result, exact, tolerance_for(torch.float16)).item() is right


def test_infinity_is_wrong_where_the_result_is_well_below_it():
    exact, result = torch.tensor([65_400.0]).double(), torch.tensor([math.inf]).half()
    assert not close(result, exact, tolerance_for(torch.float16)).item()


ROTATED = [Case((Input((400,)),) * 4)]


def rotated(x, y, cos, sin):
    return torch.cat([x * cos - y * sin, y * cos + x * sin])


def test_where_terms_cancel_unseen_the_error_that_pytorch_itself_makes_is_told():
    result = verify(rotated, rotated, ROTATED)
    assert not result.right
    told = re.search(
        r"float32 is off by up to (\S+), and this .* with absolute=(\S+)\.$", str(result)
    )
    assert told, result
    assert verify(rotated, rotated, ROTATED, absolute=float(told[2])).right


@pytest.mark.parametrize("times", [1.001, -1.0, math.inf])
def test_a_result_far_more_wrong_than_that_is_told_nothing_of_it(times):
    wrong = verify(lambda x, y, cos, sin: rotated(x, y, cos, times * sin), rotated, ROTATED)
    assert not wrong.right
    assert "float32" not in str(wrong).split("expected")[1]
