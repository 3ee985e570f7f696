"""`course check`: run a reader's notebook and gather what its checks say. `course progress`: what a learner has done."""

import getpass
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.errors import CourseError
from course.progress import track

from . import learner
from .check import MIME
from .statements import statements
from .workspace import WORK

if TYPE_CHECKING:
    from nbclient import NotebookClient

CELL_TIMEOUT_S = 120


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
        raise CourseError(f"There is no lesson {lesson!r} in {work}: `make lab` puts the lessons there.")
    return found[0]


def check_notebook(path: Path) -> list[dict[str, str]]:
    """Run a notebook, in this mode, and return what its checks gave: exercise, verdict and text. The file is not changed.

    Checks count for this learner's progress in the copies in work/ alone; others may be somebody else's. A cell that
    fails is passed over, as in a session. Raises CourseError where it is no notebook or its session ends.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        raise CourseError(f"{path} is no notebook ({str(error).splitlines()[0]}).") from error
    mine = path.resolve().parent == WORK.resolve()
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, allow_errors=True, kernel_name="python3", resources=resources)
    try:
        with tempfile.TemporaryDirectory() as elsewhere:
            environ = dict(os.environ) if mine else {**os.environ, "COURSE_DATA": elsewhere}
            _run(client, path, environ)
    except CellTimeoutError as error:
        raise CourseError(f"A cell of {path} did not end within {CELL_TIMEOUT_S} s.") from error
    except DeadKernelError as error:
        raise CourseError(f"A cell of {path} ended the session: run it in the lab to see which.") from error
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return [dict(output["data"][MIME]) for output in outputs if MIME in output.get("data", {})]


def _run(client: "NotebookClient", path: Path, environ: dict[str, str]) -> None:
    with client.setup_kernel(env=environ, stderr=subprocess.DEVNULL):
        for index, cell in enumerate(track(client.nb.cells, f"Running {path.name}")):
            client.execute_cell(cell, index)


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
    return {"learner": getpass.getuser(), "exercises": rows}


def progress_text(found: dict[str, Any]) -> str:
    """`progress` as a table, lesson by lesson."""
    rows = found["exercises"]
    lines, lesson = [], ""
    for row in rows:
        if row["exercise"][:2] != lesson:
            lesson = row["exercise"][:2]
            core = [each for each in rows if each["exercise"].startswith(lesson) and each["core"]]
            lines.append(f"Lesson {lesson}: {sum(each['right'] for each in core)} of {len(core)} core exercises right")
        verdict = "right" if row["right"] else row["last_verdict"] or "to do"
        level = "" if row["core"] else " (stretch)"
        tries = f", {row['tries']} tries" if row["tries"] > 1 else ""
        lines.append(f"    {row['exercise']}  {verdict:16}  {row['title']}{level}{tries}")
    return "\n".join(lines)
