"""Find a slip by trying: the one small change of an answer that makes it right in every case."""

import dataclasses
import time
from collections.abc import Callable
from typing import ParamSpec

import torch

from course.exercises.kinds import CodeExercise
from course.isolate.function_source import Definition, Source
from course.lessons.statements import statement_of
from course.tracing.time_limit import Stopped, limited
from course.triton_internals.interpreter import Grid, Program
from course.verifying.guarded_memory import bits, is_poison
from course.verifying.inputs import Case
from course.verifying.one_case import Trial
from course.verifying.reruns import programs_of, rerun

from .small_changes import Change, small_changes
from .worker import Found, Where, verified, with_longer_case

P = ParamSpec("P")

LEAST_S, TIMES = 0.1, 4
"""For one change, which may have made a loop endless: so many seconds, and so many times what the
answer takes as it is, …"""
ALL_CASES_S = 3.0
"""… and for all cases, of one that has made the first right."""
MOST_PROGRAMS = 64
"""Among which the one is looked for that computes the wrong element."""


def change_that_helps(exercise: CodeExercise, source: Source, where: Where, most_s: float) -> Found:
    """Where one small change makes a wrong answer right, which was tried; empty if none was found
    in so many seconds."""
    torch.set_num_threads(1)  # for tensors this small threads only wait for one another
    end = time.monotonic() + most_s
    cases = with_longer_case(exercise, where.reach)
    part = _Part(exercise, source, cases[where.case], where)
    for definition, change in change_candidates(exercise.name, source):
        if time.monotonic() > end:
            break
        changed = _with(source, definition, change)
        if _within(part.most_s, part.is_right, changed) and _within(
            ALL_CASES_S, _right_in_all, exercise, changed, cases
        ):
            line = definition.line + change.line - 1
            place = f"{change.look_at} in line {line} of {definition.place}"
            says = f"With one small change it comes out right: look at {place}."
            return Found(says, change.lacks, changed)
    return Found()


def change_candidates(exercise_name: str, source: Source) -> list[tuple[Definition, Change]]:
    """What is to be tried in the functions that the exercise asks for, first in lines that it has
    not given. In functions of other names, those of the answer's own file or cell."""
    statement = statement_of(exercise_name)
    stub = statement.stub if statement else ""
    given = {line.strip() for line in stub.split("\n")}

    def order(definition: Definition, change: Change) -> tuple[bool, int]:
        return definition.text.split("\n")[change.line - 1].strip() in given, change.rank

    last = source.definitions[-1].place
    asked = [each for each in source.definitions if f"def {each.name}(" in stub]
    own = asked or [each for each in source.definitions if each.place == last]
    changes = [
        (definition, change)
        for definition in reversed(own)
        for change in small_changes(definition.text)
    ]
    return sorted(changes, key=lambda each: order(*each))


def _with(source: Source, definition: Definition, change: Change) -> Source:
    changed = dataclasses.replace(definition, text=change.text)
    definitions = [changed if each is definition else each for each in source.definitions]
    return dataclasses.replace(source, definitions=tuple(definitions))


class _Part:
    """A part of the wrong case that tells quickly whether a change helps: what the program writes
    that writes the wrong element, or all of it where no one program does."""

    def __init__(self, exercise: CodeExercise, source: Source, case: Case, where: Where) -> None:
        self.exercise, self.case = exercise, case
        self.trial = Trial(torch.clone, exercise.rounded_once, absolute=exercise.absolute)
        self.expected = exercise.rounded_once(*self.trial.exact_inputs(case), *case.scalars)
        self.program: int | None = None
        self.elements = torch.ones(self.expected.shape, dtype=torch.bool)
        whole = self._timed(source, None)
        if isinstance(whole, torch.Tensor) and whole.shape == self.expected.shape and where.index:
            self._choose(source, whole, where.index)

    def _choose(self, source: Source, whole: torch.Tensor, index: tuple[int, ...]) -> None:
        for number in range(MOST_PROGRAMS):
            alone = self._timed(source, number)
            if not isinstance(alone, torch.Tensor):
                return
            written = (bits(alone) == bits(whole)) & ~is_poison(alone)
            if written[index]:
                self.program, self.elements = number, written
                return

    def _timed(self, source: Source, number: int | None) -> torch.Tensor | Exception:
        begin = time.monotonic()
        out = self._run(source, number)
        self.most_s = LEAST_S + TIMES * (time.monotonic() - begin)
        return out

    def _run(self, source: Source, number: int | None) -> torch.Tensor | Exception:
        def one_program(grid: Grid) -> list[Program]:
            return programs_of(grid)[number : number + 1] if number is not None else []

        sample = None if number is None else one_program
        return rerun(self.exercise.function(source.load()), self.case, sample=sample)

    def is_right(self, source: Source) -> bool:
        out = self._run(source, self.program)
        if not isinstance(out, torch.Tensor) or out.shape != self.expected.shape:
            return False
        return bool(self.trial.close(self.case, out, self.expected)[self.elements].all())


def _right_in_all(exercise: CodeExercise, source: Source, cases: tuple[Case, ...]) -> bool:
    outcomes = verified(exercise, exercise.function(source.load()), cases)
    return len(outcomes) == len(cases) and all(each.verdict != "wrong" for each in outcomes)


def _within(seconds: float, is_right: Callable[P, bool], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Whether something is right, and known within some seconds of computing."""
    try:
        with limited(seconds):
            return is_right(*args, **kwargs)
    except (Exception, Stopped):  # what a change makes of an answer may raise anything
        return False
