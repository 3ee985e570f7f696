"""Step through the launch in which an answer goes wrong, in a child process."""

from dataclasses import dataclass
from typing import Any

import torch

from course.isolate.function_source import Source
from course.tracing.accesses import refuse_promise
from course.tracing.observer import Failure, Watch, watched
from course.tracing.sites import Listing
from course.tracing.worker import content_of
from course.triton_internals.interpreter import Program
from course.triton_internals.promises import promises_held
from course.verifying.inputs import Case

from .kinds import Code
from .registry import code_exercise

STEPS_S = 10


@dataclass(frozen=True)
class Where:
    """Where an answer goes wrong."""

    case: int
    """The number of the exercise's case."""
    program: Program | None
    """The program that did it, where one is known, …"""
    launch: int
    """… in the launch of this number."""
    index: tuple[int, ...] | None
    """The first wrong element of the result."""
    longer: int | None = None
    """What `exercise.longer` was given, whose case then comes third."""


def steps(
    exercise_id: str, source: dict[str, Any], where: dict[str, Any], programs: list[Any]
) -> dict[str, Any]:
    """What `tracing.tasks.content_of` says of the launch in which an answer goes wrong. In a child that interprets.

    programs: to be recorded instead of the one that does it.
    """
    exercise, text, found = code_exercise(exercise_id), Source.from_json(source), Where(**where)
    kernels = tuple(each for each in text.definitions if each.text.startswith("@"))
    launch, opened, element = found.launch, found.program, None
    record = {(launch, tuple(each)) for each in programs or [opened] if each}
    for _ in range(2):  # once more where the program to be shown turns out to be another one
        watch = Watch(Listing(kernels), record=record)
        # Defined anew: a tuner remembers what it has tried.
        result, failure = _run(watch, exercise.function(text.load()), _case(exercise, found))
        if failure is not None and not failure.line:
            failure = None  # no kernel's fault
        if not watch.surveys:
            return {"problem": "It launched no kernel: there is nothing to step through."}
        if failure is not None:
            launch, opened = len(watch.surveys) - 1, failure.program
        elif found.index is not None and isinstance(result, torch.Tensor):
            launch, opened, element = _writer(watch, result, found.index)
        if record and all(tuple(each) in watch.recorded for _, each in record):
            break
        record = {(launch, tuple(opened or (0, 0, 0)))}
    return content_of(watch, launch, failure, opened, element)


def _case(exercise: Code, where: Where) -> Case:
    cases = list(exercise.cases)
    if exercise.longer and where.longer is not None:
        cases.insert(2, exercise.longer(where.longer))
    return cases[where.case]


def _run(watch: Watch, function: Any, case: Case) -> tuple[Any, Failure | None]:
    """What an answer returns on a case, and why it did not come to its end, if it did not."""
    inputs, results = case.make("cpu"), []

    def launch() -> None:
        results.append(function(*(each.tensor for each in inputs), *case.scalars))

    with promises_held(refuse_promise):
        failure = watched(watch, launch, STEPS_S)
    return (results or [None])[0], failure


def _writer(watch: Watch, result: torch.Tensor, index: tuple[int, ...]) -> tuple[int, Program, Any]:
    """The launch and the program that wrote an element of the result last, and which element of which tensor that is.

    Where nobody wrote it, the last launch's first program.
    """
    place = result.data_ptr() + result.element_size() * sum(
        i * step for i, step in zip(index, result.stride(), strict=True)
    )
    for launch, survey in reversed(list(enumerate(watch.surveys))):
        if written := survey.last_writer(place):
            argument, number, program = written
            return launch, program, [argument.name, list(argument.index(number))]
    return len(watch.surveys) - 1, watch.last.programs[0], None
