"""`course progress`: what a learner has done with every exercise of the course."""

import getpass
import os
from dataclasses import dataclass
from itertools import groupby

from course.lessons.order import numbers, part_of
from course.lessons.statements import Statement, statements

from . import learner


@dataclass(frozen=True)
class Standing:
    """What a learner has done with one exercise."""

    exercise: str
    """Its name."""
    number: str
    part: str
    """The name that the course gives it, as "First kernels"."""
    title: str
    core: bool
    right: bool
    """Whether it was right once."""
    last_verdict: str
    tries: int
    hints: int
    first_right: str
    """When it was first right, in UTC; empty before."""

    def __str__(self) -> str:
        verdict = "right" if self.right else self.last_verdict or "to do"
        notes = [] if self.core else ["stretch"]
        notes += [f"{self.tries} tries"] if self.tries > 1 else []
        beside = f" ({', '.join(notes)})" if notes else ""
        return f"    {self.number:6}{verdict:16}  {self.exercise:28}{self.title}{beside}"


@dataclass(frozen=True)
class Progress:
    """A learner's standing. Prints as a table, part by part; its fields are the JSON's."""

    learner: str
    exercises: list[Standing]

    def __str__(self) -> str:
        lines: list[str] = []
        for part, of_part in groupby(self.exercises, lambda standing: standing.part):
            lines.append(part)
            for lesson, standings in groupby(of_part, lambda standing: standing.number[:2]):
                rows = list(standings)
                core = [row.right for row in rows if row.core]
                lines.append(f"  {lesson}: {sum(core)} of {len(core)} core exercises right")
                lines += map(str, rows)
        return "\n".join(lines)


def progress() -> Progress:
    """This learner's standing. Raises CourseError where the history cannot be read."""
    history, by_name = learner.tried(), numbers()

    def standing(of: Statement) -> Standing:
        entry = history.get(of.name, learner.History())
        part = part_of(of.number[:2], by_name)
        return Standing(
            of.name, of.number, part, of.title, of.core, bool(entry.first_right),
            entry.verdict, entry.tries, entry.hints, entry.first_right,
        )  # fmt: skip

    return Progress(_user(), list(map(standing, statements().values())))


def _user() -> str:
    """The name of this user; the number if the system knows no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
