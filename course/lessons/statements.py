"""What a lesson says of its exercises: title, stub and hints, read from the readers' notebooks."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .source import EXERCISE, NOTEBOOKS

HEADING = re.compile(r"^### Exercise (\d\d\.\d+) · (.+) \((core|stretch)\)$", re.MULTILINE)
FOLD = re.compile(
    r"^<details>\n<summary>([^\n]+)</summary>\n\n(.+?)\n\n</details>$", re.MULTILINE | re.DOTALL
)
"""Text that is folded under its summary: Markdown between blank lines, so that every viewer of
notebooks renders it."""


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


def statements(notebooks: Path = NOTEBOOKS, lesson: str = "[0-9][0-9]") -> dict[str, Statement]:
    """The statement of every exercise by its id, in order; of one lesson where it is named."""
    by_id: dict[str, Statement] = {}
    for path in sorted(notebooks.glob(f"{lesson}-*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
        by_id |= {statement.id: statement for statement in read(cells)}
    return by_id


def statement_of(exercise_id: str) -> Statement | None:
    """The statement of the exercise of this id, as "01.2"; reads its own lesson alone."""
    return statements(lesson=exercise_id[:2]).get(exercise_id)


def read(cells: list[tuple[str, str]]) -> list[Statement]:
    """The exercises of a lesson, from its cells as (type, text).

    The four cells of an exercise lie side by side: statement, stub, check and hints.
    """
    exercises = []
    texts = [text for _, text in cells]
    for statement, stub, _, hints in zip(texts, texts[1:], texts[2:], texts[3:], strict=False):
        heading, marker = HEADING.search(statement), EXERCISE.match(stub.split("\n")[0])
        if heading and marker and heading[1] == marker[1]:
            folds = [
                " ".join(text.split())
                for number, (summary, text) in enumerate(FOLD.findall(hints), start=1)
                if summary == f"Hint {number}"
            ]
            core = heading[3] == "core"
            exercises.append(Statement(heading[1], heading[2], core, stub, tuple(folds)))
    return exercises
