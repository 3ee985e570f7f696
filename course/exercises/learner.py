"""What a learner has tried and solved: one small file per work folder, in no notebook."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import msgspec

from course.cache import data_folder
from course.errors import CourseError
from course.files import make_private, write_whole
from course.lessons.folders import ORIGINS, WORK

RECORD = "progress.json"
"""In the course's data folder. In a work folder its name begins with a dot."""

FORMER_NUMBERS = Path(__file__).parent / "former_numbers.json"
"""number -> name of each exercise of the versions in which exercises were called by numbers."""
LOCK_S = 5
"""How long a check waits for another session that is writing down its own."""


class History(msgspec.Struct, forbid_unknown_fields=True):
    """One learner's history with one exercise."""

    tries: int = 0
    """Checks of an answer; a stub does not count."""
    verdict: str = ""
    """The last one."""
    hints: int = 0
    first_right: str = ""
    """When it was first right, in UTC; empty before."""
    mistakes: dict[str, int] = {}
    """name of a usual mistake, in `course/exercises/answers/` -> how often it was made"""
    first_try: str = ""
    """When it was first checked, in UTC; empty before, and in older histories."""


def record_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the history is kept: in $COURSE_DATA where that is set, else in the work folder, else
    in the course's data folder."""
    work = None if environ.get("COURSE_DATA") else work_folder()
    return work / f".{RECORD}" if work else data_folder(environ) / RECORD


def work_folder() -> Path | None:
    """The work folder that this process runs in, or else that of this course; None where neither
    is there, or where it holds no history and cannot be written to."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the session's folder is gone
        here = WORK
    work = next((each for each in (here, *here.parents) if (each / ORIGINS).is_file()), WORK)
    can_keep = os.access(work, os.W_OK) or (work / f".{RECORD}").exists()
    return work if work.is_dir() and can_keep else None


def _older_record(path: Path) -> Path | None:
    """The user's own record, which a work folder without any takes over; None if there is none."""
    older = data_folder() / RECORD
    return older if older != path and not path.exists() and older.is_file() else None


def tried() -> dict[str, History]:
    """The history by exercise; empty for a new learner.

    Raises CourseError where the file is damaged or cannot be read.
    """
    path = record_file()
    try:
        path = _older_record(path) or path
        return _read(path)
    except OSError as error:
        raise CourseError(
            f"Your progress could not be read from {path} ({error.strerror}): "
            "move away what is there, or set COURSE_DATA to a folder of yours."
        ) from error


def note(exercise_name: str, verdict: str = "", hint: bool = False, mistake: str = "") -> str:
    """Add a verdict, with the name of a usual mistake, or a hint to the history. Returns why it
    could not be kept, or nothing."""
    path = record_file()
    try:
        with _changing(path) as history:
            entry = history.setdefault(exercise_name, History())
            entry.hints += hint
            now = datetime.now(UTC).isoformat(timespec="seconds")
            if verdict:
                entry.tries += 1
                entry.verdict = verdict
                entry.first_try = entry.first_try or (now if entry.tries == 1 else "")
            if mistake:
                entry.mistakes[mistake] = entry.mistakes.get(mistake, 0) + 1
            if verdict == "right" and not entry.first_right:
                entry.first_right = now
    except BlockingIOError:
        lock = path.with_suffix(".lock")
        held = f"another process has held {lock} for {LOCK_S} s"
        return f"Your progress was not kept: {held}; end it, and check again."
    except OSError as error:
        problem = f"Your progress could not be kept in {path} ({error.strerror})"
        return f"{problem}: set COURSE_DATA to a folder of yours."
    except CourseError as error:
        return f"Your progress was not kept: {error}"
    return ""


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[dict[str, History]]:
    """The history, written back at the end; two sessions wait for each other.

    Raises BlockingIOError after LOCK_S seconds.
    """
    make_private(path.parent)
    with open(path.with_suffix(".lock"), "w") as lock:
        _take(lock)
        older = _older_record(path)
        source = older or path
        try:
            history = _read(source)
        except CourseError:
            source.replace(source.with_suffix(".damaged.json"))
            history, older = {}, None
        yield history
        packed = msgspec.json.encode(dict(sorted(history.items())))
        write_whole(path, msgspec.json.format(packed, indent=1))
        if older:  # the first work folder takes it over, and no other
            with contextlib.suppress(OSError):
                older.replace(older.with_suffix(".taken-over.json"))


def _take(lock: TextIO) -> None:
    """Lock a file. Raises BlockingIOError where another process keeps it."""
    import fcntl  # which a page of the site lacks

    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _read(path: Path) -> dict[str, History]:
    try:
        history = msgspec.json.decode(path.read_bytes(), type=dict[str, History])
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise CourseError(
            f"{path} is damaged ({error}): the next check sets it aside and begins anew."
        ) from error
    if not any(name[0].isdigit() for name in history if name):
        return history
    names = msgspec.json.decode(FORMER_NUMBERS.read_bytes(), type=dict[str, str])
    return {names.get(name, name): entry for name, entry in history.items()}
