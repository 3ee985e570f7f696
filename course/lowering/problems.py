"""Why a kernel does not compile, in a sentence."""

import re
import tempfile
from collections.abc import Sequence
from typing import ParamSpec, TypeVar

from course.errors import CourseError
from course.files import advice
from course.isolate.border import InChild
from course.isolate.function_source import Definition
from course.triton_internals.errors import CompileError

from .kernel_reference import InFile
from .request import Request

P = ParamSpec("P")
R = TypeVar("R")


class LowerError(CourseError):
    """A kernel that does not compile, in a sentence. `details` has all that the compiler said."""

    def __init__(self, problem: str, details: str = "") -> None:
        super().__init__(problem, details)  # both, since both cross to another process
        self.problem, self.details = problem, details

    def __str__(self) -> str:
        return self.problem

    def _render_traceback_(self) -> list[str]:
        # What a notebook shows in place of a traceback through the course's own code.
        hint = "All that the compiler said: import sys; print(sys.last_value.details)"
        return [f"LowerError: {self}", *(["", hint] if self.details else [])]


def compile_error(error: CompileError, listing: Sequence[Definition], more: str = "") -> LowerError:
    """Why a kernel does not compile, with the line of its listing.

    more: what follows the reason in its sentence, with its punctuation.
    """
    function, line, text = error.within(listing) or (None, 0, "")
    subject = function.name if function else "It"
    sentence = f"{subject} does not compile: {first_sentence(error.reason)}"
    if more:
        sentence = sentence.rstrip(".") + more
    if function:
        where = "its cell" if function.file.startswith("<cell") else function.file
        sentence += f"\nLine {line} of {where}:  {text}"
    return LowerError(sentence, str(error.__cause__ or error))


def disk_error(error: OSError) -> LowerError:
    """What an OSError of the compiler's says: of the disk, or of a library that does not load."""
    if error.errno is None:
        return LowerError(
            f"Triton lacks a part of its own ({error}): "
            "install it anew, as `make clean setup` does."
        )
    folder = tempfile.gettempdir()
    return LowerError(
        f"The compiler could not write its files in {folder}: {error.strerror}; {advice(error)}."
    )


def first_sentence(reason: str) -> str:
    """The first sentence of a compiler's words; if they are ptxas's, its own first error."""
    ptxas = r"ptxas[\w-]* [^;]*; (?:error|fatal) *: (.*?)(?= ptxas| Repro|$)"
    if match := re.search(ptxas, reason):
        return f"ptxas says: {match[1].strip().rstrip('.')}."
    return reason.split(". ")[0].rstrip(".") + "."


def run_compiler(function: InChild[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function that compiles in a child returns. Raises LowerError if it fails."""
    ended = function.ended(*args, **kwargs)  # type: ignore[arg-type]
    output = ended.stderr.strip()
    if ended.error is not None:
        known = ended.error.details if isinstance(ended.error, LowerError) else ""
        details = "\n".join(filter(None, [known, output]))
        raise LowerError(clearer(str(ended.error), details), details)
    if ended.how == "finished":
        return ended.value  # type: ignore[return-value]
    sentence = ended.sentence("The compiler")
    first = args[0] if args else None
    kernel = first.kernel if isinstance(first, Request) else first
    if ended.how == "out of time" and isinstance(kernel, InFile):
        sentence += f"; before it compiles, it executes {kernel.file}"
    if ended.how == "out of memory":
        sentence += ", more than it may take on this machine now"
    if ended.stopped:
        raise LowerError(f"{sentence}.", output)
    errors = (line for line in output.splitlines() if "error:" in line or "Assertion" in line)
    hint = next(errors, "").strip()[:300]
    raise LowerError(f"{sentence}." + (f" It said: {hint}" if hint else ""), output)


_VAGUE = re.compile(
    "PassManager::run failed|error encountered during parsing|the compiler gives no reason"
)


def clearer(sentence: str, details: str) -> str:
    """A sentence with words that say nothing replaced by what the compiler wrote beside them.

    That is its first error, or the pass that failed.
    """
    if error := re.search(r"\berror: (.+?)\.?$", details, re.MULTILINE):
        reason = error[1]
    elif failed := re.search(r"Pipeline failed while executing \[`(\w+)`", details):
        reason = f"the compiler's pass {failed[1]} failed"
    else:
        return sentence
    return _VAGUE.sub(lambda _: reason, sentence)
