"""Run a case once more, with something changed that a right result does not depend on: what lay in
memory before, or the order in which programs run."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, TypeGuard

import numpy as np
from torch import Tensor

from course import DEVICE, MODE
from course.tracing.bounds import Problem, refuse_promise
from course.tracing.races import WAITING, AccessLog, Remark
from course.triton_internals.errors import lacking, raised_in_kernel
from course.triton_internals.interpreter import Grid, Program, Sample, interpreter_watched
from course.triton_internals.promises import promises_held
from course.type_names import Function, kind_of

from .guarded_memory import Fill, GuardedAllocations, bits, filling, is_poison
from .inputs import Case
from .one_case import first_line

Index = tuple[int, ...]
Wrong = Callable[[Tensor | Exception], tuple[str, Index | None]]
WrongAt = Callable[[Tensor], tuple[str, Index]]
"""Takes a result; the first wrong element in words, and its index. The text is empty where all are
right."""

# A maximum drops the poison of floating point, which is a NaN, and a minimum that of integers.
EXTREMES: tuple[Fill, ...] = ("largest", "smallest")
MOST_ACCESSES = 50_000
"""Of a run that is made once more: others take seconds."""
APART = 0.05
"""The part of the largest element by which results must differ at least, for an order to matter:
sums may be added up in any, and in float16 are far off then."""

FILL_FIRST = (
    "Fill it first: with 0 for a sum or a lock, with the smallest number for a maximum, and with "
    "the largest for a minimum."
)
WRITTEN_ELSEWHERE = (
    "Is it written elsewhere than it is read, or must it be filled first, as by torch.zeros?"
)


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
    sample: Sample | None = None,
) -> Tensor | Exception:
    """What a function returns for a case, wherever it is wrong, or how it fails.

    undefined_as_zero: put 0 in masked lanes that the language leaves undefined.
    fill: put this in memory that nothing has written.
    sample: the programs to run of a launch's grid, in order; by default all, as on a GPU.
    """
    log = AccessLog(lambda _: [])
    arguments = case.arguments(DEVICE)
    with GuardedAllocations(fill), watched(log, undefined_as_zero, sample):
        try:
            out: Any = function(*arguments)
        except Exception as error:
            return error
    return out if isinstance(out, Tensor) else TypeError(f"It returned {kind_of(out)}.")


def programs_of(grid: Grid) -> list[Program]:
    """All programs of a grid, in one order."""
    return [(x, y, z) for x, y, z in product(*map(range, grid))]


def undefined_lanes_matter(function: Function, case: Case, out: Tensor, index: Index) -> bool:
    """Whether an element comes out otherwise where lanes that are undefined hold 0."""
    other = rerun(function, case, undefined_as_zero=True)
    return _is_like(other, out) and bool((bits(other)[index] != bits(out)[index]).item())


def _is_like(other: Tensor | Exception, out: Tensor) -> TypeGuard[Tensor]:
    return isinstance(other, Tensor) and (other.shape, other.dtype) == (out.shape, out.dtype)


def why_unwritten_matters(
    function: Function, case: Case, log: AccessLog, out: Tensor, index: Index
) -> str:
    """The sentence, if a wrong element is computed from memory that nothing had written."""
    fills: tuple[Fill, ...] = ("zero", *EXTREMES)
    stored = not is_poison(out[index]) or bool(log.followed and log.followed.writes(out, index))
    for fill in fills if log.unwritten else ():
        other = rerun(function, case, fill=fill)
        if not _is_like(other, out):
            continue
        is_left = not stored and other[index] == filling(fill, out.dtype)
        if not is_left and (bits(other)[index] != bits(out)[index]).item():
            assert log.unwritten
            read = f"{log.unwritten.name} is read before anything is written to it"
            mend = FILL_FIRST if log.unwritten.updates else WRITTEN_ELSEWHERE
            return f"{read}, and this element is computed from what it held. {mend}"
    return ""


def waits_for_unwritten(read: Remark) -> Problem:
    """What is wrong with a program that waits without end, in a launch that reads what nothing has
    written."""
    text = f"A program waits without end, and {read.name} is read before anything is written to it."
    return Problem("wrong", f"{text} {FILL_FIRST}", line=read.line, what="unwritten")


def may_be_wrong_elsewhere(log: AccessLog) -> bool:
    """Whether a run shows that another one may be wrong. On a GPU any may be."""
    if log.activity.accesses > MOST_ACCESSES:
        return False
    return MODE.gpu or bool(log.unwritten or log.contended or log.unordered)


def problem_elsewhere(
    function: Function, case: Case, out: Tensor, log: AccessLog, wrong_at: WrongAt
) -> Problem | None:
    """What is wrong with a function whose result was right: it would not be right where memory had
    held something else, or where programs ran in another order, as they do on a GPU."""

    def wrong(other: Tensor | Exception) -> tuple[str, Index | None]:
        if isinstance(other, Exception):
            waits = lacking(other) == WAITING
            why = "a program waits without end." if waits else first_line(raised_in_kernel(other))
            return f"It fails: {why}", None
        if other.shape != out.shape:
            shapes = tuple(other.shape), tuple(out.shape)
            return "The result has shape {}, and must have {}.".format(*shapes), None
        return wrong_at(other)

    problem = _by_what_memory_held(function, case, log, wrong)
    return problem or _by_the_order(function, case, out, log, wrong)


def _by_what_memory_held(
    function: Function, case: Case, log: AccessLog, wrong: Wrong
) -> Problem | None:
    read = log.unwritten
    if not read and MODE.interpreting:
        return None
    name, line = (read.name, read.line) if read else ("memory from torch.empty", None)
    for fill in EXTREMES:
        text, index = wrong(rerun(function, case, fill=fill))
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
    function: Function, case: Case, out: Tensor, log: AccessLog, wrong: Wrong
) -> Problem | None:
    if not log.contended and not log.unordered:
        return None
    other = rerun(function, case, sample=lambda grid: programs_of(grid)[::-1])
    if isinstance(other, Exception) and lacking(other) == WAITING:  # for a program before it
        return None
    text, index = wrong(other)
    if not text or not (isinstance(other, Exception) or _far_apart(other, out)):
        return None
    text += (
        "\nThis comes out where the programs run from the last to the first, and a GPU keeps no "
        "order. "
    )
    if log.unordered:
        return replace(log.unordered, text=text + log.unordered.text, index=index)
    assert log.contended
    text += f"What an atomic on {log.contended.name} returns depends on which programs came before."
    return Problem("race", text, index=index, line=log.contended.line, what="order")


def _far_apart(one: Tensor, other: Tensor) -> bool:
    """Whether results differ by more than sums that are added up in another order."""
    if one.shape != other.shape or not one.is_floating_point():
        return True
    one, other = one.double().nan_to_num(), other.double().nan_to_num()
    return bool((one - other).abs().max() > APART * other.abs().max())
