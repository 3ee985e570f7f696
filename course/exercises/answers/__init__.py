"""Wrong answers that people give to each exercise, and right ones written another way: data, tried by test_exercises.py.

Each is a change to the lesson's own solution: a text to find there and the text to put in its place.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """A wrong answer, and what check must say of it."""

    name: str
    answer: dict[str, str] | Any
    """For code what is replaced in the solution, else the answer itself."""
    verdict: str
    says: str
    """Part of the reason: a mistake must be caught for what it is."""


@dataclass(frozen=True)
class Other:
    """A right answer that is not the solution."""

    name: str
    answer: dict[str, str] | Any


def changed(solution: str, replace: dict[str, str]) -> str:
    """The solution with these texts replaced, each of which must be in it."""
    for old, new in replace.items():
        assert old in solution, f"{old!r} is not in the solution"
        solution = solution.replace(old, new)
    return solution
