"""Check a diagnosis: the cause first, then the mended code, then what can be counted of it."""

from dataclasses import replace

from course.exercises.kinds import DiagnosisExercise
from course.exercises.result import NO_TRY, Checked
from course.type_names import AnyValue

from .code import check_code


def check_diagnosis(exercise: DiagnosisExercise, answer: object) -> Checked:
    """Judge a pair of a letter and code. Code that cures something else is not run."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        return Checked(exercise.name, "no answer", f"It must be {exercise.form}.")
    letter, mended = answer
    if letter is None:
        return _without_a_cause(exercise, mended)
    verdict, why, kind = exercise.cause.judge(letter)
    if verdict != "right":
        return Checked(exercise.name, verdict, f"The cause: {why}", kind and f"cause {kind}")
    checked = _mended(exercise, mended)
    if checked.right or checked.verdict in NO_TRY:
        return replace(checked, reason=f"The cause: {why}\n{checked.reason}".strip())
    reason = f"Your cause is right: {why}\nYour code is not right yet:\n{checked.reason}"
    return replace(checked, reason=reason.strip())


def _without_a_cause(exercise: DiagnosisExercise, mended: AnyValue) -> Checked:
    if mended is None or check_code(exercise.mended, mended).verdict == "to do":
        return Checked(exercise.name, "to do")
    letters = ", ".join(exercise.cause.why)
    return Checked(exercise.name, "to do", f"Name the cause as well: one of {letters}.")


def _mended(exercise: DiagnosisExercise, mended: AnyValue) -> Checked:
    """What is to be said of the code alone."""
    if mended is None:
        return Checked(exercise.name, "to do", "Now write code that does without it.")
    checked = check_code(exercise.mended, mended, called="answer")
    if checked.verdict == "to do":
        return replace(checked, reason="Now write code that does without it.")
    if checked.right and exercise.counted and (objection := exercise.counted(mended)):
        verdict, reason, kind = objection
        return Checked(exercise.name, verdict, f"The values are right, but {reason}", kind)
    return checked
