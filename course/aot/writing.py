"""Which files an export may write over."""

from pathlib import Path

from course.errors import CourseError

MARK = "// Written by course aot"
"""How the first line of a file begins that may be written over."""
INDEX = "course_aot_index"
"""The symbol by which a library that we built is known."""


def refuse_others_files(paths: list[Path], force: bool) -> None:
    """Raise CourseError where one of the paths exists and was not written by us."""
    for path in paths:
        try:
            if path.is_dir():
                raise CourseError(f"{path} is a folder: name another output.")
            others = path.exists() and not force and not _ours(path)
        except OSError as error:
            raise CourseError(
                f"{path} could not be looked at ({error.strerror}): name another output."
            ) from error
        if others:
            raise CourseError(
                f"{path} exists and was not written by this tool: name another output, or say --force (force=True)."
            )


def _ours(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(len(MARK))
    return start == MARK.encode() or (
        start.startswith(b"\x7fELF") and INDEX.encode() in path.read_bytes()
    )
