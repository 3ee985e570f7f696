"""What a lesson says of its exercises: title, stub and hints, read from the readers' notebooks."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .folders import NOTEBOOKS
from .order import EXERCISE, numbers

HEADING = re.compile(r"^### Exercise (\S+) · (.+) \((core|stretch)\)$", re.MULTILINE)
FOLD = re.compile(
    r"^<details>\n<summary>([^\n]+)</summary>\n\n(.+?)\n\n</details>$", re.MULTILINE | re.DOTALL
)
"""Text that is folded under its summary: Markdown between blank lines, so that every viewer of
notebooks renders it."""


@dataclass(frozen=True)
class Statement:
    """An exercise as its lesson states it."""

    name: str
    """As "first-kernel"; it never changes."""
    number: str
    """As "00.1": its place in the course."""
    title: str
    core: bool
    """What everybody should do; the rest is for those with time left."""
    stub: str
    """The code cell that the answer is written into, unsolved."""
    checked: str
    """What the lesson gives to `check`, as "subtract_kernel"."""
    hints: tuple[str, ...]


def statements(notebooks: Path = NOTEBOOKS, lesson: str = "[0-9][0-9]") -> dict[str, Statement]:
    """The statement of every exercise by its name, in order; of one lesson where its number is
    given."""
    by_name: dict[str, Statement] = {}
    for path in sorted(notebooks.glob(f"{lesson}-*.ipynb")):
        by_name |= _statements_in(path)
    return by_name


def _statements_in(path: Path) -> dict[str, Statement]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    return {statement.name: statement for statement in read(cells)}


def statement_of(exercise_name: str) -> Statement | None:
    """The statement of the exercise of this name, as "first-kernel"; looks into its own lesson
    alone."""
    number = numbers().get(exercise_name, "")
    return statements(lesson=number[:2]).get(exercise_name) if number else None


def read(cells: list[tuple[str, str]]) -> list[Statement]:
    """The exercises of a lesson, from its cells as (type, text).

    The four cells of an exercise lie side by side: statement, stub, check and hints.
    """
    exercises = []
    texts = [text for _, text in cells]
    for statement, stub, check, hints in zip(texts, texts[1:], texts[2:], texts[3:], strict=False):
        heading, marker = HEADING.search(statement), EXERCISE.match(stub.split("\n")[0])
        if heading and marker:
            folds = [
                " ".join(text.split())
                for number, (summary, text) in enumerate(FOLD.findall(hints), start=1)
                if summary == f"Hint {number}"
            ]
            core = heading[3] == "core"
            checked = check.partition(", ")[2].removesuffix(")")
            exercises.append(
                Statement(marker[1], heading[1], heading[2], core, stub, checked, tuple(folds))
            )
    return exercises
