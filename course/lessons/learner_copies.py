"""The reader's own copies of the lessons, in work/: made once, and never overwritten.

They hold no outputs: whoever runs a cell sees what comes out, and not what came out elsewhere.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from course.errors import CourseError
from course.files import advice, read_file, remove_leftovers, replace_unchanged, write_whole

from .folders import NOTEBOOKS, ORIGINS, WORK
from .order import lessons_named

EARLIER = "earlier"
"""The folder in work/ for the reader's notebooks of lessons that the course no longer has."""
RESET = "`course reset {}` puts a fresh copy there and keeps what is there under another name"


@dataclass
class Copied:
    """What `copy_lessons` did: names of files in work/."""

    new: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    """Never touched by the reader, and replaced by a newer version of the lesson."""
    behind: list[str] = field(default_factory=list)
    """Worked in by the reader, so kept, though the lesson has a newer version."""
    earlier: list[str] = field(default_factory=list)
    """Worked in by the reader, of lessons that the course no longer has: moved to EARLIER."""


def copy_lessons(
    notebooks: Path = NOTEBOOKS, work: Path = WORK, begun: Collection[str] = ()
) -> Copied:
    """Copy to work/ every lesson that is not there, and renew copies that the reader never touched.

    A file whose cells the reader has changed is never written to, nor one of a lesson that was
    begun, whose number is given: its page may hold what is not saved. Raises CourseError where a
    lesson cannot be copied; those before it are whole, and the next call goes on from there.
    """
    _make_folder(work)
    remove_leftovers(work)
    origins = hashes_in(work / ORIGINS)
    copied = Copied()
    for lesson in _lessons(notebooks):
        name, published = lesson.name, lesson.read_bytes()
        content = without_outputs(published)
        mine = content_of(work / name, RESET.format(name[:2]))
        into = None
        if mine is None:
            into = copied.new
        elif mine != content and (content.startswith(mine) or published.startswith(mine)):
            # Half a copy, of an interrupted call, or one with outputs, as earlier versions of the
            # course made it: nobody's work.
            into = copied.renewed
        elif sources_of(mine) == sources_of(content) or origins.get(name) in (
            sources_of(content),
            hash_of(content),
            hash_of(published),
        ):
            _record(work, origins, name, content)
            continue
        elif origins.get(name) in (hash_of(mine), sources_of(mine)) and name[:2] not in begun:
            into = copied.renewed
        if into is not None and replace_unchanged(work / name, mine, content):
            into.append(name)
            _record(work, origins, name, content)
        else:  # the reader has changed it, perhaps since it was read
            copied.behind.append(name)
    copied.earlier = _clear_earlier(work, origins, {lesson.name for lesson in _lessons(notebooks)})
    return copied


def _clear_earlier(work: Path, origins: dict[str, str], lessons: set[str]) -> list[str]:
    """Take copies of lessons that the course no longer has out of the list of lessons: those that
    the reader never touched are deleted, the others moved aside. Returns the names of those."""
    moved = []
    for name in sorted(set(origins) - lessons):
        mine = content_of(work / name, RESET.format(name[:2]))
        if mine is not None and origins[name] not in (hash_of(mine), sources_of(mine)):
            (work / EARLIER).mkdir(exist_ok=True)
            (work / name).rename(_kept_name(work / EARLIER / name))
            moved.append(name)
        (work / name).unlink(missing_ok=True)
        del origins[name]
    if moved or set(hashes_in(work / ORIGINS)) - set(origins):
        write_whole(work / ORIGINS, json.dumps(origins, indent=1))
    return moved


def reset(lesson: str, notebooks: Path = NOTEBOOKS, work: Path = WORK) -> tuple[Path, Path | None]:
    """Put a fresh copy of a lesson, named by its number, into work/, beside the old copy.

    Returns the fresh copy, and the new name of the old one (None if there was none). Raises
    CourseError if no lesson has that number, or if it cannot be copied: then the old copy is where
    it was.
    """
    source = lesson_named(lesson, notebooks)
    _make_folder(work)
    fresh, content, kept = work / source.name, without_outputs(source.read_bytes()), None
    ready = fresh.with_name(f".{fresh.name}")
    write_whole(ready, content)  # before the old copy is moved, since there may be no room
    try:
        if os.path.lexists(fresh):
            kept = _kept_name(fresh)
            fresh.rename(kept)
        ready.rename(fresh)
    except OSError as error:
        raise CourseError(
            f"{fresh} could not be replaced ({error.strerror}): {advice(error)}."
        ) from error
    _record(work, hashes_in(work / ORIGINS), fresh.name, content)
    return fresh, kept


def _kept_name(path: Path) -> Path:
    """A name beside `path` that nothing has."""
    names = (path.with_suffix(f".kept-{k}.ipynb") for k in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


def without_outputs(notebook: bytes) -> bytes:
    """A notebook's bytes without its outputs and execution counts. What is no notebook stays as it
    is."""
    try:
        content = json.loads(notebook)
        cells = content["cells"]
        for cell in cells:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
    except (ValueError, TypeError, KeyError):
        return notebook
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def lesson_named(number: str, notebooks: Path = NOTEBOOKS) -> Path:
    """The notebook of a lesson, named by its number, as "04" or "4".

    Raises CourseError if no lesson has that number.
    """
    return lessons_named([number], _lessons(notebooks))[0]


def _make_folder(work: Path) -> None:
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"The folder {work} for your lessons could not be made ({error.strerror})"
        raise CourseError(f"{problem}: {advice(error)}.") from error


def content_of(file: Path, helps: str) -> bytes | None:
    """What is in a reader's file; None if it is not there.

    helps: what to do about one that cannot be read, as the CourseError says it.
    """
    try:
        return read_file(file)
    except OSError as error:
        raise CourseError(f"{file} could not be read ({error.strerror}): {helps}.") from error


def _record(work: Path, origins: dict[str, str], name: str, content: bytes) -> None:
    """Note, for the next time, which text a copy was made from."""
    if origins.get(name) != sources_of(content):
        origins[name] = sources_of(content)
        write_whole(work / ORIGINS, json.dumps(origins, indent=1))


def _lessons(notebooks: Path) -> list[Path]:
    return sorted(notebooks.glob("[0-9][0-9]-*.ipynb"))


def hashes_in(file: Path) -> dict[str, str]:
    """name of a copy -> the hash of the text that it was made from, as a file says it"""
    try:
        hashes = json.loads(read_file(file) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}  # lost or damaged: then every copy counts as the reader's own
    return hashes if isinstance(hashes, dict) else {}


def sources_of(notebook: bytes) -> str:
    """A hash of a notebook's cells, whatever a lab adds to them that is saved without a change; of
    the bytes where it is no notebook."""
    try:
        cells = [
            (each["cell_type"], "".join(each["source"])) for each in json.loads(notebook)["cells"]
        ]
        return hash_of(json.dumps(cells).encode())
    except (ValueError, TypeError, KeyError, RecursionError):
        return hash_of(notebook)


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
