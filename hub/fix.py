"""`course workshop fix`: give every seat the lessons as they are now, without touching its work."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import msgspec

from course.files import write_whole

from . import engine, one_account
from .room_progress import known_exercises
from .settings import Settings

COPY_S = 120
SIDE_BY_SIDE = 4
LONGEST = 300
"""Characters of what a seat says that are shown."""
ENTRYPOINT = f"{engine.SEAT}/entrypoint.py"


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
        reload = (
            "Who has a renewed lesson open chooses File > Reload Notebook from Disk. A seat that is"
            " not logged in gets the lessons when it is."
        )
        return "\n".join([*lines, reload] if self.renewed else lines or ["Nothing was to be done."])


def fix(settings: Settings) -> Fixed:
    """Bring the lessons to the seats that are there; the others get them at their next start."""
    write_whole(settings.exercises_file, msgspec.json.encode(known_exercises()))
    fixed = Fixed()
    there = engine.running(settings) if settings.apart else settings.names
    names = [
        name for name in settings.names if name in there and (settings.home(name) / "work").is_dir()
    ]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:  # one seat that does not answer keeps none back
        told = list(pool.map(partial(_copy, settings), names))
    for name, copied in zip(names, told, strict=True):
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
    """Have a seat bring its lessons up to date, as its own user."""
    said = (
        engine.inside(settings, name, "python", "-P", ENTRYPOINT, limit_s=COPY_S)
        if settings.apart
        else one_account.opened(settings, name, COPY_S)
    )
    try:
        return msgspec.json.decode(said.splitlines()[-1], type=Copied)
    except (ValueError, RecursionError, IndexError):
        return Copied(problem=f"its lessons could not be copied ({said[-LONGEST:] or 'no answer'})")
