"""Files written all together or not at all."""

import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path

from course.errors import CourseError

MARK = "// Written by course aot"
"""How the first line of a file begins that may be written over."""


def refuse_others_files(paths: list[Path], force: bool) -> None:
    """Raise CourseError where one of the paths exists and was not written by us."""
    for path in paths:
        try:
            if path.is_dir():
                raise CourseError(f"{path} is a folder: name another output.")
            others = path.exists() and not force and not _ours(path)
        except OSError as error:
            raise CourseError(f"{path} could not be looked at ({error.strerror}): name another output.") from error
        if others:
            raise CourseError(
                f"{path} exists and was not written by this tool: name another output, or say --force (force=True)."
            )


def _ours(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(len(MARK))
    return start == MARK.encode() or (start.startswith(b"\x7fELF") and INDEX.encode() in path.read_bytes())


INDEX = "course_aot_index"
"""The symbol by which a library that we built is known."""


def write_together(contents: Mapping[Path, str | bytes]) -> None:
    """Write each file beside its place first, then move all into place. On an error everything is as it was before.

    Raises CourseError where it cannot be done: no room on the disk, no right to write.
    """
    written: dict[Path, Path] = {}
    made: list[Path] = []
    before: dict[Path, bytes | None] = {}
    at = Path()
    try:
        for at, content in contents.items():
            _make_folders(at.parent, made)
            written[at] = at.with_name(f".course-aot-{secrets.token_hex(8)}")
            with written[at].open("xb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
        for at, temporary in written.items():
            before[at] = at.read_bytes() if at.exists() else None
            temporary.replace(at)
    except BaseException as error:
        _undo(written, before, made)
        if isinstance(error, OSError):
            raise CourseError(f"{at} could not be written ({error.strerror}): nothing was changed.") from error
        raise


def _make_folders(folder: Path, made: list[Path]) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _undo(written: Mapping[Path, Path], before: Mapping[Path, bytes | None], made: list[Path]) -> None:
    for path, temporary in written.items():
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
            if path in before:
                content = before[path]
                if content is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(content)
    for folder in reversed(made):
        with contextlib.suppress(OSError):
            folder.rmdir()
