"""Files that appear whole or not at all, and what to do where they cannot be written."""

import contextlib
import errno
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
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
        list(_make_folders(place.parent))
        ready = _beside(place, new)
        try:
            return (old is None or _taken_away(place, old)) and _put(ready, place)
        finally:
            _remove(ready)
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
    _remove(aside)
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


def write_together(contents: Mapping[Path, str | bytes], mode: int = 0o666) -> None:
    """Write these files and make the folders they lie in; on an error everything is as it was
    before.

    mode: who may read and write them, at every moment, less what the umask takes away.
    Every file is written beside its place first, and all are moved once there was room for all.
    Raises CourseError where it cannot be done: the disk is full, the folder read-only.
    """
    changes: list[tuple[Path, Path, Path]] = []
    named = Path()
    with contextlib.ExitStack() as copies, contextlib.ExitStack() as undo:
        try:
            for named, content in contents.items():
                path = Path(os.path.realpath(named))  # a link is followed
                if path.exists() and not path.is_file():  # a device would be taken away
                    raise FileExistsError(errno.EEXIST, "a folder or a device is there")
                for folder in _make_folders(path.parent):
                    undo.callback(_try, folder.rmdir)
                new = _beside(path, content, mode)
                undo.callback(_remove, new)
                changes.append((named, path, new))
            for change in changes if len(changes) > 1 else ():
                named, path, new = change
                # With a copy the change can be undone without room on the disk.
                old = _beside(path, path.read_bytes(), mode) if path.exists() else None
                copies.callback(_remove, old)
                undo.callback(_try, _take_back, path, new, old)
            for change in changes:
                named, path, new = change
                new.replace(path)
        except OSError as error:
            raise _not_written(named, error) from error
        undo.pop_all()


def _take_back(path: Path, new: Path, old: Path | None) -> None:
    """Give a path its old file again, if the new one is in place."""
    if not new.exists():
        old.replace(path) if old else path.unlink()


def _not_written(path: Path, error: OSError) -> CourseError:
    return CourseError(
        f"{path} could not be written ({error.strerror}): nothing was changed; {advice(error)}."
    )


def make_private(folder: Path) -> None:
    """Make a folder, and those it lies in that are missing, for this user alone, whatever the
    umask."""
    list(_make_folders(folder, 0o700))


def _make_folders(folder: Path, mode: int = 0o777) -> Iterator[Path]:
    """Make a folder and those around it, as they are asked for; gives those that were missing."""
    for path in reversed([folder, *folder.parents]):
        if not path.is_dir():
            path.mkdir(mode, exist_ok=True)  # another process may have just made it
            yield path


def _beside(path: Path, content: str | bytes, mode: int = 0o666) -> Path:
    """A file of another name in the folder of `path`, with this content; on an error there is
    none."""
    beside = path.with_name(f".course-{secrets.token_hex(8)}")
    try:
        beside.touch(mode, exist_ok=False)
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except BaseException:
        _remove(beside)
        raise
    return beside


def _remove(path: Path | None) -> None:
    if path is not None:
        _try(path.unlink, True)


def _try(action: Callable[..., object], *values: object) -> None:
    """Do what need not succeed."""
    with contextlib.suppress(OSError):
        action(*values)


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
