"""The reader's own copies of the lessons, in work/: made once, and never overwritten."""

import hashlib
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from course.errors import CourseError

from .sources import NOTEBOOKS, ROOT

WORK = ROOT / "work"
ORIGINS = ".origins.json"
"""In work/: for each lesson, the hash of the text it was copied from."""


@dataclass
class Copied:
    """What `copy_lessons` did: names of files in work/."""

    new: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    """Never touched by the reader, and replaced by a newer version of the lesson."""
    behind: list[str] = field(default_factory=list)
    """Worked in by the reader, so kept, though the lesson has a newer version."""


def copy_lessons(notebooks: Path = NOTEBOOKS, work: Path = WORK) -> Copied:
    """Copy to work/ every lesson that is not there, and renew copies that the reader never touched.

    A file that the reader has changed is never written to.
    """
    work.mkdir(exist_ok=True)
    origins = _origins(work)
    copied = Copied()
    for lesson in _lessons(notebooks):
        mine, hash_now = work / lesson.name, _hash(lesson)
        if not mine.exists():
            copied.new.append(lesson.name)
        elif hash_now in (origins.get(lesson.name), _hash(mine)):
            origins[lesson.name] = hash_now
            continue
        elif _hash(mine) == origins.get(lesson.name):
            copied.renewed.append(lesson.name)
        else:
            copied.behind.append(lesson.name)
            continue
        shutil.copyfile(lesson, mine)
        origins[lesson.name] = hash_now
    (work / ORIGINS).write_text(json.dumps(origins, indent=1))
    return copied


def reset(lesson: str, notebooks: Path = NOTEBOOKS, work: Path = WORK) -> tuple[Path, Path | None]:
    """Put a fresh copy of a lesson, named by its number, into work/. The old copy is kept under another name.

    Returns the fresh copy and where the old one went (None where there was none). Raises CourseError where no lesson
    has that number.
    """
    found = [path for path in _lessons(notebooks) if lesson.isdigit() and path.name.startswith(f"{lesson:0>2}-")]
    if not found:
        numbers = ", ".join(path.name[:2] for path in _lessons(notebooks))
        raise CourseError(f"There is no lesson {lesson!r}: there is {numbers}.")
    fresh, kept = work / found[0].name, None
    if fresh.exists():
        kept = next(path for k in range(1, 10**6) if not (path := fresh.with_suffix(f".kept-{k}.ipynb")).exists())
        fresh.rename(kept)
    copy_lessons(notebooks, work)
    return fresh, kept


def _lessons(notebooks: Path) -> list[Path]:
    return sorted(notebooks.glob("[0-9][0-9]-*.ipynb"))


def _origins(work: Path) -> dict[str, str]:
    try:
        found = json.loads((work / ORIGINS).read_text())
    except (OSError, ValueError):
        return {}  # lost or damaged: then every copy counts as the reader's own
    return found if isinstance(found, dict) else {}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
