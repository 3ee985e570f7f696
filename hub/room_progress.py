"""What a room has solved and where it is stuck, from the progress of its seats.

Only counts and names leave a seat: names of exercises, verdicts, names of usual mistakes. What a
learner has written in a progress file by hand is dropped unless it is one of these.
"""

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec

from course.exercises.learner import RECORD
from course.exercises.result import Verdict
from course.lessons.statements import statements

MOST_BYTES = 10**6
"""A progress file has some kilobytes; a larger file is not one."""
STUCK_TRIES = 3
STUCK_MINUTES = 15
"""So many tries without a right answer, or so long, and somebody should look."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
VERDICTS = frozenset(get_args(Verdict))


class Entry(msgspec.Struct):
    """What the board reads of a learner's history with an exercise. Fields that it does not know
    are passed over, since a fix in the middle of the day may bring new ones."""

    tries: int = 0
    verdict: str = ""
    hints: int = 0
    first_right: str = ""
    first_try: str = ""
    mistakes: dict[str, int] = {}


class Known(msgspec.Struct, frozen=True):
    """What the board knows of an exercise."""

    number: str
    title: str
    core: bool
    mistakes: list[str]
    """The names of the usual mistakes."""


def known_exercises() -> dict[str, Known]:
    """The exercises of the course by name, in order. Loads PyTorch, so the board reads what was
    written of this."""
    from course.exercises.answers import mistakes

    return {
        each.name: Known(
            each.number, each.title, each.core, [mistake.name for mistake in mistakes(each.name)]
        )
        for each in statements().values()
    }


@dataclass
class Stuck:
    """A learner who has tried some times, or for some time, and was never right."""

    seat: str
    tries: int
    minutes: int
    """Since the first try."""
    verdict: str
    """The last one."""


@dataclass
class Exercise:
    """What the room has done with one exercise: numbers of seats."""

    name: str
    number: str
    title: str
    core: bool
    right: int = 0
    trying: int = 0
    """Have tried, and were never right."""
    stuck: list[Stuck] = field(default_factory=list)
    """Seats with STUCK_TRIES tries or more, or STUCK_MINUTES after the first, never right."""
    hints: int = 0
    """Seats that took a hint."""
    mistakes: dict[str, int] = field(default_factory=dict)
    """Usual mistakes, and how many seats have made each."""


@dataclass
class Room:
    """The standing of all seats together."""

    exercises: list[Exercise]
    right: dict[str, int]
    """Seat -> how many core exercises it has right."""
    unreadable: list[str]
    """Seats whose progress is damaged."""
    core: int
    """How many core exercises the plan has."""
    times: list[str] = field(default_factory=list)
    """When each right answer was given first, in UTC."""


def standing(
    works: Mapping[str, Path], exercises: Mapping[str, Known], plan: Collection[str] = ()
) -> Room:
    """The room's standing.

    works: seat -> its work folder. exercises: by name, in order. plan: the numbers of the lessons
        of which core exercises are counted; all without any.
    """
    rows = {
        name: Exercise(name, each.number, each.title, each.core) for name, each in exercises.items()
    }
    counted = {name for name, row in rows.items() if row.core and _is_in(row, plan)}
    room = Room(list(rows.values()), {}, [], len(counted))
    for seat, work in works.items():
        history = read_history(work / f".{RECORD}")
        if history is None:
            room.unreadable.append(seat)
            history = {}
        known = {name: entry for name, entry in history.items() if name in rows}
        room.right[seat] = sum(bool(known[name].first_right) for name in counted & known.keys())
        times = (_time(entry.first_right) for entry in known.values())
        room.times += [time.isoformat() for time in times if time]
        for name, entry in known.items():
            _add(rows[name], seat, entry, set(exercises[name].mistakes))
    return room


def read_history(path: Path) -> dict[str, Entry] | None:
    """A seat's history; empty where there is none, None where it cannot be read.

    path: the file, in the work folder in the seat's home.

    The seat's user writes the file and another one, who may read everything, reads it: so a link,
    in place of the work folder too, a pipe and a large file are not followed, waited for or read.
    """
    try:
        descriptor = _opened(path)
    except FileNotFoundError:
        return {}
    except OSError:
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        try:
            return msgspec.json.decode(file.read(MOST_BYTES), type=dict[str, Entry])
        except (ValueError, RecursionError, OSError):
            return None


def _opened(path: Path) -> int:
    """A descriptor of a file, with no link followed at it, its folder and the folder around that.

    Raises OSError.
    """
    home = os.open(path.parents[1], FOLDER)
    try:
        work = os.open(path.parent.name, FOLDER, dir_fd=home)
        try:
            return os.open(path.name, FILE, dir_fd=work)
        finally:
            os.close(work)
    finally:
        os.close(home)


def _is_in(row: Exercise, plan: Collection[str]) -> bool:
    return not plan or row.number[:2] in plan


def _time(text: str) -> datetime | None:
    """A time as a history has it; None for anything else."""
    with contextlib.suppress(ValueError):
        time = datetime.fromisoformat(text)
        return time if time.tzinfo else None
    return None


def _add(row: Exercise, seat: str, entry: Entry, usual: set[str]) -> None:
    row.hints += entry.hints > 0
    if entry.first_right:
        row.right += 1
    elif entry.tries:
        row.trying += 1
        first, verdict = _time(entry.first_try), entry.verdict if entry.verdict in VERDICTS else ""
        minutes = int((datetime.now(UTC) - first).total_seconds() // 60) if first else 0
        if entry.tries >= STUCK_TRIES or minutes >= STUCK_MINUTES:
            row.stuck.append(Stuck(seat, min(entry.tries, 999), max(0, minutes), verdict))
    told = Counter(row.mistakes)
    # A check that cannot tell two mistakes apart names both, as "this or that".
    told.update({part for name in entry.mistakes for part in (name, *name.split(" or "))} & usual)
    row.mistakes = dict(told.most_common())
