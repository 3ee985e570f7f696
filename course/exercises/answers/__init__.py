"""Wrong answers that people give to each exercise, with what they mean, and other right ones: data.

For code an answer is a change to the lesson's own solution: texts to find there, and what to put in
their place. Tests try every answer; who leads a workshop reads what a mistake means.
"""

import importlib
from dataclasses import dataclass, field
from types import ModuleType


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


def mistakes(exercise_id: str) -> list[Mistake]:
    """The usual wrong answers to the exercise of this id, as "01.2"."""
    answers: list[Mistake] = _lesson(exercise_id).MISTAKES[exercise_id]
    return answers


def others(exercise_id: str) -> list[Other]:
    """Right answers to the exercise of this id that are not the lesson's."""
    answers: list[Other] = _lesson(exercise_id).OTHERS[exercise_id]
    return answers


def usual_mistake(exercise_id: str, kind: str) -> str:
    """The name of the usual mistake of this kind (see `Judged`); of several that a check cannot
    tell apart, the names with "or" between. Empty for an answer of no kind, as a right one is, and
    for a mistake that is not usual."""
    return " or ".join(each.name for each in mistakes(exercise_id) if kind and each.kind == kind)


def _lesson(exercise_id: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.lesson_{exercise_id[:2]}")


def changed(solution: str, replace: dict[str, str]) -> str:
    """The solution with these texts replaced, each of which must be in it."""
    for old, new in replace.items():
        assert old in solution, f"{old!r} is not in the solution"
        solution = solution.replace(old, new)
    return solution
