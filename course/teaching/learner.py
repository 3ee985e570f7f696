"""What a learner has tried and solved: one small file a person, in no notebook."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from course.cache import data_folder
from course.errors import CourseError


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
    """The history by exercise; empty for a new learner."""
    return _read(record_file())


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
    except OSError as error:
        return f"Your progress could not be kept in {record_file()} ({error.strerror}): set COURSE_DATA to a folder of yours."
    return ""


@contextlib.contextmanager
def _changing() -> Iterator[dict[str, Tried]]:
    """The history, written back at the end; two sessions wait for each other."""
    path = record_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            history = _read(path)
        except CourseError:
            path.replace(path.with_suffix(".damaged.json"))
            history = {}
        yield history
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({key: asdict(value) for key, value in sorted(history.items())}, indent=1))
        fresh.replace(path)


def _read(path: Path) -> dict[str, Tried]:
    try:
        return {key: Tried(**value) for key, value in json.loads(path.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise CourseError(f"{path} is damaged ({error}): the next check sets it aside and begins anew.") from error
