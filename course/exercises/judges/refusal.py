"""Why the compiler has refused an answer. Loaded only then, since it needs the lowering room."""

from course.exercises.result import Judged
from course.isolate.function_source import Definition
from course.lowering.compile_errors import first_sentence, place_in, place_of, printed_error
from course.triton_internals.errors import CompileError, first_words

VAGUE = first_words("error encountered during parsing"), first_words("PassManager::run failed")
"""Kinds of Triton's refusals that say nothing."""


def refusal(problem: CompileError, definitions: tuple[Definition, ...]) -> str:
    """The line in the reader's own file or cell at which the compiler stopped, and why."""
    reason = first_sentence(problem.reason).rstrip(".")
    place = place_of(problem, definitions)
    if place is None:
        return f"{reason}."
    definition, line, text = place
    return f"Line {line} of {definition.place}:  {text}\n{reason}."


def complete_refusal(judged: Judged, printed: str, definitions: tuple[Definition, ...]) -> Judged:
    """A refusal with its line and cause, where Triton only says that parsing or a pass failed.

    printed: what the compiler wrote to standard error, its own errors among it.
    """
    error = printed_error(printed)
    if error is None or judged.kind not in VAGUE:
        return judged
    reason = f"{error.cause}."
    if place := place_in(definitions, error.frames):
        definition, line, text = place
        reason = f"Line {line} of {definition.place}:  {text}\n{reason}"
    return Judged("does not compile", reason, error.kind)
