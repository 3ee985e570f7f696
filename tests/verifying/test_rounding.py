"""A result that only rounds is right, however large that is beside it; one that is wrong is not."""

import math
import re

import pytest
import torch
import triton
import triton.language as tl

from course.verifying.api import verify
from course.verifying.compare import Tolerance, close, tolerance_for
from course.verifying.inputs import Case, Input, vectors
from tests.support.launchers import elementwise

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


HALVES = [Case((Input((3000,), torch.float16),) * 2)]


def test_what_pytorch_rounds_twice_may_be_rounded_twice_and_that_is_said():
    gated = lambda x, y: torch.nn.functional.silu(x) * y  # noqa: E731
    result = verify(gated, gated, HALVES)
    assert result.right, result
    assert "rounded to float16 more than once: so are PyTorch's own." in str(result)
    assert "more than once" not in str(verify(in_float32(gated), gated, HALVES))


@pytest.mark.parametrize(
    ("rounded", "reference"),
    [
        (lambda x, y: x * torch.sigmoid(x) * y, lambda x, y: torch.nn.functional.silu(x) * y),
        (lambda x, y: torch.sinh(x) / torch.cosh(x), lambda x, y: torch.tanh(x)),
    ],
    ids=["three roundings for two", "three roundings for one"],
)
def test_more_roundings_to_16_bits_than_pytorch_makes_are_wrong_and_named(rounded, reference):
    result = verify(rounded, reference, HALVES)
    assert not result.right
    assert "A few roundings to float16 take it as far off" in str(result)
    assert verify(in_float32(rounded), reference, HALVES).right


def test_a_mistake_that_is_no_rounding_is_not_called_one():
    assert "roundings" not in str(verify(lambda x, y: x * 1.1, lambda x, y: x, HALVES))


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


def test_where_terms_cancel_right_is_said_with_how_far_off():
    result = verify(rotated, rotated, ROTATED)
    assert result.right, result
    (outcome,) = result.outcomes
    assert re.fullmatch(
        r"\d+ of 800 elements are off by up to \de-0[78], since large terms cancel there: .*",
        outcome.note,
    )
    assert str(result).endswith(f"In the case 400 float32, {outcome.note}")


def test_nothing_is_said_where_no_element_is_far_off():
    (outcome,) = verify(torch.add, torch.add, [Case((Input((4000,)),) * 2)]).outcomes
    assert not outcome.note


@pytest.mark.parametrize("times", [1.001, -1.0, math.inf])
def test_a_result_far_more_wrong_than_that_is_wrong(times):
    wrong = lambda x, y, cos, sin: rotated(x, y, cos, times * sin)  # noqa: E731
    assert not verify(wrong, rotated, ROTATED).right


def test_a_tolerance_of_ones_own_is_all_that_is_allowed():
    assert not verify(rotated, rotated, ROTATED, tolerance=Tolerance(1e-6)).right


def in_a_row(x):
    """The sums of the first elements of each row, added one after another in float32."""
    out, total = torch.empty_like(x), torch.zeros(len(x), dtype=x.dtype)
    for column in range(x.shape[1]):
        total = total + x[:, column]
        out[:, column] = total
    return out


MANY = [Case((Input((16, 1000)),))]


def test_what_is_named_as_wrong_is_not_what_rounding_explains():
    def last_is_wrong(x):
        sums = in_a_row(x)
        sums[-1, -1] += 1
        return sums

    said = str(verify(last_is_wrong, lambda x: x.cumsum(1), MANY))
    assert re.search(r"At \[15, 999\]: .* Wrong: 1 of 16,000\.", said), said


THREE = [Case((Input((4000,)),) * 3)]


@pytest.mark.parametrize(
    ("function", "reference", "cases"),
    [
        (in_a_row, lambda x: x.cumsum(1), MANY),
        (lambda x: in_a_row(x.abs()), lambda x: x.abs().cumsum(1), MANY),
        (lambda x: in_a_row(x)[:, -1], lambda x: x.sum(1), MANY),
        (lambda x: in_a_row(x)[:, -1] / 1000, lambda x: x.mean(1), MANY),
        (lambda x: in_a_row(x)[:, -1].tanh(), lambda x: x.sum(1).tanh(), MANY),
        (lambda x, y, z: z + (y + x), lambda x, y, z: (x + y + z).float(), THREE),
        (lambda x, y, z: z + (y + x), lambda x, y, z: (x + y + z).reshape(-1, 4).view(-1), THREE),
        (lambda x, y, z: z + (y + x), lambda x, y, z: torch.stack([x, y, z]).sum(0), THREE),
        (lambda x, y, z: z + (y + x), lambda x, y, z: (x.view(-1, 4) + y.view(-1, 4)).view(-1) + z,
         THREE),
        (lambda x, y, z: torch.cat([z + (y + x), y]), lambda x, y, z: torch.cat([x + y + z, y]),
         THREE),
        (lambda x, y, z: (x + (y + z)).exp(), lambda x, y, z: (x + y + z).exp(), THREE),
        (lambda x, y, z: x + (y + z), lambda x, y, z: x.clone().add_(y).add_(z), THREE),
    ],
    ids=["scan", "scan of positive", "sum", "mean", "function of a sum", "cast", "reshaped",
         "stacked", "views", "joined", "function of three", "in place"],
)  # fmt: skip
def test_any_order_of_adding_is_right_whatever_follows_the_sum(function, reference, cases):
    result = verify(function, reference, cases)
    assert result.right, result
    halved = lambda *tensors: function(*(each.half().float() for each in tensors))  # noqa: E731
    assert not verify(halved, reference, cases).right


def test_a_sum_in_float64_may_be_added_in_any_order():
    doubles = [Case((Input((16, 1000), torch.float64),))]
    assert verify(lambda x: in_a_row(x)[:, -1], lambda x: x.sum(1), doubles).right
    in_single = lambda x: in_a_row(x.float())[:, -1].double()  # noqa: E731
    assert not verify(in_single, lambda x: x.sum(1), doubles).right


def running_variance(x):
    """Welford's: of the first elements of each row, a mean and the squares about it, one further
    element at a time."""
    mean, squares = torch.zeros(len(x)), torch.zeros(len(x))
    for count, column in enumerate(x.T, start=1):
        apart = column - mean
        mean = mean + apart / count
        squares = squares + apart * (column - mean)
    return squares / x.shape[1]


@pytest.mark.parametrize("of", [lambda x: x, torch.sqrt])
def test_a_variance_may_come_from_a_running_mean_and_not_from_large_squares(of):
    reference = lambda x: of(x.var(1, correction=0))  # noqa: E731
    cases = [Case((Input((4, size), values="around 1,000"),)) for size in (33, 300)]
    assert verify(lambda x: of(running_variance(x)), reference, cases).right
    of_squares = lambda x: of((x * x).mean(1) - x.mean(1) ** 2)  # noqa: E731
    assert not verify(of_squares, reference, cases).right
    spread = lambda x: x.std(1, correction=0) ** 2  # noqa: E731
    assert verify(running_variance, spread, cases).right


def test_whole_numbers_from_a_rounded_sum_may_be_pytorchs_own():
    quantized = lambda x, y: (x * y * 20).round().to(torch.int8)  # noqa: E731
    result = verify(quantized, quantized, HALVES)
    assert result.right, result
    assert "elements are off as PyTorch's own are, by rounding on the way." in str(result)
    cut = lambda x, y: (x * y * 20).to(torch.int8)  # noqa: E731
    assert not verify(cut, quantized, HALVES).right
