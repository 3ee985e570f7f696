"""Run a case once more, with something changed that a right result does not depend on: what lay in
memory before, or the order in which programs run."""

import contextlib
import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from torch import Tensor

from course import DEVICE, MODE
from course.tracing.bounds import Problem, refuse_promise
from course.tracing.races import AccessLog
from course.triton_internals.interpreter import Grid, Program, Sample, interpreter_watched
from course.triton_internals.promises import promises_held
from course.type_names import Function

from .guarded_memory import Fill, GuardedAllocations, bits, filling, is_poison
from .inputs import Case

Index = tuple[int, ...]
WrongAt = Callable[[Tensor], tuple[str, Index]]
"""Takes a result; the first wrong element in words, and its index. The text is empty where all are
right."""

# A maximum drops the poison of floating point, which is a NaN, and a minimum that of integers.
EXTREMES: tuple[Fill, ...] = ("largest", "smallest")
MORE_ACCESSES = 4
"""A run backwards that makes so many times the accesses waits for a program that comes later."""

FILL_FIRST = "Fill it first: with 0 for a sum or a lock, with the smallest number for a maximum."


@contextlib.contextmanager
def watched(
    log: AccessLog, undefined_as_zero: bool = False, sample: Sample | None = None
) -> Iterator[None]:
    """In CPU mode, log what kernels do; and let NumPy, which interprets, not warn of overflows."""
    if not MODE.interpreting:
        yield
        return
    observed = interpreter_watched(log, sample, undefined_as_zero)
    with np.errstate(all="ignore"), observed, promises_held(refuse_promise, log.doubt):
        yield


def rerun(
    function: Function,
    case: Case,
    undefined_as_zero: bool = False,
    fill: Fill | None = None,
    backwards: bool = False,
    most_accesses: float = math.inf,
) -> Tensor | None:
    """What a function returns for a case, wherever it is wrong; None where it fails.

    undefined_as_zero: put 0 in masked lanes that the language leaves undefined.
    fill: put this in memory that nothing has written.
    backwards: run the programs of a launch from the last one to the first.
    most_accesses: it has failed where kernels access memory more often.
    """
    log = AccessLog(lambda _: [], most_accesses=most_accesses)
    sample = _from_the_last if backwards else None
    arguments = case.arguments(DEVICE)
    with GuardedAllocations(fill), watched(log, undefined_as_zero, sample):
        try:
            out: Any = function(*arguments)
        except Exception:
            return None
    return out if isinstance(out, Tensor) else None


def _from_the_last(grid: Grid) -> list[Program]:
    """All programs, in the reverse of the interpreter's order."""
    return [(x, y, z) for x, y, z in product(*map(range, grid))][::-1]


def undefined_lanes_matter(function: Function, case: Case, out: Tensor, index: Index) -> bool:
    """Whether an element comes out otherwise where lanes that are undefined hold 0."""
    other = rerun(function, case, undefined_as_zero=True)
    return other is not None and bool((bits(other)[index] != bits(out)[index]).item())


def why_unwritten_matters(
    function: Function, case: Case, log: AccessLog, out: Tensor, index: Index
) -> str:
    """The sentence, if a wrong element is computed from memory that nothing had written."""
    fills: tuple[Fill, ...] = ("zero", *EXTREMES)
    for fill in fills if log.unwritten else ():
        other = rerun(function, case, fill=fill)
        if other is None or other.shape != out.shape:
            continue
        is_left = is_poison(out[index]) and other[index] == filling(fill, out.dtype)
        if not is_left and (bits(other)[index] != bits(out)[index]).item():
            assert log.unwritten
            read = f"{log.unwritten.name} is read before anything is written to it"
            return f"{read}, and this element is computed from what it held. {FILL_FIRST}"
    return ""


def problem_elsewhere(
    function: Function, case: Case, log: AccessLog, wrong_at: WrongAt
) -> Problem | None:
    """What is wrong with a function whose result was right: it would not be right where memory had
    held something else, or where programs ran in another order, as they do on a GPU."""
    problem = _by_what_memory_held(function, case, log, wrong_at)
    return problem or _by_the_order(function, case, log, wrong_at)


def _by_what_memory_held(
    function: Function, case: Case, log: AccessLog, wrong_at: WrongAt
) -> Problem | None:
    read = log.unwritten
    if not read and not MODE.gpu:
        return None
    name, line = (read.name, read.line) if read else ("memory from torch.empty", None)
    for fill in EXTREMES:
        out = rerun(function, case, fill=fill)
        text, index = wrong_at(out) if out is not None else ("", ())
        if text:
            text += (
                f"\nThis comes out where {name} holds the {fill} number at the start: it is read "
                f"before anything is written to it. {FILL_FIRST}"
            )
            return Problem("wrong", text, index=index, line=line)
    if read and read.updates:  # a lock, say: where programs run one by one, any number frees it
        text = f"{name} is updated by an atomic before anything is written to it. {FILL_FIRST}"
        return Problem("wrong", text, line=line, what="unwritten")
    return None


def _by_the_order(
    function: Function, case: Case, log: AccessLog, wrong_at: WrongAt
) -> Problem | None:
    if not log.contended:
        return None
    most = MORE_ACCESSES * log.activity.accesses
    out = rerun(function, case, backwards=True, most_accesses=most)
    text, index = wrong_at(out) if out is not None else ("", ())
    if not text:
        return None
    text += (
        "\nThis comes out where the programs run from the last to the first, and a GPU keeps no "
        f"order. What an atomic on {log.contended.name} returns depends on which programs came "
        "before."
    )
    return Problem("race", text, index=index, line=log.contended.line, what="order")
