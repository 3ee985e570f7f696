"""Slips: which one an answer's wrong values come from. An exercise says what each would give."""

from collections.abc import Iterator

import torch

from course import MODE
from course.exercises.kinds import CodeExercise, TensorFunction
from course.exercises.result import Judged
from course.verifying.inputs import Case
from course.verifying.one_case import Trial, has_bfloat16
from course.verifying.result import CaseOutcome

MOST_CASES = 4
"""Cases that an answer is run on once more."""
AGREEING = 2
"""Cases that a slip must agree with, one of them wrong."""
IN_FLOAT16 = "Every number that comes out is a float16: something is rounded to 16 bits on the way."
NEARLY_ALL = 0.99
"""The share of elements that must agree: a rounding may go the other way."""


def judged_wrong(
    exercise: CodeExercise, function: TensorFunction, cases: tuple[Case, ...], number: int,
    outcome: CaseOutcome, *more: str,
) -> Judged:  # fmt: skip
    """The verdict of an answer that gets the case of this number wrong.

    more: sentences that come before the case.
    """
    problem, slip, kind = outcome.problem, "", ""
    assert problem is not None
    if problem.index is not None:
        slip, kind = slip_of(exercise, function, cases, number)
    lines = [outcome.reason, slip, *more, f"The case: {outcome.case}."]
    # At which element it is wrong may depend on how this machine rounds, in which case does not.
    in_case = " ".join(filter(None, [problem.kind, problem.what, f"in case {number + 1}"]))
    verdict = "wrong" if problem.kind == "raised" else problem.kind
    return Judged(verdict, "\n".join(filter(None, lines)), kind or in_case)


def slip_of(
    exercise: CodeExercise, function: TensorFunction, cases: tuple[Case, ...], wrong: int
) -> tuple[str, str]:
    """The slip that gives the very values of a wrong answer, in a sentence, and its kind; both are
    empty if none does, or several do. Of float32 results that are all float16 numbers, it says so.

    wrong: the number of the case that the answer is known to get wrong.
    """
    from course.verifying.reruns import rerun  # only for what is wrong

    slips, agreeing, rounded = dict(exercise.slips), 0, False
    kinds = {says: f"slip {place}" for place, says in enumerate(slips, start=1)}
    trial = Trial(function, exercise.rounded_once, absolute=exercise.absolute)
    for case in _order(cases, wrong):
        if agreeing and (not slips or agreeing == AGREEING):
            break
        if not MODE.gpu and has_bfloat16(case):
            continue
        result = rerun(function, case)
        if isinstance(result, Exception):
            return "", ""
        slips = {says: slip for says, slip in slips.items() if _agrees(trial, slip, case, result)}
        rounded = rounded or _all_in_float16(result)
        agreeing += 1
    if len(slips) == 1 and agreeing == AGREEING:
        (says,) = slips
        return f"This is what comes out if {says}.", kinds[says]
    return (IN_FLOAT16, "float16") if rounded else ("", "")


def _all_in_float16(result: torch.Tensor) -> bool:
    """Whether float32 numbers, most of them no whole ones, are all float16 numbers."""
    if result.dtype != torch.float32 or not result.isfinite().all():
        return False
    return bool(
        (result == result.half()).all() and (result != result.round()).double().mean() > 0.5
    )


def _order(cases: tuple[Case, ...], wrong: int) -> Iterator[Case]:
    """Some cases, the wrong one first."""
    yield cases[wrong]
    yield from [case for number, case in enumerate(cases) if number != wrong][: MOST_CASES - 1]


def _agrees(trial: Trial, slip: TensorFunction, case: Case, result: torch.Tensor) -> bool:
    """Whether a slip gives these values, or nearly all of them."""
    expected = slip(*trial.exact_inputs(case), *case.scalars)
    if expected.shape != result.shape:
        return False
    return float(trial.close(case, result, expected).double().mean()) >= NEARLY_ALL
