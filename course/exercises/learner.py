"""What a learner has tried and solved: one small file a person, in no notebook."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from course.cache import data_folder
from course.errors import CourseError
from course.files import make_private, write_whole

LOCK_S = 5
"""How long a check waits for another session that is writing down its own."""


@dataclass
class Tried:
    """One learner's history with one exercise."""

    tries: int = 0
    """Checks of an answer; a stub is none."""
    verdict: str = ""
    """The last one."""
    hints: int = 0
    first_right: str = ""
    """When it was first right, in UTC; empty before."""


def record_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where it is kept."""
    return data_folder(environ) / "progress.json"


def tried() -> dict[str, Tried]:
    """The history by exercise; empty for a new learner. Raises CourseError where it is damaged or cannot be read."""
    path = record_file()
    try:
        return _read(path)
    except OSError as error:
        raise CourseError(
            f"Your progress could not be read from {path} ({error.strerror}): move away what is there, or set COURSE_DATA to "
            "a folder of yours."
        ) from error


def note(exercise_id: str, verdict: str = "", hint: bool = False) -> str:
    """Add a verdict or a hint to the history. Returns why it could not be kept, or nothing."""
    try:
        with _changing() as history:
            entry = history.setdefault(exercise_id, Tried())
            entry.hints += hint
            if verdict:
                entry.tries += 1
                entry.verdict = verdict
            if verdict == "right" and not entry.first_right:
                entry.first_right = datetime.now(UTC).isoformat(timespec="seconds")
    except BlockingIOError:
        lock = record_file().with_suffix(".lock")
        return f"Your progress was not kept: another process has held {lock} for {LOCK_S} s; end it, and check again."
    except OSError as error:
        return f"Your progress could not be kept in {record_file()} ({error.strerror}): set COURSE_DATA to a folder of yours."
    except CourseError as error:
        return f"Your progress was not kept: {error}"
    return ""


@contextlib.contextmanager
def _changing() -> Iterator[dict[str, Tried]]:
    """The history, written back at the end; two sessions wait for each other. Raises BlockingIOError after LOCK_S seconds."""
    path = record_file()
    make_private(path.parent)
    with open(path.with_suffix(".lock"), "w") as lock:
        _take(lock)
        try:
            history = _read(path)
        except CourseError:
            path.replace(path.with_suffix(".damaged.json"))
            history = {}
        yield history
        write_whole(
            path,
            json.dumps({key: asdict(value) for key, value in sorted(history.items())}, indent=1),
        )


def _take(lock: TextIO) -> None:
    """Lock a file. Raises BlockingIOError where another process keeps it."""
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _read(path: Path) -> dict[str, Tried]:
    try:
        return {key: _entry(**value) for key, value in json.loads(path.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CourseError(
            f"{path} is damaged ({error}): the next check sets it aside and begins anew."
        ) from error


def _entry(**values: Any) -> Tried:
    """An entry of the file, refused with TypeError where a value is of another kind."""
    entry = Tried(**values)
    for name, value in asdict(entry).items():
        if type(value) is not type(getattr(Tried, name)):
            raise TypeError(f"{name} is {value!r:.30}")
    return entry
