"""One case: call the function in guarded memory, and say what is wrong with what it did."""

import contextlib
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from course import DEVICE, MODE
from course.errors import CourseError
from course.tracing.address_map import Argument
from course.tracing.bounds import FoundError, Problem, Region
from course.tracing.likely_causes import Cause, why_unwritten, why_wrong
from course.tracing.own_line import OwnLine, raising_line, running_line
from course.tracing.races import WAITING, AccessLog, Activity
from course.triton_internals.error_meanings import meaning
from course.triton_internals.errors import (
    cannot_run,
    causes,
    first_words,
    lacking,
    lacks_bfloat16,
    raised_in_kernel,
)
from course.triton_internals.interpreter import Launch
from course.type_names import Function, kind_of

from .compare import Tolerance, close, comparable, largest_error, tolerance_for, value_problem
from .guarded_memory import Guarded, GuardedAllocations, bits, is_poison
from .inputs import Case
from .result import CaseOutcome, WorkDone

LEFT_TF32 = (
    "the interpreter multiplies float32 exactly, where a GPU's tl.dot takes it as TF32 and is off "
    'in the third or fourth digit, unless it is given input_precision="ieee" or "tf32x3"'
)

MOST_IDLE = 8
"""Programs without an element to work on, for each that has one."""


@dataclass(frozen=True)
class Trial:
    """A function, its reference, and what its results must be: the parameters of `verify`."""

    function: Function
    reference: Function
    tolerance: Tolerance | None = None
    absolute: float | Function = 0.0
    contiguous: bool = False
    block: int | None = None
    strict_promises: bool = False

    def outcome(self, case: Case) -> CaseOutcome:
        """The outcome of one case. Raises CourseError where the reference fails."""
        from course.triton_internals.tf32 import tf32_errors  # these only where kernels run

        from .reruns import waits_for_unwritten, watched

        names = _Names(self.function)
        case = replace(case, named=names.of_numbers(case))
        inputs = case.make(DEVICE)
        tensors = [guarded.tensor for guarded in inputs]
        before = [bits(guarded.buffer).clone() for guarded in inputs]
        expected = _expect(self, case, tensors)
        for number, guarded in enumerate(inputs):
            if not torch.equal(bits(guarded.buffer), before[number]):
                raise CourseError(
                    f"The reference changes its input {names.of_input(number)}: give verify one "
                    "that leaves its inputs as they are, as without inplace=True."
                )
        allocated = GuardedAllocations()
        log = AccessLog(
            lambda launch: _regions(names.of(launch, inputs, allocated)),
            case.elements,
            self.block,
            self.strict_promises,
        )
        try:
            with allocated, watched(log), tf32_errors() as in_tf32:
                out = self.function(*tensors, *case.scalars)
            log.finish()
            if MODE.gpu:
                torch.cuda.synchronize()
        except Exception as error:
            if log.unwritten and lacking(error) == WAITING:
                return _wrong(case, waits_for_unwritten(log.unwritten))
            return _raised(case, error)
        problem = (
            _form_problem(out, expected, self.contiguous)
            or log.problem
            or _stray_write(names.of(None, inputs, allocated), len(inputs))
            or _changed_input(names, inputs, before, log)
        )
        if problem:
            return _wrong(case, problem)
        ran = _Ran(out, expected, inputs, allocated, names, log, max(in_tf32, default=0.0))
        return _with_promise(self._compared(case, ran), log.doubted)

    def _compared(self, case: Case, ran: "_Ran") -> CaseOutcome:
        """The outcome by the values of a result that is otherwise as it must be."""
        from .reruns import may_be_wrong_elsewhere, problem_elsewhere

        out, expected, log = ran.out, ran.expected, ran.log
        work = _work(out, ran.allocated, log) if MODE.interpreting else None

        def wrong_at(other: Tensor) -> tuple[str, tuple[int, ...]]:
            return value_problem(other, expected.exact, self._allowed(case, other, expected))

        allowed = self._allowed(case, out, expected)
        text, index = value_problem(out, expected.exact, allowed)
        # In bfloat16 nothing is known: Triton's interpreter adds and multiplies its values as if
        # they were integers, and cuts bits off where it converts to it.
        lacks_types = MODE.interpreting and has_bfloat16(case)
        if text:
            if lacks_types:
                return left_to_the_gpu(case, "the interpreter's bfloat16 arithmetic is wrong", work)
            cause, line = self._cause(case, ran, index)
            guess = cause if is_poison(out[index]) else ""
            text = "\n".join(filter(None, (text, cause)))
            return _wrong(case, Problem("wrong", text, index=index, line=line, guess=guess))
        again = None
        if not lacks_types and may_be_wrong_elsewhere(log):
            again = partial(problem_elsewhere, self.function, case, out, log, wrong_at)
        if ran.tf32_error and ran.tf32_error > _most(allowed.at(expected.exact.double())):
            return left_to_the_gpu(case, LEFT_TF32, work)
        error = largest_error(out, expected.exact, allowed)
        note = ""
        if allowed.rounding:
            from .notes import note_of  # only where rounding matters

            note = note_of(out, expected.exact, self._held(case, out), allowed)
        return CaseOutcome(
            str(case), case.dtype, "right", note=note or _idle(log.activity), work=work,
            error=error, again=again, keeps_memory=ran.keeps_memory,
        )  # fmt: skip

    def _cause(self, case: Case, ran: "_Ran", index: tuple[int, ...]) -> Cause:
        """Why an element is wrong, where that shows."""
        from .reruns import undefined_lanes_matter, why_unwritten_matters

        out, log = ran.out, ran.log
        if why := why_unwritten_matters(self.function, case, log, out, index):
            return why, log.unwritten.line if log.unwritten else None
        if is_poison(out[index]) and log.followed:
            earlier = out.untyped_storage().data_ptr() in log.activity.storages_stored
            return why_unwritten(log.followed, out, index, earlier)
        if ran.untouched:
            why = f"It returned its input {ran.untouched} as it was: return what the kernel writes."
            return why, None
        if log.undefined and undefined_lanes_matter(self.function, case, out, index):
            why = (
                "Masked lanes that are loaded without `other` are undefined, and hold infinities "
                "here: this element is computed from them."
            )
            return why, log.undefined.line
        if MODE.interpreting and log.followed and ran.comes_out_nan(index):
            from .first_nan import first_nan  # only where there is one

            if writes := log.followed.writes(out, index):
                return first_nan(self.function, case, writes[-1].program)
        unread, why = self._unread(case, ran, index)
        cause = why_wrong(log.followed, unread) if log.followed else ("", None)
        if cause[0] or why:
            return cause if cause[0] else (why, None)
        if self.tolerance:
            return "", None
        from .notes import advice  # only where nothing else explains it

        why = advice(out, ran.expected.exact)
        return why, self._rounding_line(case) if why else None

    def _unread(self, case: Case, ran: "_Ran", index: tuple[int, ...]) -> tuple[str | None, str]:
        """Which number is not read that an element depends on, as `unread_input` says it; None for
        the tensor where that is not known, since not one launch does all."""
        log, by_torch = ran.log, ran.allocated.operations or ran.allocated.copies
        if by_torch or log.activity.launches != 1 or not log.followed:
            return None, ""
        from .unread import unread_input

        named = [
            (ran.names.in_kernel(each) or ran.names.of_input(i), each.tensor)
            for i, each in enumerate(ran.inputs)
        ]
        return unread_input(log.followed, named, ran.out, index, self._reference_of(case))

    def _rounding_line(self, case: Case) -> OwnLine | None:
        """The first line that rounds to 16 bits, and is no load and no store."""
        from course.triton_internals.roundings import roundings_told  # only for what is wrong

        from .reruns import rerun

        lines: list[OwnLine | None] = []
        with roundings_told(lambda: lines.append(running_line())):
            rerun(self.function, case)
        known = (line for line in lines if line and not re.search(r"(load|store)\(", str(line)))
        return next(known, None)

    def _held(self, case: Case, out: Tensor) -> Tolerance:
        """What is allowed of a result, whatever rounding explains."""
        absolute = self.absolute
        if callable(absolute):
            absolute = absolute(*case.arguments(DEVICE))
            shape = tuple(getattr(absolute, "shape", ()))
            if shape not in ((), tuple(out.shape)):
                raise CourseError(
                    f"absolute has given a tensor of shape {shape}, and must give a number, or one "
                    f"for each element of the result, {tuple(out.shape)}."
                )
        return (self.tolerance or tolerance_for(out.dtype)).plus(absolute)

    def _allowed(self, case: Case, out: Tensor, expected: "_Expected") -> Tolerance:
        """What is allowed of a result: `_held`, and what rounding alone may take it farther off."""
        from .rounding import allowance  # only where kernels run

        held = self._held(case, out)
        if self.tolerance:
            return held
        reference = self._reference_of(case)
        return allowance(out, expected.exact, expected.own, reference, expected.inputs, held)

    def _reference_of(self, case: Case) -> Callable[..., Tensor]:
        """The reference as a function of tensors alone."""

        def reference(*tensors: Tensor) -> Tensor:
            result: Tensor = self.reference(*tensors, *case.scalars)
            return result

        return reference

    def exact_inputs(self, case: Case) -> list[Tensor]:
        """A case's inputs in float64; integers as they are."""
        return _in_float64([guarded.tensor for guarded in case.make(DEVICE)])

    def close(self, case: Case, out: Tensor, expected: Tensor) -> Tensor:
        """Which elements of a result are as expected."""
        return close(out, expected, self._held(case, out))


def _with_promise(outcome: CaseOutcome, doubted: Problem | None) -> CaseOutcome:
    """An outcome with the promise to the compiler that does not hold, if there is one."""
    if doubted is None:
        return outcome
    if outcome.verdict == "wrong":
        return replace(outcome, reason=f"{outcome.reason}\n{doubted.reason}")
    text = f"{doubted.text} No access seen here would go elsewhere by it."
    return replace(outcome, note=f"{outcome.note} {text}".strip())


def _idle(activity: Activity) -> str:
    """What is said of a launch with many programs that do nothing."""
    idle, busy = activity.idle_programs, activity.busy_programs
    if idle <= MOST_IDLE * busy:
        return ""
    enough = "triton.cdiv(n, BLOCK_SIZE) would do"
    return f"{idle:,} of {idle + busy:,} programs touch no memory: {enough}."


def _most(errors: Tensor) -> float:
    return float(errors.max()) if errors.numel() else math.inf


def left_to_the_gpu(
    case: Case, reason: str, work: WorkDone | None = None, lacking: str = ""
) -> CaseOutcome:
    return CaseOutcome(str(case), case.dtype, "left to the GPU", reason, work=work, lacking=lacking)


def with_problem(outcome: CaseOutcome, problem: Problem) -> CaseOutcome:
    """A case that is wrong after all."""
    return CaseOutcome(outcome.case, outcome.dtype, "wrong", problem.reason, problem)


def _wrong(case: Case, problem: Problem) -> CaseOutcome:
    return CaseOutcome(str(case), case.dtype, "wrong", problem.reason, problem)


def _raised(case: Case, error: Exception) -> CaseOutcome:
    """The outcome of a call that raised."""
    if MODE.interpreting:
        if has_bfloat16(case) and lacks_bfloat16(error):
            return left_to_the_gpu(case, "the interpreter cannot do this with bfloat16")
        if what := lacking(error):
            return left_to_the_gpu(case, cannot_run(what), lacking=what)
    for cause in causes(error):  # the interpreter raises its own from what a kernel raised
        if isinstance(cause, FoundError):
            return _wrong(case, cause.problem)
    cause = raised_in_kernel(error)
    text = f"It raised {type(cause).__name__}: {meaning(error) or first_line(cause)}"
    if MODE.gpu and gpu_is_lost():
        text += " This session can use the GPU no more: restart it."
    what = f"{type(cause).__name__} {first_words(first_line(cause))}"
    return _wrong(case, Problem("raised", text, line=raising_line(error), what=what))


def gpu_is_lost() -> bool:
    """Whether a kernel has ended this process's use of the GPU, as a read far outside does."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]


def has_bfloat16(case: Case) -> bool:
    """Whether an input is in bfloat16."""
    return any(wanted.dtype == torch.bfloat16 for wanted in case.inputs)


@dataclass(frozen=True)
class _Expected:
    exact: Tensor
    """The reference's result in float64; integers as they are."""
    own: Tensor
    """Its result in the inputs' own dtypes, by PyTorch's own rules: they give shape and dtype."""
    inputs: list[Tensor]
    """What `own` was computed from."""
    any_float: bool
    """PyTorch refuses these dtypes, so that any floating-point result will do."""


@dataclass(frozen=True)
class _Ran:
    """What a function did on a case."""

    out: Tensor
    expected: _Expected
    inputs: list[Guarded]
    allocated: GuardedAllocations
    names: "_Names"
    log: AccessLog
    tf32_error: float
    """How far off a product is that a GPU takes as TF32, at most."""

    @property
    def keeps_memory(self) -> bool:
        """As `CaseOutcome` has it."""
        given = {each.buffer.data_ptr() for each in self.inputs}
        return not self.log.storages <= given | self.allocated.storages

    def comes_out_nan(self, index: tuple[int, ...]) -> bool:
        """Whether an element is a NaN that is to be a number."""
        is_nan = self.out.is_floating_point() and self.out[index].isnan().item()
        return bool(is_nan) and not self.expected.exact[index].isnan().item()

    @property
    def untouched(self) -> str:
        """The name of the input that was returned, if it was one."""
        address = self.out.data_ptr()
        returned = (i for i, each in enumerate(self.inputs) if each.tensor.data_ptr() == address)
        return next(map(self.names.of_input, returned), "")


def _expect(trial: Trial, case: Case, tensors: list[Tensor]) -> _Expected:
    """What the reference says of a case."""
    widened = [each.float() if _is_narrow(each) else each for each in tensors]
    try:
        exact = trial.reference(*_in_float64(tensors), *case.scalars)
        try:
            own, inputs = trial.reference(*tensors, *case.scalars), tensors
        except Exception:
            if not any(map(_is_narrow, tensors)):
                raise
            own, inputs = trial.reference(*widened, *case.scalars), widened
    except Exception as error:
        raise CourseError(_reference_failed(trial, case, error)) from error
    if not isinstance(exact, Tensor):
        raise CourseError(
            f"The reference returned {kind_of(exact)}, and must return one tensor: verify one "
            "result at a time."
        )
    return _Expected(comparable(exact), own, inputs, any_float=inputs is widened)


def _is_narrow(tensor: Tensor) -> bool:
    """Whether PyTorch may refuse the dtype: it promotes no float8, and lacks some float16."""
    return tensor.is_floating_point() and tensor.itemsize < 4


def _reference_failed(trial: Trial, case: Case, error: Exception) -> str:
    count = len(case.inputs)
    text = (
        f"The reference failed on {count} tensor{'s' * (count != 1)} ({case}) with "
        f"{type(error).__name__}: {first_line(error)}. It is given a case's tensors in float64, "
        "and then in their own dtypes; vectors(2) makes two."
    )
    if (getattr(trial.function, "__module__", "") or "").startswith("torch"):
        text += " verify takes your function first and PyTorch's second."
    return text


def _in_float64(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]


def _form_problem(out: object, expected: _Expected, contiguous: bool) -> Problem | None:
    """What is wrong with a result whatever its values are."""
    what, text = "", ""
    if out is None:
        what = "nothing"
        text = (
            "It returned nothing: end it with `return` and the output, and write no `out =` before "
            "a launch, which gives None."
        )
    elif not isinstance(out, Tensor):
        what, text = "no tensor", f"It returned {kind_of(out)}, and must return a tensor."
    elif out.shape != expected.own.shape:
        shapes = tuple(out.shape), tuple(expected.own.shape)
        what, text = "shape", "The result has shape {}, and must have {}.".format(*shapes)
    elif out.dtype != expected.own.dtype and not (
        expected.any_float and out.is_floating_point() and expected.own.is_floating_point()
    ):
        what = "dtype"
        text = f"The result has dtype {out.dtype}, and must have {expected.own.dtype}."
    elif out.device.type != DEVICE:
        what, text = "device", f"The result is on {out.device}, and must be on {DEVICE}."
    elif contiguous and not out.is_contiguous():
        what = "strides"
        text = f"The result has strides {out.stride()}, and must be contiguous."
    return Problem("wrong", text, what=what) if text else None


class _Names:
    """What the tensors of a case are called in a sentence."""

    def __init__(self, function: Function) -> None:
        self._parameters: list[str] = []
        with contextlib.suppress(TypeError, ValueError):  # of a function in C nothing is known
            parameters = inspect.signature(function).parameters.values()
            self._parameters = [
                each.name for each in parameters if each.kind != each.VAR_POSITIONAL
            ]
        self._kernels: dict[int, list[str]] = {}
        """address -> the last kernel's names for the tensor there"""

    def of(
        self, launch: Launch | None, inputs: list[Guarded], allocated: GuardedAllocations
    ) -> list[tuple[str, Guarded]]:
        """Each tensor with its name, the inputs first: a kernel's parameter, else the function's,
        else its role."""
        new: dict[int, list[str]] = {}
        for name, tensor in launch.named_tensors() if launch else ():
            new.setdefault(tensor.data_ptr(), []).append(name)
        self._kernels |= new
        named = [(f"its input {self.of_input(i)}", each) for i, each in enumerate(inputs)]
        for guarded in allocated.all:
            named.append(("a copy of an input" if guarded.for_reading else "its output", guarded))
        return [(self.in_kernel(guarded) or role, guarded) for role, guarded in named]

    def of_input(self, number: int) -> str:
        """The function's own name for an input."""
        known = number < len(self._parameters)
        return self._parameters[number] if known else str(number)

    def of_numbers(self, case: Case) -> tuple[str, ...]:
        """The function's own names for the numbers behind its inputs."""
        first = len(case.inputs)
        return tuple(self._parameters[first : first + len(case.scalars)])

    def in_kernel(self, guarded: Guarded) -> str:
        """A kernel's last name for a tensor; empty if none is known."""
        return self.all_in_kernel(guarded)[-1]

    def all_in_kernel(self, guarded: Guarded) -> list[str]:
        """All names by which a launch gives a tensor to a kernel; an empty one if none does."""
        return self._kernels.get(guarded.tensor.data_ptr(), [""])


def _stray_write(named: list[tuple[str, Guarded]], inputs: int) -> Problem | None:
    """A write outside a tensor. named: the tensors with their names, so many inputs first."""
    for name, guarded in [*named[inputs:], *named[:inputs]]:
        if strays := guarded.stray_writes():
            positions = ", ".join([*(f"[{i}]" for i in strays[:3]), *["…"] * (len(strays) > 3)])
            length = f"{guarded.tensor.numel():,}"
            text = f"It wrote outside {name}, whose length is {length}: at {positions}."
            return Problem("writes outside", text, what=f"{name} {strays[0]}")
    return None


def _changed_input(
    names: _Names, inputs: list[Guarded], before: list[Tensor], log: AccessLog
) -> Problem | None:
    """A write into an input. before: copies of the bits of the inputs' buffers."""
    for number, (guarded, buffer) in enumerate(zip(inputs, before, strict=True)):
        if not torch.equal(bits(guarded.buffer), buffer):
            text = f"It changed its input {names.of_input(number)}"
            in_kernel = names.all_in_kernel(guarded)
            if in_kernel[-1]:
                text += f", which the kernel calls {' and '.join(in_kernel)}"
            if len(in_kernel) > 1:
                text += ": allocate an output, as by torch.empty_like"
            elif in_kernel[-1].startswith("out"):
                text += ": look at the order of the arguments"
            line = log.activity.storages_stored.get(guarded.tensor.untyped_storage().data_ptr())
            return Problem("wrong", f"{text}.", what=f"input {number}", line=line)
    return None


def _regions(named: list[tuple[str, Guarded]]) -> list[Region]:
    """The tensors of a case, for watching accesses to them."""
    return [
        Region(
            Argument.of(name, guarded.tensor),
            guarded.buffer.data_ptr(),
            guarded.inside,
            guarded.any_unwritten,
        )
        for name, guarded in named
    ]


def _work(out: Tensor, allocated: GuardedAllocations, log: AccessLog) -> WorkDone:
    storages, own = log.activity.storages_stored, out.untyped_storage().data_ptr()
    others = len(storages.keys() - {own})
    operations = tuple(allocated.operations)
    return WorkDone(log.activity, operations, allocated.copies, own in storages, others)
