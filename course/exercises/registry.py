"""Every exercise by its id."""

import importlib
from pathlib import Path

from course.errors import CourseError

from .export_exercise import Exported
from .kinds import Code
from .kinds import Exercise as Plain

Exercise = Plain | Exported


def exercises() -> dict[str, Exercise]:
    """All exercises of the course by id, in order. Their data stands in lessons/, a module a lesson."""
    found: dict[str, Exercise] = {}
    for path in sorted((Path(__file__).parent / "lessons").glob("lesson_*.py")):
        for exercise in importlib.import_module(f"course.exercises.lessons.{path.stem}").EXERCISES:
            found[exercise.id] = exercise
    return found


def find(exercise_id: str) -> Exercise:
    """The exercise of this id, as "01.2". Raises CourseError where there is none."""
    found = exercises()
    lesson, _, number = str(exercise_id).strip().partition(".")
    wanted = f"{lesson.zfill(2)}.{number}"
    if wanted not in found:
        same = [each for each in found if each.startswith(f"{lesson.zfill(2)}.")]
        raise CourseError(
            f"There is no exercise {exercise_id!r}: there is {', '.join(same or found)}."
        )
    return found[wanted]


def code_exercise(exercise_id: str) -> Code:
    """The exercise of this id, which asks for code."""
    exercise = find(exercise_id)
    assert isinstance(exercise, Code)
    return exercise
