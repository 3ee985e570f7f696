"""One case: call the function in guarded memory, and say what is wrong with what it did."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from course import DEVICE, MODE
from course.errors import CourseError
from course.tracing.bounds import FoundError, Problem, Region, refuse_promise
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
from course.type_names import Function, kind_of

from .compare import Tolerance, largest_error, tolerance_for, value_problem
from .guarded_memory import Guarded, GuardedAllocations, bits
from .inputs import Case
from .result import Outcome, Work


@dataclass(frozen=True)
class Trial:
    """A function, its reference, and what its results must be: the parameters of `verify`."""

    function: Function
    reference: Function
    tolerance: Tolerance | None
    absolute: float
    contiguous: bool
    block: int | None

    def outcome(self, case: Case) -> Outcome:
        """The outcome of one case. Raises CourseError where the reference fails."""
        inputs = case.make(DEVICE)
        tensors = [guarded.tensor for guarded in inputs]
        before = [guarded.buffer.clone() for guarded in inputs]
        expected = _expect(self.reference, case, tensors)
        allocated = GuardedAllocations()
        log = AccessLog(lambda: _regions(inputs, allocated), case.elements, self.block)
        try:
            with allocated, _watched(log):
                out = self.function(*tensors, *case.scalars)
            log.finish()
            if MODE.gpu:
                torch.cuda.synchronize()
        except Exception as error:
            return _raised(case, error)
        problem = (
            _form_problem(out, expected, self.contiguous)
            or log.problem
            or _memory_problem(inputs, before, allocated)
        )
        if problem:
            return _wrong(case, problem)
        work = _work(out, allocated, log) if MODE.interpreting else None
        return self._compared(case, out, expected, log, work)

    def _compared(
        self,
        case: Case,
        out: torch.Tensor,
        expected: "_Expected",
        log: AccessLog,
        work: Work | None,
    ) -> Outcome:
        """The outcome by the values of a result that is otherwise as it must be."""
        allowed = (self.tolerance or tolerance_for(expected.dtype)).plus(self.absolute)
        text, index = value_problem(out, expected.exact, allowed)
        if not text:
            error = largest_error(out, expected.exact, allowed)
            return Outcome(str(case), case.dtype, "right", error=error, work=work)
        if not MODE.gpu and _has_bfloat16(case):
            # Nothing is known: Triton's interpreter adds and multiplies bfloat16 values as if they
            # were integers, and cuts bits off where it converts to bfloat16.
            return left_to_the_gpu(case, "the interpreter's bfloat16 arithmetic is wrong", work)
        if log.undefined and not out[index].isfinite() and expected.exact[index].isfinite():
            text += (
                "\nMasked lanes that are loaded without `other` are undefined, and hold infinities "
                "here: is that it?"
            )
        return _wrong(case, Problem("wrong", text, index=index))


@contextlib.contextmanager
def _watched(log: AccessLog) -> Iterator[None]:
    """In CPU mode, log what kernels do; and let NumPy, which interprets, not warn of overflows."""
    if not MODE.interpreting:
        yield
        return
    with np.errstate(all="ignore"), interpreter_watched(log), promises_held(refuse_promise):
        yield


def left_to_the_gpu(
    case: Case, reason: str, work: Work | None = None, lacking: str = ""
) -> Outcome:
    return Outcome(str(case), case.dtype, "left to the GPU", reason, work=work, lacking=lacking)


def _wrong(case: Case, problem: Problem) -> Outcome:
    return Outcome(str(case), case.dtype, "wrong", problem.text, problem)


def _raised(case: Case, error: Exception) -> Outcome:
    """The outcome of a call that raised."""
    if MODE.interpreting:
        if _has_bfloat16(case) and lacks_bfloat16(error):
            return left_to_the_gpu(case, "the interpreter cannot do this with bfloat16")
        if what := lacking(error):
            return left_to_the_gpu(case, cannot_run(what), lacking=what)
    for cause in causes(error):  # the interpreter raises its own from what a kernel raised
        if isinstance(cause, FoundError):
            return _wrong(case, cause.problem)
    cause = raised_in_kernel(error)
    text = f"It raised {type(cause).__name__}: {interpreter_words(cause) or first_line(cause)}"
    if MODE.gpu and gpu_is_lost():
        text += " This session can use the GPU no more: restart it."
    return _wrong(case, Problem("raised", text))


def gpu_is_lost() -> bool:
    """Whether a kernel has ended this process's use of the GPU, as a read far outside does."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]


def _has_bfloat16(case: Case) -> bool:
    return any(wanted.dtype == torch.bfloat16 for wanted in case.inputs)


@dataclass(frozen=True)
class _Expected:
    exact: torch.Tensor
    """The reference's result in float64; integers as they are."""
    shape: torch.Size
    dtype: torch.dtype


def _expect(reference: Function, case: Case, tensors: list[torch.Tensor]) -> _Expected:
    """What the reference says of a case."""
    exact_inputs = [t.double() if t.is_floating_point() else t for t in tensors]
    try:
        exact = reference(*exact_inputs, *case.scalars)
        plain = reference(*tensors, *case.scalars)  # shape and dtype by PyTorch's own rules
    except Exception as error:
        raise CourseError(
            f"The reference failed on {len(tensors)} tensors ({case}) with "
            f"{type(error).__name__}: {first_line(error)}: verify takes your function first and "
            "PyTorch's second, and vectors(2) makes two inputs."
        ) from error
    return _Expected(exact, plain.shape, plain.dtype)


def _form_problem(out: object, expected: _Expected, contiguous: bool) -> Problem | None:
    """What is wrong with a result whatever its values are."""
    text = None
    if out is None:
        text = "It returned nothing: end it with `return`."
    elif not isinstance(out, torch.Tensor):
        text = f"It returned {kind_of(out)}, and must return a tensor."
    elif out.shape != expected.shape:
        shapes = tuple(out.shape), tuple(expected.shape)
        text = "The result has shape {}, and must have {}.".format(*shapes)
    elif out.dtype != expected.dtype:
        text = f"The result has dtype {out.dtype}, and must have {expected.dtype}."
    elif out.device.type != DEVICE:
        text = f"The result is on {out.device}, and must be on {DEVICE}."
    elif contiguous and not out.is_contiguous():
        text = f"The result has strides {out.stride()}, and must be contiguous."
    return Problem("wrong", text) if text else None


def _memory_problem(
    inputs: list[Guarded], before: list[torch.Tensor], allocated: GuardedAllocations
) -> Problem | None:
    """A write outside a tensor, or into an input. before: copies of the inputs' buffers."""
    named = [("its output", guarded) for guarded in allocated.all]
    named += [(f"input {index}", guarded) for index, guarded in enumerate(inputs)]
    for name, guarded in named:
        if strays := guarded.stray_writes():
            positions = ", ".join([*(f"[{i:,}]" for i in strays[:3]), *["…"] * (len(strays) > 3)])
            length = f"{guarded.tensor.numel():,}"
            text = f"It wrote outside {name}, whose length is {length}: at {positions}."
            return Problem("writes outside", text)
    for index, (guarded, buffer) in enumerate(zip(inputs, before, strict=True)):
        if not torch.equal(bits(guarded.buffer), bits(buffer)):
            return Problem("wrong", f"It changed its input {index}.")
    return None


def _regions(inputs: list[Guarded], allocated: GuardedAllocations) -> list[Region]:
    """The tensors of a case, for watching accesses to them."""
    named = [(f"input {index}", guarded) for index, guarded in enumerate(inputs)]
    named += [
        ("a copy of an input" if guarded.for_reading else "its output", guarded)
        for guarded in allocated.all
    ]
    return [
        Region(
            name,
            guarded.tensor.numel(),
            guarded.tensor.data_ptr(),
            guarded.buffer.data_ptr(),
            guarded.buffer.element_size(),
            guarded.inside,
        )
        for name, guarded in named
    ]


def _work(out: torch.Tensor, allocated: GuardedAllocations, log: AccessLog) -> Work:
    return Work(
        launches=log.launches,
        bytes_moved=log.bytes_loaded + log.bytes_stored,
        torch_operations=tuple(allocated.operations),
        torch_copies=allocated.copies,
        result_stored=out.untyped_storage().data_ptr() in log.storages_stored,
        idle_programs=log.idle_programs,
        busy_programs=log.busy_programs,
        programs=log.programs,
        reach=log.reach,
    )
