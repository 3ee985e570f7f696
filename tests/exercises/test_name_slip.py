"""A slip is named where it alone gives the values of a wrong answer, in two cases."""

import pytest
import torch
import triton
import triton.language as tl

from course.exercises.judges.slips import slip_of
from course.exercises.kinds import LauncherExercise
from course.verifying.inputs import Case, Input


def exercise(*sizes, dtype=torch.float32, **slips):
    cases = tuple(Case((Input((n,), dtype),) * 2, seed=n) for n in sizes)
    told = {name.replace("_", " "): slip for name, slip in slips.items()}
    return LauncherExercise(
        "99.1", parameters=("x", "y"), reference=lambda x, y: 2 * x + y, cases=cases, slips=told
    )


def named(function, exercise, wrong=0):
    return slip_of(exercise, function, exercise.cases, wrong)[1]


def test_the_slip_that_gives_these_values_is_named():
    one = exercise(20, 33, y_is_left_out=lambda x, y: 2 * x, x_counts_once=lambda x, y: x + y)
    assert named(lambda x, y: x * 2, one) == "slip 1"
    assert named(lambda x, y: x + y, one) == "slip 2"
    says, _ = slip_of(one, lambda x, y: x + y, one.cases, 0)
    assert says == "This is what comes out if x counts once."


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: 3 * x + y,
        lambda x, y: x + y if len(x) == 20 else 2 * x + y,
        lambda x, y: torch.where(torch.arange(len(x)) % 10 == 0, 0.0, x + y),
        lambda x, y: (x + y)[:5],
        lambda x, y: None,
        lambda x, y: x @ y[:3],
    ],
    ids=[
        "another value",
        "in one case alone",
        "all but a tenth",
        "another shape",
        "nothing",
        "an error",
    ],
)
def test_no_slip_is_named_for_anything_else(function):
    assert named(function, exercise(20, 33, x_counts_once=lambda x, y: x + y)) == ""


def test_no_slip_is_named_where_two_give_the_same_or_there_is_one_case():
    slips = {"x_counts_once": lambda x, y: x + y}
    assert named(torch.add, exercise(20, 33, y_first=lambda x, y: y + x, **slips)) == ""
    assert named(torch.add, exercise(20, **slips)) == ""


def test_a_slip_in_16_bits_may_round_a_few_elements_the_other_way():
    half = exercise(
        2000, 3000, dtype=torch.float16, sum_rounded=lambda x, y: (2 * x).half().double() + y
    )
    assert named(lambda x, y: x + x + y, half) == "slip 1"


@triton.jit
def half_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n) * 2 + tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x.to(tl.float16).to(tl.float32), mask=i < n)


def rounded(x, y):
    out = torch.empty_like(x)
    half_kernel[(1,)](x, y, out, len(x), BLOCK=64)
    return out


def test_float32_results_that_are_all_float16_numbers_are_said_to_be_rounded():
    assert named(rounded, exercise(20, 33)) == "float16"
    assert named(lambda x, y: x + y, exercise(20, 33)) == ""
