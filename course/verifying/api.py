"""Is a function right? Against a reference in float64, with poisoned and guarded memory, over many cases."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from course import DEVICE, MODE
from course.errors import CourseError
from course.progress_bar import track
from course.tracing.bounds import FoundError, Problem, Region, refuse_promise
from course.tracing.observer import Stopped, limited
from course.tracing.races import AccessLog
from course.triton_internals.errors import (
    cannot_run,
    causes,
    interpreter_words,
    lacking,
    lacks_bfloat16,
    raised_in_kernel,
)
from course.triton_internals.interpreter import interpreter_watched
from course.triton_internals.promises import promises_held

from .compare import largest_error, value_problem
from .guarded_memory import Guarded, GuardedAllocations, bits
from .inputs import CPU_MODE_ELEMENTS, CPU_MODE_SECONDS, Case
from .tolerances import Tolerance, tolerance_for

Verdict = Literal["right", "wrong", "left to the GPU"]

CASE_S = 20
"""How long the interpreter may compute on one case before that is left to the GPU."""


@dataclass(frozen=True)
class Work:
    """What a function did on one case, counted in the interpreter."""

    launches: int
    bytes_moved: int
    """Loaded and stored by kernels, without masked lanes."""
    torch_operations: tuple[str, ...]
    """PyTorch operations that compute, by their names: not allocations, fills, views and copies."""
    torch_copies: int
    result_stored: bool
    """Whether a kernel stored to the tensor that was returned."""
    idle_programs: int
    """Programs of which no lane touches memory, in the launch with most of them."""
    busy_programs: int
    """The other programs of that launch."""
    programs: int
    """Started, over all launches."""
    reach: int
    """Elements that a launch can write: its programs times the lanes that one stores, at most."""


@dataclass(frozen=True)
class Outcome:
    """What came of one case."""

    case: str
    dtype: str
    verdict: Verdict
    reason: str = ""
    """Why it is wrong, with the first wrong index, or why it was not run."""
    problem: Problem | None = None
    """Where it is wrong."""
    work: "Work | None" = None
    """What it did, where the interpreter was watched and it is not wrong."""
    error: float = 0.0
    """The largest error as a fraction of what is allowed: at most 1 where the case is right."""
    lacking: str = ""
    """What the interpreter lacks to run it, where that is why it is left to the GPU."""


@dataclass(frozen=True)
class Verified:
    """The outcome of every case. Prints as a small table, or as the first failure."""

    function: str
    outcomes: tuple[Outcome, ...]

    @property
    def right(self) -> bool:
        """No case is wrong, and at least one was run."""
        verdicts = {outcome.verdict for outcome in self.outcomes}
        return "right" in verdicts and "wrong" not in verdicts

    @property
    def wrong(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.verdict == "wrong"]

    def __str__(self) -> str:
        ran = [outcome for outcome in self.outcomes if outcome.verdict != "left to the GPU"]
        if not ran:
            lines = [f"{self.function}: no case was run."]
        elif not self.wrong:
            lines = [f"{self.function}: right in all {len(ran)} cases.", *self._table(ran)]
        else:
            first = self.wrong[0]
            lines = [
                f"{self.function}: wrong in {len(self.wrong)} of {len(ran)} cases.",
                f"First wrong case: {first.case}.",
                f"    {first.reason}",
            ]
        return "\n".join([*lines, *self.left()])

    __repr__ = __str__

    def left(self) -> list[str]:
        """The cases left to the GPU, a line for each reason."""
        left = [outcome for outcome in self.outcomes if outcome.verdict == "left to the GPU"]
        lines = []
        for reason in dict.fromkeys(outcome.reason for outcome in left):
            cases = [outcome.case for outcome in left if outcome.reason == reason]
            lines.append(
                f"Left to the GPU, since {reason}: {cases[0] if len(cases) == 1 else f'{len(cases)} cases'}."
            )
        return lines

    @staticmethod
    def _table(ran: Sequence[Outcome]) -> list[str]:
        lines = ["    dtype       cases   largest error, of what is allowed"]
        for dtype in dict.fromkeys(outcome.dtype for outcome in ran):
            errors = [outcome.error for outcome in ran if outcome.dtype == dtype]
            lines.append(f"    {dtype:10}  {len(errors):5}   {max(errors):4.0%}")
        return lines


def verify(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    cases: Iterable[Case],
    tolerance: Tolerance | None = None,
    absolute: float = 0.0,
    contiguous: bool = False,
    first_wrong_only: bool = False,
    case_s: float = CASE_S,
    block: int | None = None,
) -> Verified:
    """Compare `function` with `reference` on every case.

    function: takes the tensors of a case and returns a tensor. What it allocates meanwhile lies between guards, and is
        poisoned where PyTorch does not fill it: elements it never writes, and writes outside its outputs or into its
        inputs, are found. In CPU mode so are reads outside, programs of one launch that write different values to one
        place or read what another writes, and promises such as tl.multiple_of that do not hold. An exception it raises
        makes the case wrong.
    reference: the same in PyTorch. It is given the inputs in float64 (integers as they are), and decides which shape
        and dtype the result must have.
    tolerance: by default `tolerances.tolerance_for` the result's dtype.
    absolute: error allowed on top of the tolerance, for results that cancel.
    contiguous: whether the result must be so.
    first_wrong_only: leave out the cases after the first wrong one.
    case_s: in CPU mode, how long the main thread may compute on one case. After that the case is left to the GPU, as are those
        that are as large. Another thread cannot be stopped.
    block: elements that one program may well take. In CPU mode a call that starts far more
        programs is wrong, whatever its result. By default any number may run.

    Raises CourseError where there is no case, or the reference fails.
    """
    if not isinstance(cases, Iterable):
        raise CourseError("verify takes a list of cases, such as vectors(2).")
    todo = list(cases)
    if not todo:
        raise CourseError("verify was given no cases: make some, for example with vectors(2).")
    name = getattr(function, "__name__", type(function).__name__)
    outcomes, pace = [], _Pace()
    for case in track(todo, f"Verifying {name}"):
        if not MODE.gpu and pace.too_slow_for(case):
            outcomes.append(
                Outcome(
                    str(case), _dtype(case), "left to the GPU", "the interpreter would take long"
                )
            )
            continue
        try:
            with pace.timing(case), limited(math.inf if MODE.gpu else case_s):
                outcomes.append(
                    _try(function, reference, case, tolerance, absolute, contiguous, block)
                )
        except Stopped:
            reason = f"the interpreter had not ended it after {case_s:g} s of computing"
            outcomes.append(Outcome(str(case), _dtype(case), "left to the GPU", reason))
            pace.stopped(case)
        if (first_wrong_only and outcomes[-1].verdict == "wrong") or (MODE.gpu and _gpu_is_lost()):
            break
    return Verified(name, tuple(outcomes))


class _Pace:
    """What the interpreter takes for this function, from the cases that it has run."""

    def __init__(self) -> None:
        self.seconds_per_element: list[float] = []
        self.most_elements = CPU_MODE_ELEMENTS

    def too_slow_for(self, case: Case) -> bool:
        # This thread's own time, and the least of it, so that which cases run does not depend on what else the machine does.
        expected_s = case.elements * min(self.seconds_per_element, default=0.0)
        return case.elements > self.most_elements or expected_s > CPU_MODE_SECONDS

    @contextlib.contextmanager
    def timing(self, case: Case) -> Iterator[None]:
        start = time.thread_time()
        yield
        if case.elements >= 512:  # below that, a call's fixed cost tells nothing of a larger case
            self.seconds_per_element.append((time.thread_time() - start) / case.elements)

    def stopped(self, case: Case) -> None:
        """The interpreter was stopped on this case."""
        self.most_elements = min(self.most_elements, case.elements - 1)


def _gpu_is_lost() -> bool:
    """Whether a kernel has ended this process's use of the GPU, as a read far out of bounds does."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _dtype(case: Case) -> str:
    return str(case.inputs[0].dtype).removeprefix("torch.")


def _try(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    case: Case,
    tolerance: Tolerance | None,
    absolute: float,
    contiguous: bool,
    block: int | None,
) -> Outcome:
    dtype = _dtype(case)
    inputs = case.make(DEVICE)
    before = [made.buffer.clone() for made in inputs]
    expected, shape, result_dtype = _expect(reference, case, [made.tensor for made in inputs])
    allocated = GuardedAllocations()
    log = AccessLog(lambda: _regions(inputs, allocated), case.elements, block)
    try:
        # The interpreter computes with NumPy, which warns where values overflow on purpose.
        with (
            allocated,
            np.errstate(all="ignore"),
            _watched(log) if MODE.interpreting else contextlib.nullcontext(),
        ):
            out = function(*(made.tensor for made in inputs), *case.scalars)
        log.finish()
        if MODE.gpu:
            torch.cuda.synchronize()
    except Exception as error:
        if MODE.interpreting and _for_want_of_bfloat16(case, error):
            return Outcome(
                str(case), dtype, "left to the GPU", "the interpreter cannot do this with bfloat16"
            )
        if MODE.interpreting and (what := lacking(error)):
            return Outcome(str(case), dtype, "left to the GPU", cannot_run(what), lacking=what)
        return _wrong(case, _what_was_raised(error))
    problem = (
        _form_problem(out, shape, result_dtype, contiguous)
        or log.problem
        or _memory_problem(inputs, before, allocated)
    )
    if problem:
        return _wrong(case, problem)
    work = None
    if MODE.interpreting:
        assert isinstance(out, torch.Tensor)
        work = Work(
            log.launches, log.bytes_loaded + log.bytes_stored, tuple(allocated.operations), allocated.copies,
            out.untyped_storage().data_ptr() in log.storages_stored, log.idle_programs, log.busy_programs,
            log.programs, log.reach,
        )  # fmt: skip
    allowed = (tolerance or tolerance_for(result_dtype)).plus(absolute)
    text, index = value_problem(out, expected, allowed)
    if text:
        if not MODE.gpu and any(each.dtype == torch.bfloat16 for each in case.inputs):
            # Nothing is known: Triton's interpreter adds and multiplies bfloat16 values as if they were integers, and
            # cuts bits off where it converts to bfloat16.
            reason = "the interpreter's bfloat16 arithmetic is wrong"
            return Outcome(str(case), dtype, "left to the GPU", reason, work=work)
        if log.undefined and not out[index].isfinite() and expected[index].isfinite():
            text += "\nMasked lanes that are loaded without `other` are undefined, and hold infinities here: is that it?"
        return _wrong(case, Problem("wrong", text, index=index))
    return Outcome(
        str(case), dtype, "right", error=largest_error(out, expected, allowed), work=work
    )


@contextlib.contextmanager
def _watched(log: AccessLog) -> Iterator[None]:
    with interpreter_watched(log), promises_held(refuse_promise):
        yield


def _wrong(case: Case, problem: Problem) -> Outcome:
    return Outcome(str(case), _dtype(case), "wrong", problem.text, problem)


def _regions(inputs: list[Guarded], allocated: GuardedAllocations) -> list[Region]:
    """The tensors of a case, for watching accesses to them."""
    named = [(f"input {index}", made) for index, made in enumerate(inputs)]
    named += [
        ("a copy of an input" if made.for_reading else "its output", made) for made in allocated.all
    ]
    return [
        Region(
            name,
            made.tensor.numel(),
            made.tensor.data_ptr(),
            made.buffer.data_ptr(),
            made.buffer.element_size(),
            made.inside,
        )
        for name, made in named
    ]


def _for_want_of_bfloat16(case: Case, error: Exception) -> bool:
    """Whether the interpreter stopped at something it lacks for bfloat16: constants of it, and atomics on it."""
    return lacks_bfloat16(error) and any(each.dtype == torch.bfloat16 for each in case.inputs)


def _what_was_raised(error: Exception) -> Problem:
    for each in causes(error):  # the interpreter raises its own from what a kernel raised
        if isinstance(each, FoundError):
            return each.problem
    error = raised_in_kernel(error)
    lost = (
        " This session can use the GPU no more: restart it." if MODE.gpu and _gpu_is_lost() else ""
    )
    return Problem(
        "raised",
        f"It raised {type(error).__name__}: {interpreter_words(error) or first_line(error)}{lost}",
    )


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]


def _expect(
    reference: Callable[..., Any], case: Case, tensors: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Size, torch.dtype]:
    """The reference's result in float64 (integers as they are), and the shape and dtype the result must have."""
    try:
        exact = reference(
            *(t.double() if t.is_floating_point() else t for t in tensors), *case.scalars
        )
        plain = reference(*tensors, *case.scalars)  # shape and dtype by PyTorch's own rules
    except Exception as error:
        raise CourseError(
            f"The reference failed on {len(tensors)} tensors ({case}) with {type(error).__name__}: {first_line(error)}: "
            "verify takes your function first and PyTorch's second, and vectors(2) makes two inputs."
        ) from error
    return exact, plain.shape, plain.dtype


def _form_problem(
    out: object, shape: torch.Size, dtype: torch.dtype, contiguous: bool
) -> Problem | None:
    if out is None:
        return Problem("wrong", "It returned nothing: end it with `return`.")
    if not isinstance(out, torch.Tensor):
        return Problem("wrong", f"It returned a {type(out).__name__}, and must return a tensor.")
    if out.shape != shape:
        return Problem(
            "wrong", f"The result has shape {tuple(out.shape)}, and must have {tuple(shape)}."
        )
    if out.dtype != dtype:
        return Problem("wrong", f"The result has dtype {out.dtype}, and must have {dtype}.")
    if out.device.type != DEVICE:
        return Problem("wrong", f"The result is on {out.device}, and must be on {DEVICE}.")
    if contiguous and not out.is_contiguous():
        return Problem("wrong", f"The result has strides {out.stride()}, and must be contiguous.")
    return None


def _memory_problem(
    inputs: list[Guarded], before: list[torch.Tensor], allocated: GuardedAllocations
) -> Problem | None:
    named = [("its output", made) for made in allocated.all]
    named += [(f"input {index}", made) for index, made in enumerate(inputs)]
    for name, made in named:
        if strays := made.stray_writes():
            text = f"It wrote outside {name}, whose length is {made.tensor.numel():,}: at {_positions(strays)}."
            return Problem("writes outside", text)
    for index, (made, buffer) in enumerate(zip(inputs, before, strict=True)):
        if not torch.equal(bits(made.buffer), bits(buffer)):
            return Problem("wrong", f"It changed its input {index}.")
    return None


def _positions(strays: list[int]) -> str:
    shown = ", ".join(f"[{i:,}]" for i in strays[:3])
    return shown + (", …" if len(strays) > 3 else "")
