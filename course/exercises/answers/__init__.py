"""Wrong answers that people give to each exercise, with what they mean, and other right ones: data.

For code an answer is a change to the lesson's own solution: texts to find there, and what to put in
their place. Tests try every answer; who leads a workshop reads what a mistake means.
"""

import importlib
from dataclasses import dataclass, field
from types import ModuleType

from course.exercises.registry import TOPICS


@dataclass(frozen=True)
class Mistake:
    """A wrong answer, and what check must say of it."""

    name: str
    answer: object
    """For code what is replaced in the solution, else the answer itself."""
    verdict: str
    says: str
    """Part of the reason: a mistake must be caught for what it is."""
    kind: str = ""
    """What check finds, as `Judged` names it; by it who leads a room is told of this mistake."""
    means: str = field(kw_only=True)
    """What somebody who makes it believes that is not so, as one colleague says it to another."""


@dataclass(frozen=True)
class Other:
    """A right answer that is not the solution."""

    name: str
    answer: object


def mistakes(exercise: str) -> list[Mistake]:
    """The usual wrong answers to the exercise of this name, as "scale-and-shift"."""
    answers: list[Mistake] = _topic(exercise).MISTAKES[exercise]
    return answers


def others(exercise: str) -> list[Other]:
    """Right answers to the exercise of this name that are not the lesson's."""
    answers: list[Other] = _topic(exercise).OTHERS[exercise]
    return answers


def usual_mistake(exercise: str, kind: str) -> str:
    """The name of the usual mistake of this kind (see `Judged`); of several that a check cannot
    tell apart, the names with "or" between. Empty for an answer of no kind, as a right one is, and
    for a mistake that is not usual."""
    return " or ".join(each.name for each in mistakes(exercise) if kind and each.kind == kind)


def _topic(exercise: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{TOPICS[exercise]}")


def changed(solution: str, replace: dict[str, str]) -> str:
    """The solution with these texts replaced, each of which must be in it."""
    for old, new in replace.items():
        assert old in solution, f"{old!r} is not in the solution"
        solution = solution.replace(old, new)
    return solution
