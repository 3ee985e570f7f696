"""Names that other rooms use until they call functions in children by `course.isolate.runs_in`."""

from collections.abc import Callable, Sequence
from typing import Any

from course.isolate.border import InChild
from course.isolate.function_source import Definition
from course.triton_internals.errors import CompileError

from .problems import LowerError, clearer, compile_error, disk_error, run_compiler


def call_compiler(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns that compiles in a child."""
    return run_compiler(InChild(function, "compile", 120, None), *args)


def refuse_problem(answer: dict[str, Any]) -> None:
    """Raise LowerError for a "problem" that came back from the child."""
    if "problem" in answer:
        details = answer.get("details", "")
        raise LowerError(clearer(answer["problem"], details) + answer.get("place", ""), details)


def problem_of(error: CompileError, listing: Sequence[Definition]) -> dict[str, Any]:
    """The problem in a sentence, its place as a second line, and all that the compiler said."""
    problem = compile_error(error, listing)
    sentence, newline, place = problem.problem.partition("\nLine ")
    return {"problem": sentence, "place": newline + place, "details": problem.details}


def disk_problem(error: OSError) -> dict[str, Any]:
    """See `problems.disk_error`."""
    return {"problem": disk_error(error).problem}
