"""The reader's folder of an installed course: what a checkout has, to read and to import, beside
work/.

The files are copies. One that the reader has changed is left alone when a newer course brings
another, or none any more.
"""

import contextlib
import json
from pathlib import Path

from course.errors import CourseError
from course.files import read_file, remove_leftovers, replace_unchanged, write_whole
from course.places import content, home

from .learner_copies import content_of, hash_of, hashes_in

FILES = (
    "kernels/**/*.py", "notebooks/*.ipynb", "solutions/*.py", "docs/pages/*.md", "docs/design.md",
    "docs/teaching/**/*.md", "docs/*.png", "docs/*.svg", "*.md", "LICENSE",
)  # fmt: skip
"""What is unpacked: all that a wheel has besides the package, as setup.py says it."""
UNPACKED = ".unpacked.json"
"""In the reader's folder: for each file, the hash of the text that was unpacked."""


def unpack(folder: Path, source: Path) -> list[str]:
    """Copy the course's files into the reader's folder; return those that the reader has changed
    and that are kept though the course has other ones.

    Raises CourseError where the folder is a checkout, or a file cannot be written; the next call
    goes on from there.
    """
    if (folder / "pyproject.toml").exists():
        raise CourseError(
            f"{folder} is a project already, and the lessons would be mixed with it: set"
            " COURSE_HOME to the folder that they shall be in."
        )
    before, kept = hashes_in(folder / UNPACKED), []
    now: dict[str, str] = {}
    files = sorted(path for pattern in FILES for path in source.glob(pattern))
    for file in files:
        name = file.relative_to(source).as_posix()
        new, mine = file.read_bytes(), content_of(folder / name, "move away what is there")
        untouched = mine is None or hash_of(mine) == before.get(name)
        if mine == new or (untouched and replace_unchanged(folder / name, mine, new)):
            now[name] = hash_of(new)
        else:
            kept.append(name)
            now[name] = before.get(name, "")
    for name in before.keys() - now.keys():
        _remove_dropped(folder, name, before[name])
    if now != before:
        write_whole(folder / UNPACKED, json.dumps(now, indent=1))
    for place in {(folder / name).parent for name in now}:
        remove_leftovers(place)
    return kept


def _remove_dropped(folder: Path, name: str, unpacked: str) -> None:
    """Remove a file that the course has no more, unless the reader has changed it."""
    file = folder / name
    with contextlib.suppress(OSError, ValueError):  # it is gone, or the notes are damaged
        is_inside = file.resolve().is_relative_to(folder.resolve())
        if is_inside and hash_of(read_file(file) or b"") == unpacked:
            file.unlink()


def unpack_if_installed() -> list[str]:
    """`unpack` where the reader's folder is not the course's own; what was kept, in sentences."""
    if home() == content():
        return []
    kept = unpack(home(), content())
    return [f"{home() / name} is yours and stays; the course has another one." for name in kept]
