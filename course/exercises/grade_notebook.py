"""`course check`: run a reader's notebook, and gather what its checks say."""

import contextlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from course.errors import CourseError
from course.lessons.folders import WORK
from course.lessons.statements import statements
from course.progress_bar import track

from .result import MIME

if TYPE_CHECKING:
    from nbformat import NotebookNode

CELL_TIMEOUT_S = 600
"""For what never ends: on a busy machine a check may wait two minutes for each of its children."""


@dataclass(frozen=True)
class NotebookCheck:
    """What one check of a notebook gave."""

    exercise: str
    """Its id; empty for what kept the notebook from running to its end."""
    verdict: str
    """A check's, or "missing" for a core exercise without one, or "error"."""
    text: str


def notebook_of(lesson: str, work: Path = WORK) -> Path:
    """The reader's copy of a lesson, named by its number, or by the path of any notebook."""
    if lesson.endswith(".ipynb"):
        path = Path(lesson)
        if not path.is_file():
            raise CourseError(f"There is no notebook {path}.")
        return path
    copies = sorted(work.glob(f"{lesson:0>2}-*.ipynb")) if lesson.isdigit() else []
    if own := [path for path in copies if ".kept-" not in path.name]:
        return own[0]
    there = "`course lab` puts the lessons there"
    raise CourseError(f"There is no lesson {lesson!r} in {work}: {there}.")


def grade(lesson: str) -> tuple[str, list[NotebookCheck]]:
    """The path of the notebook that a lesson or a path names, and what its checks gave."""
    try:
        path = notebook_of(lesson)
    except CourseError as error:
        return lesson, [_error(str(error))]
    return str(path), grade_notebook(path)


def grade_notebook(path: Path) -> list[NotebookCheck]:
    """Run a notebook, in this mode, and return what its checks gave. The file is not changed.

    Checks count for this learner's progress in the copies in work/ alone; others may be somebody
    else's. A cell that fails is passed over, as in a session. A core exercise of its lesson whose
    check did not run is "missing"; what kept the notebook from running to its end is the last row.
    """
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        return [_error(f"{path} is no notebook ({_first_line(error)}).")]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []  # what is left in cells that do not run is of another time
    problem = _run(notebook, path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output["data"][MIME] for output in outputs if MIME in output.get("data", {})]
    rows = []
    for content in shown:
        with contextlib.suppress(msgspec.ValidationError):  # any cell may show one of this type
            rows.append(msgspec.convert(content, NotebookCheck))
    if len(rows) < len(shown) and not problem:
        by_hand = "shows a result that `check` did not give"
        problem = f"{path} {by_hand}: take out the cell that makes it."
    return [*rows, *_missing(path, rows), *([_error(problem)] if problem else [])]


def all_right(rows: list[NotebookCheck]) -> bool:
    """Whether a notebook's checks are right in every core exercise, and none is missing."""
    counts = {exercise.name for exercise in statements().values() if exercise.core} | {""}
    return bool(rows) and all(row.verdict == "right" for row in rows if row.exercise in counts)


def _error(problem: str) -> NotebookCheck:
    return NotebookCheck("", "error", problem)


def _missing(path: Path, rows: list[NotebookCheck]) -> list[NotebookCheck]:
    """The core exercises without a check: of the lesson that the file is named after, or else of
    the lessons that it checks."""
    checked = {row.exercise for row in rows}
    lesson_of = {each.name: each.number[:2] for each in statements().values() if each.core}
    named = {lesson for lesson in lesson_of.values() if path.name.startswith(f"{lesson}-")}
    lessons = named or {lesson_of[exercise] for exercise in checked if exercise in lesson_of}
    why = "Its check did not run: the cell is gone, or it failed."
    return [
        NotebookCheck(exercise, "missing", f"{exercise}: missing. {why}")
        for exercise, lesson in lesson_of.items()
        if lesson in lessons and exercise not in checked
    ]


def _run(notebook: "NotebookNode", path: Path) -> str:
    """Run a notebook and leave the outputs in it; what kept it from its end, or nothing."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        allow_errors=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    is_mine = path.resolve().parent == WORK.resolve()
    try:
        with tempfile.TemporaryDirectory(prefix="course-check-") as elsewhere:
            environ = dict(os.environ) if is_mine else {**os.environ, "COURSE_DATA": elsewhere}
            with client.setup_kernel(env=environ, stderr=subprocess.DEVNULL):
                for index, cell in enumerate(track(notebook.cells, f"Running {path.name}")):
                    client.execute_cell(cell, index)
    except CellTimeoutError:
        see = "run it in the lab to see which, or try again if this machine is busy"
        return f"A cell of {path} did not end within {CELL_TIMEOUT_S} s: {see}."
    except DeadKernelError:
        return f"A cell of {path} ended the session: run it in the lab to see which."
    except (OSError, RuntimeError) as error:  # it did not start: no room on the disk, or in memory
        why = f"The session for {path} could not be run ({_first_line(error)})"
        return f"{why}: `course doctor` looks at this machine."
    return ""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
