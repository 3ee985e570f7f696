"""`course workshop fix`: give every seat the lessons as they are now, without touching its work."""

import os
import subprocess
from dataclasses import dataclass, field

import msgspec

from course.files import write_whole
from course.workshop.room import known_exercises

from . import ROOT, seat_user
from .settings import Settings, not_yours

COPY_S = 120
LONGEST = 300
"""Characters of what a seat says that are shown."""


class Copied(msgspec.Struct):
    """What a seat says of its lessons: names of files. Its user may have said anything."""

    renewed: list[str] = []
    behind: list[str] = []
    problem: str = ""


@dataclass
class Fixed:
    """The seats in which each lesson was renewed or kept: file name -> seats."""

    renewed: dict[str, list[str]] = field(default_factory=dict)
    behind: dict[str, list[str]] = field(default_factory=dict)
    """Seats that have worked in it, and keep theirs."""
    problems: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{name}: renewed in {len(seats)} seats" for name, seats in self.renewed.items()]
        for name, seats in self.behind.items():
            lines.append(
                f"{name}: {len(seats)} seats have begun it and keep theirs ({', '.join(seats)});"
                f" `course reset {name[:2]}` in their terminal gives the new one beside it"
            )
        lines += [f"{seat}: {problem}" for seat, problem in self.problems.items()]
        reload = "Who has a renewed lesson open reloads its page."
        return "\n".join([*lines, reload] if self.renewed else lines or ["Nothing was to be done."])


def fix(settings: Settings) -> Fixed:
    """Copy the lessons to the seats that have a folder, as each seat's own user.

    Raises CourseError for somebody who did not start the workshop.
    """
    try:
        os.listdir(settings.hub_folder)
    except PermissionError as error:
        raise not_yours(settings.folder) from error
    write_whole(settings.exercises_file, msgspec.json.encode(known_exercises()))
    fixed = Fixed()
    for name in settings.names:
        if not settings.home(name).is_dir():
            continue
        copied = _copy(settings, name)
        if copied.problem:
            fixed.problems[name] = printable(copied.problem)
        for lessons, into in ((copied.renewed, fixed.renewed), (copied.behind, fixed.behind)):
            for lesson in lessons:
                into.setdefault(printable(lesson), []).append(name)
    return fixed


def printable(text: str) -> str:
    """A seat's text without characters that could steer the leader's terminal."""
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"


def _copy(settings: Settings, name: str) -> Copied:
    environ = {"PYTHONPATH": str(ROOT), "COURSE_MODE": "cpu"}
    environ |= seat_user.environment(settings, name)
    command = [settings.python, "-P", "-m", "hub.open_seat"]
    try:
        ended = seat_user.run_as(settings, name, command, settings.home(name), environ, COPY_S)
    except subprocess.TimeoutExpired:
        return Copied(problem=f"its lessons were not copied within {COPY_S} s")
    except OSError as error:
        return Copied(problem=f"its lessons could not be copied ({error.strerror})")
    try:
        return msgspec.json.decode(ended.stdout.splitlines()[-1], type=Copied)
    except (ValueError, RecursionError, IndexError):
        said = ended.stderr.strip().splitlines()
        last = said[-1] if said else "it did not say what it did"
        return Copied(problem=f"its lessons could not be copied ({last})")
