"""Derive notebooks/ from solutions/, run them in CPU mode, and tell where the two disagree."""

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course.errors import CourseError
from course.files import write_whole
from course.progress_bar import track

from . import source_rules
from .folders import NOTEBOOKS, SOLUTIONS
from .order import lesson_sources, lessons_named
from .without_solutions import METADATA, derive

CELL_TIMEOUT_S = 600
COMPARED = ("cell_type", "id", "source", "metadata")
"""The parts of a cell that must be as its source gives them."""

UNSTABLE = re.compile(r"ipykernel_\d|/tmp/|/home/|/root/|0x[0-9a-f]{9,}|widget-view")
"""What would differ from one run or machine to the next. An address of Python's has more than eight
digits; a constant in assembly has at most so many."""


def build(
    lessons: list[str], solutions: Path = SOLUTIONS, notebooks: Path = NOTEBOOKS
) -> list[Path]:
    """Derive and run these lessons (all if none is named), write the notebooks, return their paths.

    lessons: numbers, as "01". Building again changes no byte.
    Raises CourseError, and writes nothing of that lesson, where a source breaks the contract, a
        cell fails or an output would differ in the next run.
    """
    sources = lessons_named(lessons, lesson_sources(solutions))
    written = []
    for source in track(sources, "Running the lessons"):
        if problems := source_rules.problems(source):
            raise CourseError("\n".join(problems))
        notebook = derive(source)
        path = notebooks / f"{source.stem}.ipynb"
        with _restored_if_it_fails(path):
            # Its checks read the statements there: by those of before a stub may be no stub.
            write_whole(path, nbformat.writes(notebook) + "\n")
            run(notebook, notebooks)
            _refuse_unstable(notebook, source.name)
            nbformat.validate(notebook)
            write_whole(path, nbformat.writes(notebook) + "\n")
        written.append(path)
    return written


@contextlib.contextmanager
def _restored_if_it_fails(path: Path) -> Iterator[None]:
    before = path.read_text() if path.exists() else None
    try:
        yield
    except BaseException:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            write_whole(path, before)
        raise


def run(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook in `folder`, in CPU mode with an empty Triton cache, and keep its outputs."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    fixed = {"COURSE_MODE": "cpu", "COURSE_PROGRESS": "off", "COURSE_STATIC": "1"}
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        coalesce_streams=True,  # what is printed comes in pieces on a busy machine
        store_widget_state=False,  # a widget shows itself as HTML; its ids differ from run to run
    )
    with tempfile.TemporaryDirectory() as cache:
        environ = {**os.environ, **fixed, "TRITON_CACHE_DIR": cache, "COURSE_DATA": cache}
        try:
            client.execute(env=environ, stderr=subprocess.DEVNULL)
        except (CellExecutionError, DeadKernelError) as error:
            raise CourseError(f"A cell failed: {error}") from error
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
    notebook.metadata["language_info"] = dict(METADATA["language_info"])


def _refuse_unstable(notebook: NotebookNode, where: str) -> None:
    """Raise CourseError for an output that would differ in the next run."""
    for index, cell in enumerate(notebook.cells):
        place = f"{where}, cell {index}"
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise CourseError(f"{place} writes to stderr: {output['text'].strip()[:300]}")
            data = output.get("data", {})
            shown = {kind: text for kind, text in data.items() if kind != "text/html"}
            if match := UNSTABLE.search(f"{output.get('text', '')} {shown}"):
                raise CourseError(f"{place} shows {match[0]!r}, which differs from run to run.")


def out_of_sync(solutions: Path = SOLUTIONS, notebooks: Path = NOTEBOOKS) -> list[str]:
    """Where notebooks/ is not what solutions/ gives, or a source breaks the contract: sentences.

    Compares texts, ids and tags, and that each code cell was run; runs nothing.
    """
    sources = {path.stem: path for path in lesson_sources(solutions)}
    sentences = [
        f"notebooks/{path.name} has no source in solutions/: delete it, or add {path.stem}.py."
        for path in sorted(notebooks.glob("*.ipynb"))
        if path.stem not in sources
    ]
    for stem, source in sources.items():
        sentences += source_rules.problems(source)
        path, name = notebooks / f"{stem}.ipynb", f"notebooks/{stem}.ipynb"
        if path.is_file():
            sentences += [f"{name} {problem}" for problem in _differences(derive(source), path)]
        else:
            sentences.append(f"{name} is missing: run `course notebooks {stem[:2]}`.")
    return sentences


def _differences(derived: NotebookNode, path: Path) -> list[str]:
    """How the notebook in a file differs from the one that its source gives."""
    committed = nbformat.read(path, as_version=4)
    again = "run `course notebooks`, and edit solutions/ alone"
    ours, theirs = derived.cells, committed.cells
    if len(ours) != len(theirs):
        return [f"has {len(theirs)} cells and its source has {len(ours)}: {again}."]
    differences = []
    for index, (cell, copy) in enumerate(zip(ours, theirs, strict=True)):
        if any(cell.get(key) != copy.get(key) for key in COMPARED):
            differences.append(f"differs from its source in cell {index}: {again}.")
        elif cell.cell_type == "code" and copy.execution_count is None:
            # nbval passes a cell with no reference output whatever it prints.
            differences.append(f"was never run in cell {index}: {again}.")
    return differences
