"""`course check`: run a reader's notebook and gather what its checks say. `course progress`: what a learner has done."""

import getpass
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.errors import CourseError
from course.lessons.statements import statements
from course.lessons.workspace import WORK
from course.progress_bar import track

from . import learner
from .result import MIME

if TYPE_CHECKING:
    from nbformat import NotebookNode

CELL_TIMEOUT_S = 600
"""For what never ends: on a busy machine a check alone may wait two minutes for each of its children."""

Row = dict[str, str]
"""What one check gave: "exercise", "verdict" and "text"."""


def notebook_of(lesson: str, work: Path = WORK) -> Path:
    """The reader's copy of a lesson, named by its number, or by the path of any notebook."""
    if lesson.endswith(".ipynb"):
        path = Path(lesson)
        if not path.is_file():
            raise CourseError(f"There is no notebook {path}.")
        return path
    found = sorted(work.glob(f"{lesson:0>2}-*.ipynb")) if lesson.isdigit() else []
    found = [path for path in found if ".kept-" not in path.name]
    if not found:
        raise CourseError(
            f"There is no lesson {lesson!r} in {work}: `make lab` puts the lessons there."
        )
    return found[0]


def check(lesson: str) -> tuple[str, list[Row]]:
    """The path of the notebook that a lesson or a path names, and what its checks gave, as `check_notebook` says it."""
    try:
        path = notebook_of(lesson)
    except CourseError as error:
        return lesson, [_error(str(error))]
    return str(path), check_notebook(path)


def check_notebook(path: Path) -> list[Row]:
    """Run a notebook, in this mode, and return what its checks gave: exercise, verdict and text. The file is not changed.

    Checks count for this learner's progress in the copies in work/ alone; others may be somebody else's. A cell that
    fails is passed over, as in a session. A core exercise of its lesson whose check did not run has the verdict "missing";
    what kept the notebook from running to its end is the last row, of no exercise and with the verdict "error".
    """
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        return [_error(f"{path} is no notebook ({why}).")]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []  # what is left in cells that do not run is of another time
    problem = _run(notebook, path)
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    given = [output["data"][MIME] for output in outputs if MIME in output.get("data", {})]
    found = [dict(each) for each in given if _is_row(each)]
    if len(found) < len(given):
        problem = (
            problem
            or f"{path} shows a result that `check` did not give: take out the cell that makes it."
        )
    return [*found, *_missing(path, found), *([_error(problem)] if problem else [])]


def all_right(found: list[Row]) -> bool:
    """Whether what a notebook's checks gave is right in every core exercise, and none is missing."""
    core = {each.id for each in statements().values() if each.core}
    return bool(found) and all(
        each["verdict"] == "right" for each in found if each["exercise"] in {*core, ""}
    )


def _error(problem: str) -> Row:
    return {"exercise": "", "verdict": "error", "text": problem}


def _is_row(given: Any) -> bool:
    """Whether an output is what a check gives: any cell may show something of the same type."""
    return (
        isinstance(given, dict)
        and set(given) == set(_error(""))
        and all(isinstance(each, str) for each in given.values())
    )


def _missing(path: Path, found: list[Row]) -> list[Row]:
    """The core exercises without a check: of the lesson that the file is named after, else of those that it checks."""
    checked = {each["exercise"] for each in found}
    core = [each.id for each in statements().values() if each.core]
    named = {exercise[:2] for exercise in core if path.name.startswith(f"{exercise[:2]}-")}
    lessons = named or {exercise[:2] for exercise in checked}
    text = "{}: missing. Its check did not run: the cell is gone, or it failed."
    return [
        {"exercise": exercise, "verdict": "missing", "text": text.format(exercise)}
        for exercise in core
        if exercise[:2] in lessons and exercise not in checked
    ]


def _run(notebook: "NotebookNode", path: Path) -> str:
    """Run a notebook and leave the outputs in it; return what kept it from its end, or nothing."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        allow_errors=True,
        kernel_name="python3",
        resources=resources,
    )
    mine = path.resolve().parent == WORK.resolve()
    try:
        with tempfile.TemporaryDirectory(prefix="course-check-") as elsewhere:
            environ = dict(os.environ) if mine else {**os.environ, "COURSE_DATA": elsewhere}
            with client.setup_kernel(env=environ, stderr=subprocess.DEVNULL):
                for index, cell in enumerate(track(notebook.cells, f"Running {path.name}")):
                    client.execute_cell(cell, index)
    except CellTimeoutError:
        see = "run it in the lab to see which, or try again if this machine is busy"
        return f"A cell of {path} did not end within {CELL_TIMEOUT_S} s: {see}."
    except DeadKernelError:
        return f"A cell of {path} ended the session: run it in the lab to see which."
    except (OSError, RuntimeError) as error:  # it did not start: no room on the disk, or in memory
        why = (str(error).splitlines() or [type(error).__name__])[0]
        return f"The session for {path} could not be run ({why}): `course doctor` looks at this machine."
    return ""


def progress() -> dict[str, Any]:
    """What this learner has done with every exercise of the course, as JSON would say it."""
    history = learner.tried()
    rows = []
    for exercise in statements().values():
        entry = history.get(exercise.id, learner.Tried())
        rows.append(
            {
                "exercise": exercise.id,
                "title": exercise.title,
                "core": exercise.core,
                "right": bool(entry.first_right),
                "last_verdict": entry.verdict,
                "tries": entry.tries,
                "hints": entry.hints,
                "first_right": entry.first_right,
            }
        )
    return {"learner": _user(), "exercises": rows}


def _user() -> str:
    """The name of this user; the number where the system knows no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def progress_text(found: dict[str, Any]) -> str:
    """`progress` as a table, lesson by lesson."""
    rows = found["exercises"]
    lines, lesson = [], ""
    for row in rows:
        if row["exercise"][:2] != lesson:
            lesson = row["exercise"][:2]
            core = [each for each in rows if each["exercise"].startswith(lesson) and each["core"]]
            lines.append(
                f"Lesson {lesson}: {sum(each['right'] for each in core)} of {len(core)} core exercises right"
            )
        verdict = "right" if row["right"] else row["last_verdict"] or "to do"
        level = "" if row["core"] else " (stretch)"
        tries = f", {row['tries']} tries" if row["tries"] > 1 else ""
        lines.append(f"    {row['exercise']}  {verdict:16}  {row['title']}{level}{tries}")
    return "\n".join(lines)
