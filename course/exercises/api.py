"""check: is an answer to an exercise right? hint: help with it, a little more each time."""

import os

from course import MODE
from course.errors import CourseError
from course.lessons.statements import statement_of

from . import learner
from .registry import find
from .result import NO_TRY, Checked

_shown_hints: dict[str, int] = {}
"""exercise -> how many hints to it this session has shown"""
_checked_to_do: set[str] = set()
"""The exercises of which this session has checked a stub."""


def check(exercise_name: str, answer: object) -> Checked:
    """Judge `answer` to the exercise of this name, as check("scale-and-shift", my_kernel).

    answer: what the exercise asks for: a kernel, a launcher, a number, a letter or a text. None and
        an untouched stub are "to do". An answer that is code runs in child processes, never here.
    Raises CourseError where there is no such exercise.
    """
    exercise = find(exercise_name)
    is_empty = answer is None or answer is ...
    checked = Checked(exercise.name, "to do") if is_empty else exercise.check(answer)
    if checked.verdict == "to do":
        return _again(checked)
    if checked.verdict not in NO_TRY and not MODE.in_page:  # which keeps nothing
        mistake = _mistake_for_the_board(checked)
        if problem := learner.note(exercise.name, checked.verdict, mistake=mistake):
            checked.notes.append(problem)
    return checked


def _mistake_for_the_board(checked: Checked) -> str:
    """The name of the usual mistake that was made, for who leads the room of this seat; empty
    where nobody does."""
    if "COURSE_SEAT" not in os.environ:
        return ""
    from .answers import usual_mistake  # the answers of a whole lesson

    return usual_mistake(checked.exercise, checked.kind)


def _again(to_do: Checked) -> Checked:
    """What is to do; from the second time on with a word of what may have been forgotten."""
    if to_do.exercise in _checked_to_do:
        to_do.notes.append("Changed it? Run the cell above again, then this one.")
    _checked_to_do.add(to_do.exercise)
    return to_do


def hint(exercise_name: str) -> None:
    """Print the next hint to an exercise, as hint("first-kernel"); after the last, all."""
    exercise_name = find(exercise_name).name
    hints = all_hints(exercise_name)
    shown = _shown_hints.get(exercise_name, 0)
    if shown == len(hints):
        print("\n".join(hints))
        return
    print(hints[shown])
    _shown_hints[exercise_name] = shown + 1
    learner.note(exercise_name, hint=True)


def all_hints(exercise_name: str) -> list[str]:
    """Every hint to an exercise, numbered. Raises CourseError if there is none."""
    exercise_name = find(exercise_name).name
    statement = statement_of(exercise_name)
    if statement is None or not statement.hints:
        raise CourseError(f"There is no hint to exercise {exercise_name}.")
    count = len(statement.hints)
    return [
        f"{exercise_name}, hint {number} of {count}: {text}"
        for number, text in enumerate(statement.hints, start=1)
    ]
