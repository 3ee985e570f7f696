"""Wrong answers that people give to each exercise, with what they mean, and other right ones: data.

For code an answer is a change to the lesson's own solution: texts to find there, and what to put in
their place. Tests try every answer; who leads a workshop reads what a mistake means.
"""

import importlib
from dataclasses import dataclass
from types import ModuleType

from course.exercises.kinds import Answer


@dataclass(frozen=True)
class Mistake:
    """A wrong answer, and what check must say of it."""

    name: str
    answer: dict[str, str] | Answer
    """For code what is replaced in the solution, else the answer itself."""
    verdict: str
    says: str
    """Part of the reason: a mistake must be caught for what it is."""
    means: str
    """What somebody who makes it believes that is not so, as one colleague says it to another."""


@dataclass(frozen=True)
class Other:
    """A right answer that is not the solution."""

    name: str
    answer: dict[str, str] | Answer


def mistakes(exercise_id: str) -> list[Mistake]:
    """The usual wrong answers to the exercise of this id, as "01.2"."""
    answers: list[Mistake] = _lesson(exercise_id).MISTAKES[exercise_id]
    return answers


def others(exercise_id: str) -> list[Other]:
    """Right answers to the exercise of this id that are not the lesson's."""
    answers: list[Other] = _lesson(exercise_id).OTHERS[exercise_id]
    return answers


def usual_mistake(exercise_id: str, verdict: str, text: str) -> str:
    """The name of the usual mistake that a check tells of; of several that it cannot tell apart,
    the names with "or" between. Empty for a right answer and for a mistake that is not usual.

    text: all that the check says.
    """
    told = [
        mistake.name
        for mistake in mistakes(exercise_id)
        if mistake.verdict == verdict and mistake.says and mistake.says in text
    ]
    return " or ".join(told) if verdict != "right" else ""


def _lesson(exercise_id: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.lesson_{exercise_id[:2]}")


def changed(solution: str, replace: dict[str, str]) -> str:
    """The solution with these texts replaced, each of which must be in it."""
    for old, new in replace.items():
        assert old in solution, f"{old!r} is not in the solution"
        solution = solution.replace(old, new)
    return solution
