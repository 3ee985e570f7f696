"""check: is an answer to an exercise right? An answer that is code runs in child processes, never here."""

import ast
import inspect
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

from course import MODE
from course.errors import CourseError
from course.isolate import UnreadableError
from course.isolate.ended import Ended, Kind
from course.isolate.function_source import Source, source_of
from course.isolate.limits import child_memory_bytes
from course.isolate.pool import call, cancel
from course.lessons.statements import statements
from course.tracing.launching import value_of
from course.tracing.replay import Replay
from course.triton_internals.jit_functions import plain_function

from . import learner
from . import replay_answer as stepping
from . import worker as trial
from .kinds import Code, Judged, Kernel, Verdict
from .registry import find

TARGET = "sm_90"
"""What an answer is compiled for where no GPU is there."""

MIME = "application/vnd.triton-course.checked+json"
MOST_PRINTED_LINES = 10
MOST_COLUMNS = 300
NO_MEMORY = re.compile(
    r"MemoryError|can't allocate memory|not enough memory|out of memory", re.IGNORECASE
)
"""What NumPy, PyTorch and CUDA say where memory is refused."""
SMALLER = "look for a tensor that is larger than it must be, or close what else takes memory here and check it again"
NO_VERDICT: Judged = (
    "crashed",
    "What came back from its process is no verdict: does it change what `check` uses?",
)


@dataclass(frozen=True)
class Checked:
    """What came of a check. Prints as a sentence or a few."""

    exercise: str
    verdict: Verdict
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    again: Callable[[list[Any], Any], dict[str, Any]] | None = field(
        default=None, repr=False, compare=False
    )
    """Traces where it goes wrong, as `display.replay.Replay` takes it."""

    def replay(self) -> Replay:
        """Step through the program that went wrong. Raises CourseError where there is none."""
        if self.again is None:
            raise CourseError(f"{self.exercise}: {self.verdict}. There is nothing to step through.")
        return Replay(self.again, {**self.again([], None), "notes": self.reason.splitlines()})

    @property
    def right(self) -> bool:
        return self.verdict == "right"

    def __str__(self) -> str:
        tried = self.right and self.reason.startswith("in ")
        head = f"{self.exercise}: {self.verdict}" + (f", {self.reason}" if tried else ".")
        lines = [*([] if tried else self.reason.splitlines()), *self.notes]
        return "\n".join([head, *(f"    {_cut(line)}" for line in lines)])

    __repr__ = __str__

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        # The second for `course check`, which reads it from the notebook.
        return {
            "text/plain": str(self),
            MIME: {"exercise": self.exercise, "verdict": self.verdict, "text": str(self)},
        }


def check(exercise_id: str, answer: Any) -> Checked:
    """Judge `answer` to the exercise of this id, as check("01.2", my_kernel).

    answer: what the exercise asks for: a kernel, a launcher, a number, a letter or a text. None and an untouched stub
        are "to do".
    Raises CourseError where there is no such exercise.
    """
    exercise = find(exercise_id)
    exercise_id = exercise.id
    if answer is None or answer is ...:
        return Checked(exercise_id, "to do")
    checked = (
        _check_code(exercise, answer)
        if isinstance(exercise, Code)
        else Checked(exercise_id, *exercise.judge(answer))
    )
    if checked.verdict in ("to do", "no answer", "stopped", "left to the GPU"):
        return checked
    if problem := learner.note(exercise_id, checked.verdict):
        checked.notes.append(problem)
    return checked


def _check_code(exercise: Code, answer: Any) -> Checked:
    if problem := _form_problem(exercise, answer):
        return Checked(exercise.id, "no answer", problem)
    try:
        source = source_of(answer, kernels_as_text=True)
    except CourseError as error:
        return Checked(exercise.id, "no answer", str(error))
    if _is_stub(source, exercise.id):
        return Checked(exercise.id, "to do")
    (verdict, reason), notes, where = _try(exercise, source)
    again = None
    if where is not None:
        again = partial(_steps, exercise, source, where)
        notes.append(
            f'See it step by step: check("{exercise.id}", {(plain_function(answer) or answer).__name__}).replay()'
        )
    return Checked(exercise.id, verdict, reason, notes, again)


def _steps(
    exercise: Code, source: Source, where: dict[str, Any], programs: list[Any], _: Any
) -> dict[str, Any]:
    found: dict[str, Any] = value_of(
        call(
            stepping.steps,
            exercise.id,
            source.to_json(),
            where,
            programs,
            kind="interpret",
            timeout_s=4 * stepping.STEPS_S,
        )
    )
    return found


def _form_problem(exercise: Code, answer: Any) -> str:
    is_kernel = plain_function(answer) is not None
    function = plain_function(answer) or answer
    if not inspect.isfunction(function) or is_kernel != isinstance(exercise, Kernel):
        what = (
            "a kernel"
            if is_kernel
            else "a plain function"
            if inspect.isfunction(answer)
            else f"a {type(answer).__name__}"
        )
        called = "; give it without calling it" if not callable(answer) and not is_kernel else ""
        return f"It must be {exercise.form}; this is {what}{called}."
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    more = names[len(exercise.parameters) :]
    if names[: len(exercise.parameters)] != exercise.parameters or any(
        parameters[name].default is inspect._empty for name in more
    ):
        return f"{function.__name__} takes ({', '.join(names)}), and the exercise gives it ({', '.join(exercise.parameters)})."
    return ""


def _is_stub(source: Source, exercise_id: str) -> bool:
    """Whether nothing was added to the functions of the exercise's stub. Comments and blank lines do not count."""
    statement = statements().get(exercise_id)
    if statement is None:
        return False
    stub = {
        node.name: ast.dump(node)
        for node in ast.parse(statement.stub).body
        if isinstance(node, ast.FunctionDef)
    }
    nodes = [node for each in source.definitions for node in ast.parse(each.text).body]
    ours = {node.name: ast.dump(node) for node in nodes if isinstance(node, ast.FunctionDef)}
    asked = set(stub) & set(ours)
    return bool(asked) and all(stub[name] == ours[name] for name in asked)


def _try(exercise: Code, source: Source) -> tuple[Judged, list[str], dict[str, Any] | None]:
    """Compile it and run it in the interpreter, and where there is a GPU run it there too.

    Returns the verdict, notes, and where it goes wrong in the interpreter: see `stepping.Where`.
    """
    text = source.to_json()
    memory_bytes = (
        child_memory_bytes() // 2
    )  # what the answer does in both children, it may do only once

    def run(kind: Kind, function: Any, *more: Any) -> Ended:
        try:
            return call(
                function,
                exercise.id,
                text,
                *more,
                kind=kind,
                timeout_s=exercise.timeout_s,
                memory_bytes=memory_bytes,
            )
        except CourseError as error:  # it has taken its worker with it
            return Ended("failed", 1, "", f"Traceback (most recent call last):\n{error}", 0.0)

    with ThreadPoolExecutor(1) as other:
        compiling = other.submit(run, "compile", trial.compiles, TARGET)
        try:
            interpreted = run("interpret", trial.values)
            compiled = compiling.result()
        except BaseException:  # an interrupted check does not wait for the other child either
            cancel("compile")
            raise
    if problem := _died(compiled, "The compiler"):
        # What crashes before it launches anything does so in both: then running it says more.
        return (_died(interpreted, "It") or problem), _printed(interpreted), None
    match compiled.value:
        case [[verdict, str(reason)], str(untold)] if verdict in get_args(Verdict):
            compiles: Judged = (verdict, reason)
        case _:
            return NO_VERDICT, [], None
    if compiles[0] == "does not compile":
        return compiles, [], None
    judged, left, raised, where = _judged(interpreted)
    left_to_gpu = judged[0] == "left to the GPU"
    # What it raised may be for want of something in the interpreter that is not known to be missing.
    if judged[0] != "right" and not left_to_gpu and not (raised and MODE.gpu):
        return judged, left, where
    if compiles[0] != "right":
        return compiles, [], None
    if MODE.gpu:
        judged, left, *_ = _judged(run("launch", trial.values))
        return (
            (("right", f"{judged[1]}, on this GPU.") if judged[0] == "right" else judged),
            left,
            None,
        )
    reason = judged[1]
    if left_to_gpu:
        known = (
            f"Whether it compiles could not be told ({_cut(untold)})"
            if untold
            else f"It compiles for {TARGET}"
        )
        return ("left to the GPU", f"{reason}\n{known}: check it in GPU mode."), [], None
    if untold:
        return (
            ("right", f"{reason}; whether it compiles could not be told ({_cut(untold)})."),
            left,
            None,
        )
    return ("right", f"{reason}, and it compiles for {TARGET}."), left, None


def _judged(ended: Ended) -> tuple[Judged, list[str], bool, dict[str, Any] | None]:
    """The verdict of a run, notes to it, whether the answer raised, and where it went wrong."""
    if problem := _died(ended, "It"):
        return problem, _printed(ended), False, None
    match ended.value:
        case [[verdict, str(reason)], list(left), bool(raised), dict() | None as where] if (
            verdict in get_args(Verdict)
        ):
            if raised and NO_MEMORY.search(reason):
                return (
                    ("stopped", f"{reason}\nSo nothing is known of your answer: {SMALLER}."),
                    _printed(ended),
                    raised,
                    None,
                )
            return (verdict, reason), left if verdict == "right" else _printed(ended), raised, where
    return NO_VERDICT, _printed(ended), False, None


def _died(ended: Ended, what: str) -> Judged | None:
    """The verdict where a child did not come to its end."""
    if ended.how == "finished":
        return None
    if isinstance(ended.error, UnreadableError):
        return NO_VERDICT
    if ended.starved:
        again = "check it again when this machine is less busy, unless it waits for something that never comes"
        return (
            "stopped",
            f"{what} was stopped {ended.stopped}, so nothing is known of your answer: {again}.",
        )
    if ended.how == "out of time":
        look = "look for a loop without end or for very many programs, or check it again if this machine is busy"
        return "stopped", f"{what} was stopped {ended.stopped}: {look}."
    if ended.how == "out of memory":
        return "stopped", f"{what} was stopped {ended.stopped}: {SMALLER}."
    if ended.how == "crashed":
        return "crashed", f"{what} was killed by {ended.signal}. Your session is untouched."
    return (
        "crashed",
        f"{what} ended early: {ended.exception or f'it left with exit code {ended.code}'}",
    )


def _printed(ended: Ended) -> list[str]:
    """The last lines that an answer printed."""
    lines = ended.stdout.splitlines()
    return [f"It printed: {line}" for line in lines[-MOST_PRINTED_LINES:]]


def _cut(line: str) -> str:
    """A line short enough to read, without what would steer a terminal."""
    shown = printable(line, kept="\t")
    return shown if len(shown) <= MOST_COLUMNS else shown[:MOST_COLUMNS] + " …"


def printable(text: str, kept: str = "\n\t") -> str:
    """A text with its control characters written out, which would otherwise steer a terminal; all but those that are kept."""
    return "".join(
        each if each.isprintable() or each in kept else repr(each)[1:-1] for each in text
    )
