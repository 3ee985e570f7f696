"""Files that appear whole or not at all, and what to do where they cannot be written."""

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import CourseError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
IN_THE_WAY = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENOENT, errno.ELOOP)


def advice(error: OSError) -> str:
    """What a person can do after an error of the file system, as half a sentence."""
    if error.errno in FULL:
        return "make room on the disk and try again"
    if error.errno in FORBIDDEN:
        return "use a folder that you can write to"
    if error.errno in IN_THE_WAY:
        return "move away what is in its place and try again"
    return "try again"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that at every moment its path holds all of the old content or all of the new.

    Raises CourseError where it cannot be done; nothing has changed then.
    """
    write_together({path: content})


@dataclass
class _Change:
    """One of the files that are written together."""

    named: Path
    path: Path
    """Where it goes: `named` with its links followed."""
    new: Path
    """The new content, beside its place. Once it is in place, nothing is here any more."""
    old: Path | None = None
    """A copy of what was there before, with which the change can be undone without room on the
    disk."""


def write_together(contents: Mapping[Path, str | bytes]) -> None:
    """Write these files and make the folders they lie in; on an error everything is as it was
    before.

    Every file is written beside its place first, and all are moved once there was room for all.
    Raises CourseError where it cannot be done: the disk is full, the folder read-only.
    """
    changes: list[_Change] = []
    folders: list[Path] = []
    named = Path()
    try:
        for named, content in contents.items():
            path = Path(os.path.realpath(named))
            if path.exists() and not path.is_file():  # moving a file there would take a device away
                raise FileExistsError(errno.EEXIST, "a folder or a device is there")
            _make_folders(path.parent, folders)
            changes.append(_Change(named, path, _beside(path, content)))
        for change in changes if len(changes) > 1 else ():
            named = change.named
            if change.path.exists():
                change.old = _beside(change.path, change.path.read_bytes())
        for change in changes:
            named = change.named
            change.new.replace(change.path)
    except BaseException as error:
        _undo(changes, folders)
        if isinstance(error, OSError):
            raise CourseError(
                f"{named} could not be written ({error.strerror}): nothing was changed;"
                f" {advice(error)}."
            ) from error
        raise
    _remove(change.old for change in changes)


def make_private(folder: Path) -> None:
    """Make a folder, and those it lies in that are missing, for this user alone, whatever the
    umask."""
    _make_folders(folder, [], 0o700)


def _make_folders(folder: Path, new: list[Path], mode: int = 0o777) -> None:
    """Make a folder and those around it; the ones that were missing are added to `new`."""
    for path in reversed([folder, *folder.parents]):
        if not path.is_dir():
            path.mkdir(mode, exist_ok=True)  # another process may have just made it
            new.append(path)


def _beside(path: Path, content: str | bytes) -> Path:
    """A file of another name in the folder of `path`, with this content; on an error there is
    none."""
    beside = path.with_name(f".course-{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except BaseException:
        _remove([beside])
        raise
    return beside


def _undo(changes: list[_Change], folders: list[Path]) -> None:
    for change in changes:
        with contextlib.suppress(OSError):
            if not change.new.exists():  # it is in place already
                if change.old is not None:
                    change.old.replace(change.path)
                else:
                    change.path.unlink()
    _remove(path for change in changes for path in (change.new, change.old))
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove(paths: Iterable[Path | None]) -> None:
    for path in paths:
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder for files of our own alone. Raises CourseError where they cannot be
    written."""
    try:
        with tempfile.TemporaryDirectory(prefix="course-") as folder:
            yield Path(folder)
    except OSError as error:
        raise CourseError(
            f"The temporary folder {tempfile.gettempdir()} could not be used ({error.strerror}): "
            "make room in it, or set TMPDIR to another folder."
        ) from error
