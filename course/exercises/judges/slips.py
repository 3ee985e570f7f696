"""Slips: which one an answer's wrong values come from, and what shows in a kernel's text.

An exercise says of each slip what would come out. What shows in the text alone neither the compiler
nor the interpreter names.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

import torch

from course import MODE
from course.exercises.kinds import CodeExercise, TensorFunction
from course.exercises.result import Judged
from course.isolate.function_source import Definition
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
    slips, agreeing, rounded = dict(exercise.slips), 0, False
    kinds = {says: f"slip {place}" for place, says in enumerate(slips, start=1)}
    trial = Trial(function, exercise.rounded_once, absolute=exercise.absolute)
    for case in _order(cases, wrong):
        if agreeing and (not slips or agreeing == AGREEING):
            break
        if not MODE.gpu and has_bfloat16(case):
            continue
        result = trial.result(case)
        if result is None:
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


PROMISES = ("multiple_of", "max_contiguous", "max_constancy")
OF_TWO = {"tl.max": "tl.maximum", "tl.min": "tl.minimum"}
"""Reductions, and the function that takes the same of two blocks, lane by lane."""

CHAINED = (
    "{sign} binds before <, so this compares {first} with ({between}), and that with {last}: "
    "put each comparison in parentheses."
)
OF_A_PARAMETER = (
    "A promise of the parameter {name} is lost: the compiler keeps a promise with the operation "
    "that computes a value, and none computes a parameter. Promise it of what you compute from "
    "{name}."
)
NOT_KEPT = (
    "What {call} returns is thrown away, and the promise with it: give it a name, and compute with "
    "that."
)
TWO_BLOCKS = (
    "{reduction} reduces one block, along the axis that comes second: for two blocks, lane by "
    "lane, take {of_two}."
)

Slip = tuple[ast.expr, str, str]
"""Where a slip stands, its kind, and a sentence about it."""


class Advice(NamedTuple):
    """What to look at in an answer that is not right."""

    kind: str
    notes: tuple[str, str]
    """The slip's line, and a sentence."""


def advice_on(definitions: tuple[Definition, ...]) -> Iterator[Advice]:
    """What to look at in an answer that is not right, slip by slip."""
    for definition in definitions:
        if not definition.text.startswith("@"):
            continue  # slips of kernels alone
        (function,) = ast.parse(definition.text).body
        assert isinstance(function, ast.FunctionDef)
        lines = definition.text.split("\n")
        for node, kind, sentence in (
            *_chained(function), *_lost_promises(function), *_reductions_of_two(function),
        ):  # fmt: skip
            number, text = definition.line + node.lineno - 1, lines[node.lineno - 1].strip()
            yield Advice(kind, (f"Line {number} of {definition.place}:  {text}", sentence))


def _chained(function: ast.FunctionDef) -> Iterator[Slip]:
    """Comparisons such as `rows < m & cols < n`."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Compare) or len(node.ops) < 2:
            continue
        between = node.comparators[0]
        if isinstance(between, ast.BinOp) and isinstance(between.op, (ast.BitAnd, ast.BitOr)):
            yield (
                node,
                "chained",
                CHAINED.format(
                    sign="&" if isinstance(between.op, ast.BitAnd) else "|",
                    first=ast.unparse(node.left),
                    between=ast.unparse(between),
                    last=ast.unparse(node.comparators[-1]),
                ),
            )


def _lost_promises(function: ast.FunctionDef) -> Iterator[Slip]:
    """Promises that reach no operation: made of a parameter, or of a value that is not kept."""
    parameters = {argument.arg for argument in function.args.args}
    thrown_away = {node.value for node in ast.walk(function) if isinstance(node, ast.Expr)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") not in PROMISES:
            continue
        of = node.args[0] if node.args else None
        if isinstance(of, ast.Name) and of.id in parameters:
            yield node, "promise of a parameter", OF_A_PARAMETER.format(name=of.id)
        elif node in thrown_away and of is not None and not isinstance(of, ast.Name):
            yield node, "promise not kept", NOT_KEPT.format(call=ast.unparse(node.func))


def _reductions_of_two(function: ast.FunctionDef) -> Iterator[Slip]:
    """Calls such as `tl.max(m, new)`, whose second argument is a value that is computed."""
    computed = {
        name.id
        for node in ast.walk(function)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        called, second = ast.unparse(node.func), node.args[1]
        is_value = isinstance(second, ast.Call) or ast.unparse(second) in computed
        if called in OF_TWO and is_value:
            text = TWO_BLOCKS.format(reduction=called, of_two=OF_TWO[called])
            yield node, "reduction of two", text
