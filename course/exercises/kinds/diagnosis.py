"""An exercise about code that is wrong or slow: why it is, and code that is not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from course.exercises.result import Checked, Judged
from course.type_names import Kernel

from .kernels import CodeExercise
from .values import ChoiceExercise


def cause(exercise_name: str, right: str, **why: str) -> ChoiceExercise:
    """One of the reasons for a slow kernel, by the letters of the lesson's table."""
    return ChoiceExercise(exercise_name, right=right, why=why)


@dataclass(frozen=True)
class DiagnosisExercise:
    """An answer in two parts, a pair: the letter of the cause, and the mended code."""

    cause: ChoiceExercise
    mended: CodeExercise
    """What the mended code must do. Its name is the exercise's."""
    counted: Callable[[Kernel], Judged | None] | None = None
    """What counting says against mended code that is right, after "The values are right, but"; None
    if nothing. It is given the code, and never times it."""

    form: ClassVar[str] = "a letter and the fixed code, as in `answer = cause, fixed`"

    @property
    def name(self) -> str:
        return self.mended.name

    def check(self, answer: object) -> Checked:
        """What `check` returns for an answer."""
        from course.exercises.judges.diagnosis import check_diagnosis

        return check_diagnosis(self, answer)
