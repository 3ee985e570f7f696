"""Read a lesson's source, solutions/NN-name.py, and derive the notebook that a reader gets.

The source is the solved lesson in the py:percent format. An exercise is a code cell that begins
with `# exercise its-name`; in it, the lines between these two comments are the solution and are
left out of the notebook:

    # about 3 lines from here
    ...
    # to here

Both comments stay, so solving an exercise only ever adds lines.
"""

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from course.errors import CourseError

from .order import numbered, numbers

if TYPE_CHECKING:
    from nbformat import NotebookNode

FROM_HERE = re.compile(r"\s*# about (\d+) lines? from here$")
TO_HERE = re.compile(r"\s*# to here$")
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
}


def solved(source: Path) -> "NotebookNode":
    """The lesson as a notebook with its solutions and its numbers, without outputs."""
    import jupytext  # these two take seconds, which `course lab` need not spend
    import nbformat

    notebook: NotebookNode = jupytext.reads(source.read_text(), fmt="py:percent")
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    by_name = numbers(source.parent)
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        # From the text without numbers, so that an id changes with its own cell alone.
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            cell.source = numbered(cell.source, by_name)
    return notebook


def derive(source: Path) -> "NotebookNode":
    """The lesson as a reader finds it: the solved one without its solutions, without outputs.

    Raises CourseError where a marker has no counterpart.
    """
    notebook = solved(source)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = stub(cell.source, source.name)
    return notebook


def stub(text: str, where: str = "a cell") -> str:
    """The text of a code cell without the lines between its markers."""
    begin, end = "'# about N lines from here'", "'# to here'"
    kept, inside = [], False
    for line in text.split("\n"):
        if TO_HERE.match(line):
            if not inside:
                raise CourseError(f"{where}: {end} stands without {begin} before it.")
            inside = False
        if not inside:
            kept.append(line)
        if FROM_HERE.match(line):
            if inside:
                raise CourseError(f"{where}: {begin} stands twice without {end} between.")
            inside = True
    if inside:
        raise CourseError(f"{where}: {begin} stands without {end} after it.")
    return "\n".join(kept)
