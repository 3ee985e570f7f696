"""What a lesson says of its exercises: title, stub and hints, read from the notebooks that readers get."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .source import EXERCISE, NOTEBOOKS

HEADING = re.compile(r"^### Exercise (\d\d\.\d+) · (.+) \((core|stretch)\)$", re.MULTILINE)
HINTS = re.compile(r"<details>\s*<summary>Hints?</summary>(.*)</details>", re.DOTALL)
ITEM = re.compile(r"^\d+\. ", re.MULTILINE)


@dataclass(frozen=True)
class Statement:
    """An exercise as its lesson states it."""

    id: str
    title: str
    core: bool
    """What everybody should do; the rest is for those with time left."""
    stub: str
    """The code cell that the answer is written into, unsolved."""
    hints: tuple[str, ...]


def statements(notebooks: Path = NOTEBOOKS) -> dict[str, Statement]:
    """The statement of every exercise by its id, in order."""
    found: dict[str, Statement] = {}
    for path in sorted(notebooks.glob("[0-9][0-9]-*.ipynb")):
        cells = [
            (cell["cell_type"], "".join(cell["source"]))
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        ]
        found |= {each.id: each for each in read(cells)}
    return found


def read(cells: list[tuple[str, str]]) -> list[Statement]:
    """The exercises of a lesson, from its cells as (type, text). The four cells of each lie side by side."""
    found = []
    for (_, statement), (_, stub), _, (_, hints) in zip(
        cells, cells[1:], cells[2:], cells[3:], strict=False
    ):
        heading, first_line = HEADING.search(statement), EXERCISE.match(stub.split("\n")[0])
        if heading and first_line and heading[1] == first_line[1]:
            folded = HINTS.search(hints)
            items = (
                tuple(" ".join(item.split()) for item in ITEM.split(folded[1])[1:])
                if folded
                else ()
            )
            found.append(Statement(heading[1], heading[2], heading[3] == "core", stub, items))
    return found
