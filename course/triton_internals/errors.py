"""What the compiler's and the interpreter's exceptions say."""

import ast
import re
import traceback
from collections.abc import Sequence
from types import FrameType

import triton
from triton import InterpreterError
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure

from .error_meanings import meaning
from .kernel_place import Place

NO_VALUE = "a kernel returns no value: write it to memory, by tl.store"


class CompileError(Exception):
    """A kernel does not compile: why, and where."""

    def __init__(self, reason: str, places: Sequence[tuple[str, int]], kind: str) -> None:
        """places: where the compiler stopped, from the innermost call to the outermost: a
        function's text, from its `def`, and the line in it, from 1. kind: its `first_words`."""
        super().__init__(reason)
        self.reason, self.places, self.kind = reason, places, kind


class CannotInterpretError(Exception):
    """A kernel needs what Triton's interpreter lacks. The text names it."""


def compile_problem(error: Exception) -> CompileError:
    """What an exception from a compilation says."""
    chain = causes(error)
    texts = [getattr(each, "error_message", None) or _own_words(each) for each in chain]
    # Triton's own error shows the source, and below it what is wrong with it.
    last_line = [line for line in str(error).strip().splitlines()[-1:] if line.strip("^ ")]
    known = (text for text in [*reversed(texts), *last_line] if text)
    asserted = isinstance(chain[-1], CompileTimeAssertionFailure)
    reason = next(known, _FALSE if asserted else NO_REASON)
    wrapped = re.fullmatch(r"[A-Za-z]+\((['\"])(.*)\1\)", reason, re.DOTALL)
    reason = " ".join((wrapped[2].replace("\\'", "'") if wrapped else reason).split())
    words, reason = reason, meaning(error) or reason
    if isinstance(getattr(chain[-1], "node", None), ast.While) and reason == _CONSTANT:
        reason = _NO_END
    if reason.startswith(_OUTSIDE_A_KERNEL):
        reason = _NO_CONSTANT
    if match := _MANGLED.fullmatch(reason):
        reason = f"{match[1]} calls itself, and a kernel cannot"
    located = [
        (each.src, each.node.lineno)
        for each in reversed(chain)
        if isinstance(each, CompilationError) and hasattr(each.node, "lineno") and each.src
    ]
    if not located and (place := Place.of(error)).source:  # it was not yet compiling
        located = [(place.source, getattr(place.node, "lineno", 1))]
    return CompileError(reason, located, first_words(words) or type(chain[-1]).__name__)


def first_words(text: str) -> str:
    """The kind of error that a library's text tells of: its first words, without names, types and
    numbers, as "incompatible dimensions at index"."""
    plain = re.sub(r"([`'\"]).*?\1|<.*?>|\[.*?\]|\S*[\d_.(]\S*", " ", text)
    return " ".join(re.findall(r"[A-Za-z]+", plain)[:8]).lower()


NO_REASON = "the compiler gives no reason"
_FALSE = "the condition of this assertion is false"
"""What Triton does not say of a tl.static_assert without a text."""
_MANGLED = re.compile(r"(?:\w+\.)*(\w+?)__\w*")
"""A function's name with its types: all that Triton says of one that calls itself."""
_OUTSIDE_A_KERNEL = "Did you forget to add @triton.jit"
"""How Triton refuses a function of the language outside of a kernel."""
_NO_CONSTANT = "a computed value stands where Triton needs a constant, as for an axis or a shape"
"""Triton's own Python code met a block there, and called the language outside of a kernel."""
_NO_ATOMIC = "Unsupported data type"
"""How the interpreter refuses an atomic update of a type that it does not know."""
_CONSTANT = "'constexpr' object has no attribute 'handle'"
_NO_END = (
    "the condition of the `while` is a constant, so the loop never ends or never runs: compute it "
    "from what the loop changes (an argument that is 1 counts as a constant)"
)


def causes(error: Exception) -> list[Exception]:
    """An exception, the one it was raised from, and so on."""
    cause = error.__cause__
    return [error, *(causes(cause) if isinstance(cause, Exception) else [])]


def raised_in_kernel(error: Exception) -> Exception:
    """What a kernel raised, if the interpreter has wrapped it; else the error itself."""
    return causes(error)[-1] if isinstance(error, InterpreterError) else error


def lacks_bfloat16(error: Exception) -> bool:
    """Whether the interpreter stopped for want of bfloat16's constants, or of atomics on it."""
    return "get_bf16" in str(error) or _NO_ATOMIC in str(error)


def lacking(error: Exception) -> str:
    """What Triton's interpreter lacks, where a kernel failed for want of it; else nothing."""
    chain = causes(error)
    last = chain[-1]
    if isinstance(last, CannotInterpretError):
        return str(last)
    if isinstance(last, AttributeError):
        of_builder = type(last.obj).__name__ == "InterpreterBuilder"
        if of_builder and last.name != "grid_idx":
            return _language_function(last) or str(last.name)
        if getattr(last.obj, "__triton_aggregate__", False):
            return f"{last.name}, a method of an @aggregate class"
    if isinstance(last, NotImplementedError) and "interpreter" in str(last):
        return _language_function(last) or str(last)
    if isinstance(last, ValueError) and str(last) == _NO_ATOMIC:
        function = _language_function(last)
        values = (frame.f_locals.get("val") for frame in reversed(_frames(last)))
        value = next((each for each in values if each is not None), None)
        return f"{function} of {value.dtype.scalar}" if function and value is not None else ""
    # The interpreter gives its own functions of the language to a kernel: one that refuses is
    # another's.
    in_a_kernel = any(isinstance(each, InterpreterError) for each in chain)
    if (
        in_a_kernel
        and str(last).startswith(_OUTSIDE_A_KERNEL)
        and not isinstance(Place.of(error).node, ast.Subscript)
    ):
        function = _frames(last)[-1].f_locals["fn"]
        return f"{function.__module__}.{function.__name__}"
    return ""


def cannot_run(what: str) -> str:
    """A clause saying that the interpreter cannot run `what`."""
    return f"Triton's interpreter cannot run {what}, but a GPU can"


def _frames(error: Exception) -> list[FrameType]:
    """The calls that led to an exception, the innermost last."""
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def _language_function(error: Exception) -> str:
    """The function of Triton's language in which an error was raised, as a kernel names it, or the
    method of a tensor descriptor."""
    for frame in _frames(error):
        name = frame.f_code.co_name
        in_language = frame.f_code.co_filename == triton.language.core.__file__
        itself = frame.f_locals.get("self")
        if in_language and isinstance(itself, triton.language.core.tensor_descriptor_base):
            return f"the {name} of a tensor descriptor"
        if in_language and hasattr(triton.language, name):
            return f"tl.{name}"
    return ""


def _own_words(error: Exception) -> str:
    """What an error says, unless it only shows the source."""
    return "" if isinstance(error, CompilationError) else str(error)
