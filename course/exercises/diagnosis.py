"""An exercise about code that is wrong or slow: why it is, and code that is not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from .kinds import Answer, Choice, Code
from .result import Judged


def nothing_more(answer: Answer) -> None:
    """No objection."""


def cause(exercise_id: str, right: str, **why: str) -> Choice:
    """One of the reasons for a slow kernel, by the letters of the lesson's table."""
    return Choice(exercise_id, right=right, why=why)


@dataclass(frozen=True)
class Diagnosis:
    """An answer in two parts, a pair: the letter of the cause, and the mended code."""

    cause: Choice
    mended: Code
    """What the mended code must do. Its id is the exercise's."""
    counted: Callable[[Answer], Judged | None] = nothing_more
    """What counting says against mended code that is right, after "The values are right, but"; None
    if nothing. It is given the code, and never times it."""

    form: ClassVar[str] = "a letter and the fixed code, as in `answer = cause, fixed`"

    @property
    def id(self) -> str:
        return self.mended.id
