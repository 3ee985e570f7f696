"""Derive notebooks/ from solutions/, run them in CPU mode, and tell where the two disagree."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course.errors import CourseError
from course.files import write_whole
from course.progress_bar import track

from . import lint as contract
from .source import NOTEBOOKS, SOLUTIONS, derive, lesson_sources

CELL_TIMEOUT_S = 600

# What would differ from one run or machine to the next.
# An address of Python's has more than eight digits; a constant in assembly has at most so many.
UNSTABLE = re.compile(r"ipykernel_\d|/tmp/|/home/|/root/|0x[0-9a-f]{9,}|widget-view")


def build(
    lessons: list[str], solutions: Path = SOLUTIONS, notebooks: Path = NOTEBOOKS
) -> list[Path]:
    """Derive and run these lessons (all where none is named), and write the notebooks; return their paths.

    lessons: numbers, as "01". Building again changes no byte. Raises CourseError, and writes nothing of that lesson,
    where a source breaks the contract, a cell fails, or an output would differ in the next run.
    """
    sources = [
        path for path in lesson_sources(solutions) if not lessons or path.name[:2] in lessons
    ]
    if not sources:
        raise CourseError(f"There is no lesson {', '.join(lessons)} in {solutions}.")
    written = []
    for source in track(sources, "Running the lessons"):
        if broken := contract.problems(source):
            raise CourseError("\n".join(broken))
        notebook = derive(source)
        run(notebook, notebooks)
        _refuse_unstable(notebook, source.name)
        path = notebooks / f"{source.stem}.ipynb"
        nbformat.validate(notebook)
        write_whole(path, nbformat.writes(notebook) + "\n")
        written.append(path)
    return written


def run(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook in CPU mode with an empty Triton cache, in `folder`; its outputs are left in it."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    with tempfile.TemporaryDirectory() as cache:
        environ = {
            **os.environ,
            "COURSE_MODE": "cpu",
            "COURSE_PROGRESS": "off",
            "COURSE_STATIC": "1",
        }
        environ |= {"TRITON_CACHE_DIR": cache, "COURSE_DATA": cache}
        client = NotebookClient(
            notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(folder)}},
            store_widget_state=False,  # a widget shows itself as HTML here, and its ids differ from run to run
        )  # fmt: skip
        try:
            client.execute(env=environ, stderr=subprocess.DEVNULL)
        except (CellExecutionError, DeadKernelError) as error:
            raise CourseError(f"A cell failed: {error}") from error
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
    notebook.metadata["language_info"] = {
        "name": "python",
        "file_extension": ".py",
        "mimetype": "text/x-python",
    }


def _refuse_unstable(notebook: NotebookNode, where: str) -> None:
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise CourseError(
                    f"{where}, cell {index} writes to stderr: {output['text'].strip()[:300]}"
                )
            shown = {
                kind: text for kind, text in output.get("data", {}).items() if kind != "text/html"
            }
            if match := UNSTABLE.search(f"{output.get('text', '')} {shown}"):
                raise CourseError(
                    f"{where}, cell {index} shows {match[0]!r}, which differs from run to run."
                )


def out_of_sync(solutions: Path = SOLUTIONS, notebooks: Path = NOTEBOOKS) -> list[str]:
    """Where notebooks/ is not what solutions/ gives, and where a source breaks the contract, a sentence each.

    Compares texts, ids and tags, and that each code cell was run; runs nothing.
    """
    found: list[str] = []
    sources = {path.stem: path for path in lesson_sources(solutions)}
    for path in sorted(notebooks.glob("*.ipynb")):
        if path.stem not in sources:
            found.append(
                f"notebooks/{path.name} has no source in solutions/: delete it, or add {path.stem}.py."
            )
    for stem, source in sources.items():
        found += contract.problems(source)
        path = notebooks / f"{stem}.ipynb"
        if not path.is_file():
            found.append(f"notebooks/{stem}.ipynb is missing: run `course notebooks {stem[:2]}`.")
            continue
        found += [
            f"notebooks/{stem}.ipynb {difference}"
            for difference in _differences(derive(source), path)
        ]
    return found


def _differences(wanted: NotebookNode, path: Path) -> list[str]:
    found = nbformat.read(path, as_version=4)
    again = "run `course notebooks`, and edit solutions/ alone"
    if len(found.cells) != len(wanted.cells):
        return [f"has {len(found.cells)} cells and its source has {len(wanted.cells)}: {again}."]
    differences = []
    for index, (ours, theirs) in enumerate(zip(wanted.cells, found.cells, strict=True)):
        if any(
            ours.get(key) != theirs.get(key) for key in ("cell_type", "id", "source", "metadata")
        ):
            differences.append(f"differs from its source in cell {index}: {again}.")
        elif ours.cell_type == "code" and theirs.execution_count is None:
            # nbval passes a cell with no reference output whatever it prints.
            differences.append(f"was never run in cell {index}: {again}.")
    return differences
