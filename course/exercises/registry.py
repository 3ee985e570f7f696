"""Every exercise by its id. Finding one loads its own lesson's exercises and no others."""

import importlib
from pathlib import Path

from course.errors import CourseError

from .kinds import CodeExercise, DiagnosisExercise, Question, RegistrationExercise

AnyExercise = CodeExercise | DiagnosisExercise | RegistrationExercise | Question

LESSONS = Path(__file__).parent / "lessons"


def exercises() -> dict[str, AnyExercise]:
    """All exercises of the course by id, in the order of the lessons."""
    by_id: dict[str, AnyExercise] = {}
    for path in sorted(LESSONS.glob("lesson_*.py")):
        by_id |= lesson_exercises(path.stem.removeprefix("lesson_"))
    return by_id


def lesson_exercises(lesson: str) -> dict[str, AnyExercise]:
    """The exercises of a lesson, as "01", by id and in the lesson's order; empty for an unknown
    one."""
    if not (LESSONS / f"lesson_{lesson}.py").is_file():
        return {}
    module = importlib.import_module(f"course.exercises.lessons.lesson_{lesson}")
    return {exercise.id: exercise for exercise in module.EXERCISES}


def find(exercise_id: str) -> AnyExercise:
    """The exercise of this id, as "01.2" or "1.2". Raises CourseError for an unknown one."""
    lesson, _, number = str(exercise_id).strip().partition(".")
    lesson = lesson.zfill(2)
    known = lesson_exercises(lesson) if lesson.isdigit() else {}
    if exercise := known.get(f"{lesson}.{number}"):
        return exercise
    in_order = sorted(known or exercises(), key=lambda name: (name[:3], len(name), name))
    listed = ", ".join(in_order)
    raise CourseError(f"There is no exercise {exercise_id!r}: there is {listed}.")


def code_exercise(exercise_id: str) -> CodeExercise:
    """The exercise of this id, which asks for code, or the part of it that does."""
    exercise = find(exercise_id)
    code = exercise.mended if isinstance(exercise, DiagnosisExercise) else exercise
    assert isinstance(code, CodeExercise)
    return code
