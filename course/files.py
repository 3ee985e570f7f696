"""Files that appear whole or not at all, and what to do where they cannot be written."""

import contextlib
import errno
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import CourseError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
IN_THE_WAY = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENOENT, errno.ELOOP)

LEFT_S = 60
"""Seconds after which a file that is being written has been left: another process may write."""


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


def read_file(path: Path) -> bytes | None:
    """What is in a file; None where there is none. Raises OSError for what is no file: a pipe would
    be waited for without end."""
    if not os.path.lexists(path):
        return None
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise FileExistsError(errno.EEXIST, "a pipe or a device is there")
    return path.read_bytes()


def replace_unchanged(path: Path, old: bytes | None, new: bytes) -> bool:
    """Write a file whole if it still holds `old`, None for no file. Else what somebody has saved
    meanwhile stays, and this is False.

    Raises CourseError where it cannot be done; nothing has changed then.
    """
    place = Path(os.path.realpath(path))
    try:
        _make_folders(place.parent, [])
        ready = _beside(place, new)
        try:
            return (old is None or _taken_away(place, old)) and _put(ready, place)
        finally:
            _remove([ready])
    except OSError as error:
        raise _not_written(path, error) from error


def _taken_away(place: Path, old: bytes) -> bool:
    """Take a file away that holds `old`; one that holds something else stays."""
    # A name that is seen: a SIGKILL may leave it, and what was saved a moment before is in it.
    aside = place.with_suffix(f".kept-{secrets.token_hex(4)}{place.suffix}")
    try:
        place.rename(aside)
    except FileNotFoundError:  # another process replaces it
        return False
    is_old = aside.read_bytes() == old
    if not is_old:
        _put(aside, place)  # unless it was saved once more
    _remove([aside])
    return is_old


def _put(file: Path, place: Path) -> bool:
    """Give a file this name too, unless another has it."""
    try:
        os.link(file, place)
    except FileExistsError:
        return False
    except OSError:  # some file systems have no links
        if os.path.lexists(place):
            return False
        file.replace(place)
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove from a folder what a SIGKILL has left beside a file that was being written."""
    for path in folder.glob(".course-*"):
        with contextlib.suppress(OSError):
            is_ours = re.fullmatch(r"\.course-[0-9a-f]{16}", path.name)
            if is_ours and time.time() - path.stat().st_mtime > LEFT_S:
                path.unlink()


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
            raise _not_written(named, error) from error
        raise
    _remove(change.old for change in changes)


def _not_written(path: Path, error: OSError) -> CourseError:
    return CourseError(
        f"{path} could not be written ({error.strerror}): nothing was changed; {advice(error)}."
    )


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
