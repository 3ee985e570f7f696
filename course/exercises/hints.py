"""hint: help with an exercise, a little more each time."""

from course.errors import CourseError
from course.lessons.statements import statements

from . import learner
from .registry import find

_given: dict[str, int] = {}
"""How many hints of each exercise this session has shown."""


def hint(exercise_id: str) -> None:
    """Print the next hint to the exercise of this id, as hint("01.2"); after the last one, all of them."""
    exercise_id = find(exercise_id).id
    hints = all_hints(exercise_id)
    shown = _given.get(exercise_id, 0)
    if shown == len(hints):
        print("\n".join(hints))
        return
    print(hints[shown])
    _given[exercise_id] = shown + 1
    learner.note(exercise_id, hint=True)


def all_hints(exercise_id: str) -> list[str]:
    """Every hint to an exercise, numbered. Raises CourseError where there is no such exercise, or none for it."""
    exercise_id = find(exercise_id).id
    statement = statements().get(exercise_id)
    if statement is None or not statement.hints:
        raise CourseError(f"There is no hint to exercise {exercise_id}.")
    count = len(statement.hints)
    return [
        f"{exercise_id}, hint {number} of {count}: {text}"
        for number, text in enumerate(statement.hints, start=1)
    ]
