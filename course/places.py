"""Where the course's own files lie, and the reader's: one folder in a checkout, two where the
course was installed from its wheel.

A wheel holds `course` alone. What the course reads of the repository beside it (kernels/,
notebooks/, solutions/, docs/pages/) lies inside it there, in course/content/ (setup.py puts it
there), since a top-level package `kernels` would collide with another project's.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from .errors import CourseError

PACKED = Path(__file__).resolve().parent / "content"


def content() -> Path:
    """The folder that holds kernels/, notebooks/ and solutions/, as the course was tested."""
    return PACKED if PACKED.is_dir() else PACKED.parents[1]


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """The reader's folder, which holds work/: $COURSE_HOME, else the checkout, else
    ~/triton-course."""
    if environ.get("COURSE_HOME"):
        return Path(environ["COURSE_HOME"]).expanduser().absolute()
    return Path.home() / "triton-course" if PACKED.is_dir() else content()


def need_checkout(command: str) -> None:
    """Raise CourseError where the course was installed, and `command` would change its own
    files."""
    if PACKED.is_dir():
        raise CourseError(
            f"`{command}` changes the course's own files: run it in a checkout of the course, with"
            " the course of its .venv."
        )


def lets_import_kernels(path: list[str]) -> None:
    """Let `import kernels` find the course's, by adding a folder to a sys.path of an installed
    course.

    In the reader's folder it finds the reader's kernels/, before any other. Elsewhere it finds the
    course's own, after all others: a project that has a `kernels` of its own keeps it.
    """
    if not PACKED.is_dir():
        return  # a checkout is on the path already
    if _is_inside(home()):
        with contextlib.suppress(ValueError):
            path.remove(str(home()))  # further back, another `kernels` may stand before it
        path.insert(0, str(home()))
    elif str(PACKED) not in path:
        path.append(str(PACKED))


def _is_inside(folder: Path) -> bool:
    try:
        return Path.cwd().is_relative_to(folder.resolve()) and (folder / "kernels").is_dir()
    except FileNotFoundError:  # the current folder is gone
        return False


def other_kernels() -> str | None:
    """Where `import kernels` leads if it is not to the course's kernels: another project's folder,
    or "nowhere". None where it finds the course's."""
    import importlib.util

    spec = importlib.util.find_spec("kernels")
    folders = list(spec.submodule_search_locations or []) if spec else []
    if any((Path(folder) / "vector_add.py").is_file() for folder in folders):
        return None
    return folders[0] if folders else "nowhere"


def refuse_other_kernels() -> None:
    """Raise CourseError where `import kernels` finds another project's package.

    For functions of the course that import its kernels by themselves.
    """
    if where := other_kernels():
        raise CourseError(
            f"`import kernels` finds {where} and not the course's kernels: run this in"
            f" {home()}, the folder that `course lab` makes."
        )
