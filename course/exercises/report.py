"""`course report`: what a learner may hand over after a workshop. Times and tries, and no code."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from course import MODE
from course.files import write_whole
from course.lessons.statements import statements

from . import learner

NAME = "report.json"


@dataclass(frozen=True)
class TriedExercise:
    """One exercise that was tried, or of which a hint was read."""

    exercise: str
    core: bool
    tries: int
    hints: int
    verdict: str
    """The last one, as "wrong"; empty before the first try."""
    first_try_min: float | None
    """When it was first tried, in minutes after the learner's first try of any exercise; None
    before."""
    right_min: float | None
    """When it was first right, in minutes after the same moment; None before."""

    def __str__(self) -> str:
        first, right = (
            "" if minutes is None else f"{minutes:.0f} min"
            for minutes in (self.first_try_min, self.right_min)
        )
        counts = f"{self.exercise:28}{self.tries:>5}{self.hints:>6}"
        return f"{counts}{first:>11}{right:>13}  {self.verdict}"


@dataclass(frozen=True)
class LearnerReport:
    """What is handed over. No name, no code, no answer and no time of day is in it."""

    seat: str
    """What the learner calls it; empty if nothing was given."""
    mode: str
    exercises: list[TriedExercise]

    def __str__(self) -> str:
        head = f"{'exercise':28}tries hints  first try  right after  verdict"
        return "\n".join([head, *map(str, self.exercises)])


def report(seat: str = "") -> LearnerReport:
    """This learner's report. Raises CourseError where the history cannot be read."""
    history = learner.tried()
    times = [time for entry in history.values() for time in (entry.first_try, entry.first_right)]
    start = min(filter(None, times), default="")
    rows = [
        TriedExercise(
            *(exercise.name, exercise.core, entry.tries, entry.hints, entry.verdict),
            *(_minutes(start, moment) for moment in (entry.first_try, entry.first_right)),
        )
        for exercise in statements().values()
        if (entry := history.get(exercise.name))
    ]
    return LearnerReport(seat, MODE.name, rows)


def write(handed_over: LearnerReport) -> Path:
    """Write the report as JSON into the work folder, or where there is none into the current one;
    return the file's path. Raises CourseError where that cannot be done."""
    file = (learner.work_folder() or Path.cwd()) / NAME
    write_whole(file, json.dumps(asdict(handed_over), indent=1) + "\n")
    return file


def _minutes(start: str, moment: str) -> float | None:
    """Minutes between two moments in UTC; None where the later one never came."""
    if not moment:
        return None
    passed = datetime.fromisoformat(moment) - datetime.fromisoformat(start)
    return round(passed.total_seconds() / 60, 1)
