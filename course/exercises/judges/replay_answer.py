"""Step through the launch in which an answer goes wrong, traced in a child process."""

from dataclasses import replace
from typing import Any

import torch

from course.errors import CourseError
from course.exercises.kinds import TensorFunction
from course.exercises.registry import code_exercise
from course.isolate import runs_in
from course.isolate.function_source import Source
from course.tracing.kernel_text import KernelText
from course.tracing.observer import Watch, watched
from course.tracing.records import Element, Failure, Recording
from course.tracing.replay import Replay
from course.tracing.worker import recording
from course.triton_internals.interpreter import Program
from course.verifying.inputs import Case

from .worker import Where, refuse_forks, with_longer_case

STEPS_S = 10


def replay_answer(exercise_name: str, source: Source, where: Where, reason: str) -> Replay:
    """The program that went wrong, to be stepped through, with the reason beside it."""

    def trace(programs: list[Program], _: Element | None) -> Recording:
        return trace_answer(exercise_name, source, where, programs)

    recorded = trace([], None)
    return Replay(trace, replace(recorded, notes=reason.splitlines(), step=_step(recorded, where)))


def _step(recorded: Recording, where: Where) -> int:
    """The opened program's first step that touches what is beside a tensor or, where an element of
    the result is wrong, that stores; 0 if none does."""
    opened = recorded.opened or (0, 0, 0)
    steps = next((each.steps for each in recorded.programs if each.program == opened), [])
    for at, step in enumerate(steps):
        stores = where.index is not None and any(each.kind != "load" for each in step.touches)
        if stores or any(each.outside for each in step.touches):
            return at
    return 0


@runs_in("interpret", timeout_s=4 * STEPS_S)
def trace_answer(
    exercise_name: str, source: Source, where: Where, programs: list[Program]
) -> Recording:
    """The launch in which an answer goes wrong, recorded.

    programs: to be recorded instead of the one that does it.
    """
    refuse_forks()
    exercise = code_exercise(exercise_name)
    case = with_longer_case(exercise, where.reach)[where.case]
    kernels = tuple(text for text in source.definitions if text.text.startswith("@"))
    launch, opened, element = where.launch, where.program, None
    shown = programs or ([opened] if opened else [])
    record = {(launch, program) for program in shown}
    for _ in range(2):  # once more where the program to be shown turns out to be another one
        watch = Watch(KernelText(kernels), record=record, strict=True)
        # Defined anew: a tuner remembers what it has tried.
        result, failure = _run(watch, exercise.function(source.load()), case)
        if failure is not None and not failure.line:
            failure = None  # no kernel's fault
        if not watch.launches:
            raise CourseError("It launched no kernel: there is nothing to step through.")
        if failure is not None:
            launch, opened = len(watch.launches) - 1, failure.program
        elif where.index is not None and isinstance(result, torch.Tensor):
            launch, opened, element = _writer(watch, result, where.index)
        if record and all(program in watch.recorded for _, program in record):
            break
        record = {(launch, opened or (0, 0, 0))}
    return recording(watch, launch, failure, opened, element)


def _run(watch: Watch, function: TensorFunction, case: Case) -> tuple[Any, Failure | None]:
    """What an answer returns on a case, and why it did not come to its end, if it did not."""
    arguments = case.arguments("cpu")
    result = None

    def launch() -> None:
        nonlocal result
        result = function(*arguments)

    failure = watched(watch, launch, STEPS_S)
    return result, failure


def _writer(
    watch: Watch, result: torch.Tensor, index: tuple[int, ...]
) -> tuple[int, Program, Element | None]:
    """The launch and the program that wrote an element of the result last, and which element of
    which tensor that is. If nobody wrote it: the last launch's first program, and None."""
    address = result[index].data_ptr()
    for launch, counter in reversed(list(enumerate(watch.launches))):
        if written := counter.last_writer(address):
            argument, number, program = written
            return launch, program, Element(argument.name, argument.index(number))
    return len(watch.launches) - 1, watch.last.programs[0], None
