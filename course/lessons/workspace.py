"""The reader's own copies of the lessons, in work/: made once, and never overwritten."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from course.errors import CourseError
from course.files import advice, write_whole

from .source import NOTEBOOKS, ROOT

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

    A file that the reader has changed is never written to. Raises CourseError where a lesson cannot be copied; those
    before it are whole, and the next call goes on from there.
    """
    _make_folder(work)
    origins = _origins(work)
    copied = Copied()
    for lesson in _lessons(notebooks):
        mine, content = work / lesson.name, lesson.read_bytes()
        there = _content(mine)
        if there is None:
            copied.new.append(lesson.name)
        elif content.startswith(there) and there != content:
            copied.renewed.append(
                lesson.name
            )  # half of a copy, as an interrupted one left it: nobody's work
        elif _hash(content) in (origins.get(lesson.name), _hash(there)):
            _record(work, origins, lesson.name, content)
            continue
        elif _hash(there) == origins.get(lesson.name):
            copied.renewed.append(lesson.name)
        else:
            copied.behind.append(lesson.name)
            continue
        write_whole(mine, content)
        _record(work, origins, lesson.name, content)
    return copied


def reset(lesson: str, notebooks: Path = NOTEBOOKS, work: Path = WORK) -> tuple[Path, Path | None]:
    """Put a fresh copy of a lesson, named by its number, into work/. The old copy is kept under another name.

    Returns the fresh copy and where the old one went (None where there was none). Raises CourseError where no lesson
    has that number, or where it cannot be copied: then the old copy is where it was.
    """
    found = [
        path
        for path in _lessons(notebooks)
        if lesson.isdigit() and path.name.startswith(f"{lesson:0>2}-")
    ]
    if not found:
        numbers = ", ".join(path.name[:2] for path in _lessons(notebooks))
        raise CourseError(f"There is no lesson {lesson!r}: there is {numbers}.")
    _make_folder(work)
    fresh, content, kept = work / found[0].name, found[0].read_bytes(), None
    ready = fresh.with_name(f".{fresh.name}")
    write_whole(ready, content)  # before the old copy is moved, since there may be no room
    try:
        if os.path.lexists(fresh):
            kept = next(
                path
                for k in range(1, 10**6)
                if not os.path.lexists(path := fresh.with_suffix(f".kept-{k}.ipynb"))
            )
            fresh.rename(kept)
        ready.rename(fresh)
    except OSError as error:
        raise CourseError(
            f"{fresh} could not be replaced ({error.strerror}): {advice(error)}."
        ) from error
    _record(work, _origins(work), fresh.name, content)
    return fresh, kept


def _make_folder(work: Path) -> None:
    try:
        work.mkdir(exist_ok=True)
    except OSError as error:
        raise CourseError(
            f"The folder {work} for your lessons could not be made ({error.strerror}): {advice(error)}."
        ) from error


def _content(mine: Path) -> bytes | None:
    """What is in a copy; None where there is none."""
    try:
        return mine.read_bytes()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not mine.is_symlink():
            return None
        raise CourseError(
            f"{mine} could not be read ({error.strerror}): `course reset {mine.name[:2]}` puts a fresh copy there and keeps "
            "what is there under another name."
        ) from error


def _record(work: Path, origins: dict[str, str], name: str, content: bytes) -> None:
    """Note, for the next time, which text a copy was made from."""
    if origins.get(name) != _hash(content):
        origins[name] = _hash(content)
        write_whole(work / ORIGINS, json.dumps(origins, indent=1))


def _lessons(notebooks: Path) -> list[Path]:
    return sorted(notebooks.glob("[0-9][0-9]-*.ipynb"))


def _origins(work: Path) -> dict[str, str]:
    try:
        found = json.loads((work / ORIGINS).read_text())
    except (OSError, ValueError):
        return {}  # lost or damaged: then every copy counts as the reader's own
    return found if isinstance(found, dict) else {}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
