"""What every lesson keeps to, checked on its source without running it.

1. A stub lacks only lines that its solution has, and parses.
2. The number of lines a stub asks for is the solution's, give or take a third.
3. Exercises are numbered NN.1, NN.2, … with NN the lesson's number, and only exercises have solution markers.
4. An exercise is four cells: a statement under `### Exercise NN.k · Title (core)` or `(stretch)`, the stub, a
   `check("NN.k", answer)`, and folded hints, numbered from 1.
5. Tags are ones that something reads: a misspelt tag would be ignored in silence.
6. Code cells are short and narrow, and install nothing and change no path.
7. A lesson opens with its title.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from course.errors import CourseError

from .source import EXERCISE, FROM_HERE, TO_HERE, solved, stub
from .statements import read

TAGS = {"nbval-check-output", "raises-exception"}
MOST_LINES = 10
MOST_KERNEL_LINES = 40
MOST_COLUMNS = 104  # what JupyterLab shows beside its file browser without scrolling


def problems(source: Path) -> list[str]:
    """Everything in a lesson's source that breaks the contract, a sentence each."""
    notebook = solved(source)
    number = source.name[:2]
    found = [f"{source.name}: {problem}" for problem in _lesson_problems(notebook, number)]
    for index, cell in enumerate(notebook.cells):
        check = _code_problems if cell.cell_type == "code" else _tag_problems
        found += [f"{source.name}, cell {index}: {problem}" for problem in check(cell)]
    return found


def _lesson_problems(notebook: NotebookNode, number: str) -> Iterator[str]:
    if not notebook.cells or not notebook.cells[0].source.startswith("# "):
        yield "the first cell must be the title, '# …' in a markdown cell."
    ids = [
        match[1] for cell in notebook.cells if (match := EXERCISE.match(cell.source.split("\n")[0]))
    ]
    expected = [f"{number}.{k}" for k in range(1, len(ids) + 1)]
    if ids != expected:
        yield f"exercises are numbered {', '.join(ids)}; they must be {', '.join(expected)}."
    for index, cell in enumerate(notebook.cells):
        if match := EXERCISE.match(cell.source.split("\n")[0]):
            yield from _exercise_problems(match[1], notebook.cells[max(0, index - 1) : index + 3])


def _exercise_problems(exercise: str, cells: list[NotebookNode]) -> Iterator[str]:
    """cells: the four from the statement on, fewer at the end of a lesson."""
    found = read([(cell.cell_type, cell.source) for cell in cells])
    if not found or found[0].id != exercise:
        yield f"exercise {exercise} needs a statement under '### Exercise {exercise} · Title (core)' or '(stretch)' before it."
        return
    if not found[0].hints:
        yield f"exercise {exercise} needs hints two cells on: '<details><summary>Hints</summary>', '1. …', '</details>'."
    if not re.fullmatch(rf'check\("{re.escape(exercise)}", \w+\)', cells[2].source):
        yield f'exercise {exercise} needs a cell check("{exercise}", answer) after it.'


def _tag_problems(cell: NotebookNode) -> Iterator[str]:
    for tag in cell.metadata.get("tags", []):
        if tag not in TAGS:
            yield f"nothing reads the tag {tag!r}; there is {', '.join(sorted(TAGS))}."


def _code_problems(cell: NotebookNode) -> Iterator[str]:
    yield from _tag_problems(cell)
    lines = cell.source.split("\n")
    try:
        left = stub(cell.source)
    except CourseError as error:
        yield str(error)
        return
    try:
        ast.parse(left)
    except SyntaxError as error:
        yield f"the stub does not parse (line {error.lineno}): keep a line outside the markers in each block."
    if left != cell.source and not EXERCISE.match(lines[0]):
        yield "solution markers stand in a cell that does not begin with '# exercise NN.k'."
    yield from _count_problems(lines)
    most = MOST_KERNEL_LINES if "@triton.jit" in cell.source else MOST_LINES
    code = [line for line in lines if line.strip()]
    if len(code) > most:
        yield f"it has {len(code)} lines, and at most {most} are allowed: split it, or move it into course/."
    for line in lines:
        if len(line) > MOST_COLUMNS:
            yield f"a line has {len(line)} columns, and at most {MOST_COLUMNS} are allowed: {line.strip()[:40]}…"
    for forbidden in ("!pip", "%pip", "sys.path"):
        if forbidden in cell.source:
            yield f"{forbidden} does not belong in a lesson: the set-up is `make lab`."


def _count_problems(lines: list[str]) -> Iterator[str]:
    start, said = 0, 0
    for row, line in enumerate(lines):
        if match := FROM_HERE.match(line):
            start, said = row, int(match[1])
        elif TO_HERE.match(line):
            count = sum(1 for inner in lines[start + 1 : row] if inner.strip())
            if abs(count - said) > max(1, count // 3):
                yield f"the stub says about {said} lines, and the solution has {count}."
