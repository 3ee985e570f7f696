"""Where files may be written, and which may be written over."""

import contextlib
import os
import re
from pathlib import Path, PurePath

from course.errors import CourseError

MARK = "// Written by course aot"
"""The start of the first line of each file that may be written over."""
INDEX = "course_aot_index"
"""The symbol that each library of ours has: the manifests it was built from."""
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
LONGEST = 100


def check_out(out: str | Path) -> Path:
    """Where files are to go: a path without its extension.

    Raises CourseError for one that leaves the current folder. Only Python may give an absolute
    path, as a pathlib.Path: then it was meant.
    """
    if not isinstance(out, (str, Path)):
        raise CourseError(
            f"The output is {out!r:.60}, and must be a path below the current folder."
        )
    path, text = Path(out), str(out)
    if ".." in PurePath(out).parts:
        problem = "leaves its folder by '..': name a path below the current folder"
    elif text.startswith("~"):
        problem = "begins with '~': name a path below the current folder, or give Path.home() / …"
    elif path.is_absolute() and not isinstance(out, Path):
        problem = "is absolute: name a path below the current folder"
    elif text.endswith("/"):
        problem = "is a folder: add the name of a file"
    elif not text.isprintable():
        problem = "has a character that cannot be printed: leave it out"
    elif not FILE_NAME.fullmatch(path.name) or len(path.name) > LONGEST:
        characters = f"of letters, digits and _ . + -, at most {LONGEST}"
        problem = f"must end in the name of a file, {characters}"
    elif not _within(path):
        problem = "leaves the current folder by a link: name a path below that folder"
    else:
        return path
    raise CourseError(f"The output {text[:200]!r} {problem}.")


def _within(path: Path) -> bool:
    """Whether a path is absolute, or below the current folder."""
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.parent.stat()  # a folder's name may be too long, or a link lead to itself
        return path.is_absolute() or path.parent.resolve().is_relative_to(Path.cwd())
    except OSError as error:
        raise CourseError(
            f"{str(path)[:200]} could not be looked at ({error.strerror}): name another output."
        ) from error


def refuse_others_files(paths: list[Path], force: bool) -> None:
    """Raise CourseError if one of the paths exists and was not written by us."""
    for path in paths:
        try:
            if path.is_dir():
                raise CourseError(f"{path} is a folder: name another output.")
            if path.exists() and not path.is_file():
                raise CourseError(f"{path} is a pipe or a device: name another output.")
            foreign = path.exists() and not force and not _ours(path)
        except OSError as error:
            raise CourseError(
                f"{path} could not be looked at ({error.strerror}): name another output."
            ) from error
        if foreign:
            raise CourseError(
                f"{path} exists and was not written by this tool: name another output, or say "
                "--force (force=True)."
            )


def _ours(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(len(MARK))
    library = start.startswith(b"\x7fELF") and INDEX.encode() in path.read_bytes()
    return library or start == MARK.encode()


def hash_in_name(path: Path, digits_and_hints: str, extension: str) -> Path:
    """`path` with a function's hash and hints, as Triton's own tool names files.

    If the name would be too long the hints are left out: the hash tells variants apart as well.
    """
    whole = path.with_suffix(f".{digits_and_hints}{extension}")
    if len(os.fsencode(whole.name)) <= 255:  # bytes, in the file systems in use
        return whole
    return path.with_suffix(f".{digits_and_hints.partition('_')[0]}_{extension}")
