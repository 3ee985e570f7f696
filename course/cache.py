"""The course's own cache folder: compiled kernels are kept per user, where nobody else can write.

Triton trusts what it finds in its cache: whoever can write there can have any code run. So the
folder is made with mode 0700, and one that others can write is refused.
"""

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from .errors import CourseError
from .files import make_private


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the course caches: $COURSE_CACHE, else $XDG_CACHE_HOME/triton-course, else
    ~/.cache/triton-course."""
    return _folder("COURSE_CACHE", "XDG_CACHE_HOME", ".cache", environ)


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the course keeps what is the reader's own: $COURSE_DATA, else
    $XDG_DATA_HOME/triton-course, else ~/.local/share/triton-course."""
    return _folder("COURSE_DATA", "XDG_DATA_HOME", ".local/share", environ)


def _folder(own: str, variable: str, in_home: str, environ: Mapping[str, str]) -> Path:
    """The folder that the variable `own` names, else the course's in a user's folder."""
    if environ.get(own):
        return Path(os.path.expanduser(environ[own])).absolute()
    home = Path(environ.get("HOME") or Path.home())
    return Path(environ.get(variable) or home / in_home).absolute() / "triton-course"


def private_folder(folder: Path) -> Path:
    """Make `folder` with mode 0700 if it is missing, and return it.

    Raises CourseError where it cannot be made, belongs to somebody else or can be written by
    others.
    """
    try:
        make_private(folder)
    except OSError as error:
        raise CourseError(
            f"The cache folder {folder} cannot be made ({error.strerror}): set COURSE_CACHE to a"
            " folder that you can write."
        ) from error
    refuse_shared(folder)
    return folder


def refuse_shared(folder: Path, variable: str = "COURSE_CACHE") -> None:
    """Raise CourseError where another user could put files into `folder`, or another folder in its
    place.

    variable: the one in the environment that can move it.
    """
    if sys.platform == "emscripten":  # the memory of one page: nobody else is there
        return
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise CourseError(
            f"The cache folder {folder} belongs to another user, and compiled kernels in it would"
            f" be run as they stand: set {variable} to a folder of your own."
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CourseError(
            f"The cache folder {folder} can be written by others, and compiled kernels in it would"
            f" be run as they stand: run `chmod 700 {folder}`, or set {variable} to a folder of"
            " your own.",
            kind="others can write",
        )
    if replaceable := next(filter(_replaceable, _way(folder.absolute())), None):
        raise CourseError(
            f"The cache folder {folder} is reached through {replaceable}, which every user of this"
            " machine can replace, and compiled kernels there would be run as they stand: set"
            f" {variable} to a folder of your own."
        )


def _way(path: Path) -> Iterator[Path]:
    """The folders and links by which a path is reached, from the root on."""
    for part in reversed([path, *path.parents]):
        yield part
        if part.is_symlink():
            yield from _way(part.parent / part.readlink())


def _replaceable(part: Path) -> bool:
    """Whether all users can put something else in its place: where all can write, only a sticky
    folder keeps its owner's."""
    parent = part.parent.stat()
    kept = parent.st_mode & stat.S_ISVTX and part.lstat().st_uid in (os.geteuid(), 0)
    return bool(parent.st_mode & stat.S_IWOTH and not kept)
