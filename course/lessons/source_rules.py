"""What every lesson keeps to, checked on its source without running it.

1. A stub lacks only lines that its solution has, and parses.
2. The number of lines a stub asks for is the solution's, give or take a third.
3. An exercise has a name with a hyphen in it, which no other exercise or lesson has. A name in
   braces is one of these. Only exercises have solution markers.
4. An exercise is four cells: a statement under `### Exercise {its-name} · Title (core)` or
   `(stretch)`, the stub, a `check("its-name", answer)`, and hints, each folded under `Hint k`.
5. Tags are ones that something reads: a misspelt tag would be ignored in silence.
6. Code cells are short and narrow, and install nothing and change no path. The comments that only
   mark an exercise do not count as lines.
7. A lesson opens with its title.
8. Folded text (hints, answers) has one markup, which every viewer of notebooks renders.
9. A table of minutes under `| section | about minutes |` says what course/lessons/minutes.py
   estimates, and a lesson is one sitting: at most 75 minutes without its stretch exercises.
10. A row of a table has as many cells as the table's head: viewers drop what is beyond.
11. Code in a sentence goes on in no line that viewers take for an item of a list.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from nbformat import NotebookNode

from course.errors import CourseError

from . import minutes
from .order import EXERCISE, NAMED, numbers
from .statements import FOLD, read
from .without_solutions import FROM_HERE, TO_HERE, solved, stub

TAGS = {"nbval-check-output", "raises-exception", "runs-here"}
MOST_LINES = 10
MOST_KERNEL_LINES = 40
MOST_COLUMNS = 104  # what JupyterLab shows beside its file browser without scrolling
FOLDED = "'<details>', '<summary>…</summary>', a blank line, the text, a blank line, '</details>'"
FORBIDDEN = ("!pip", "%pip", "sys.path")


def problems(source: Path) -> list[str]:
    """Everything in a lesson's source that breaks the contract, a sentence each."""
    notebook = solved(source)
    by_name = numbers(source.parent)
    sentences = [f"{source.name}: {text}" for text in _lesson_problems(notebook, by_name)]
    for index, cell in enumerate(notebook.cells):
        of_cell = _code_problems if cell.cell_type == "code" else _text_problems
        sentences += [f"{source.name}, cell {index}: {text}" for text in of_cell(cell)]
    return sentences


def _lesson_problems(notebook: NotebookNode, by_name: dict[str, str]) -> Iterator[str]:
    cells = notebook.cells
    if not cells or not cells[0].source.startswith("# "):
        yield "the first cell must be the title, '# …' in a markdown cell."
    by_index = {
        index: EXERCISE.match(cell.source.split("\n")[0]) for index, cell in enumerate(cells)
    }
    exercises = {index: match[1] for index, match in by_index.items() if match}
    for place, (index, exercise) in enumerate(exercises.items(), start=1):
        if not NAMED.fullmatch(f"{{{exercise}}}"):
            yield f"exercise {exercise!r} must be called by words with hyphens between them."
        elif by_name[exercise].partition(".")[2] != str(place):
            yield f"there are two exercises {exercise!r}: no two have one name."
        yield from _exercise_problems(
            exercise, by_name[exercise], cells[max(0, index - 1) : index + 3]
        )
    yield from minutes.problems(notebook)


def _exercise_problems(exercise: str, number: str, cells: list[NotebookNode]) -> Iterator[str]:
    """cells: the four from the statement on, fewer at the end of a lesson."""
    statements = read([(cell.cell_type, cell.source) for cell in cells])
    if not statements or statements[0].number != number:
        heading = f"'### Exercise {{{exercise}}} · Title (core)' or '(stretch)'"
        yield f"exercise {exercise} needs a statement under {heading} before it."
        return
    if not statements[0].hints:
        yield f"exercise {exercise} needs hints two cells on, the first under 'Hint 1': {FOLDED}."
    if not re.fullmatch(rf'check\("{re.escape(exercise)}", \w+\)', cells[2].source):
        yield f'exercise {exercise} needs a cell check("{exercise}", answer) after it.'


def _text_problems(cell: NotebookNode) -> Iterator[str]:
    yield from _tag_problems(cell)
    for unknown in NAMED.findall(cell.source):
        yield f"no exercise or lesson is called {unknown!r}."
    unfolded = FOLD.sub("", cell.source)
    if re.search(r"</?(details|summary)\b", unfolded):
        yield f"folded text is written as {FOLDED}, each on a line of its own."
    yield from _table_problems(cell.source)
    for paragraph in cell.source.split("\n\n"):
        for item in re.finditer(r"\n[*+-] ", "" if "```" in paragraph else paragraph):
            if paragraph[: item.start()].count("`") % 2:
                line = paragraph[item.start() + 1 :].split("\n")[0]
                yield f"code that goes on in the next line begins a list there: {line[:60]}"


def _table_problems(text: str) -> Iterator[str]:
    lines = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).split("\n")
    columns = 0
    for line, after in pairwise([*lines, ""]):
        if not line.startswith("|"):
            columns = 0
        elif re.fullmatch(r"[|: -]+", after) and not columns:
            columns = _cells(line)
        elif columns and _cells(line) != columns:
            yield f"a table has {columns} columns, and this row {_cells(line)} cells: {line[:60]}"


def _cells(row: str) -> int:
    return len(re.split(r"(?<!\\)\|", row.strip().strip("|")))


def _tag_problems(cell: NotebookNode) -> Iterator[str]:
    for tag in cell.metadata.get("tags", []):
        if tag not in TAGS:
            yield f"nothing reads the tag {tag!r}; there is {', '.join(sorted(TAGS))}."


def _code_problems(cell: NotebookNode) -> Iterator[str]:
    yield from _tag_problems(cell)
    lines = cell.source.split("\n")
    try:
        unsolved = stub(cell.source)
    except CourseError as error:
        yield str(error)
        return
    try:
        ast.parse(unsolved)
    except SyntaxError as error:
        outside = "keep a line outside the markers in each block"
        yield f"the stub does not parse (line {error.lineno}): {outside}."
    if unsolved != cell.source and not EXERCISE.match(lines[0]):
        yield "solution markers stand in a cell that does not begin with '# exercise its-name'."
    yield from _count_problems(lines)
    holds_kernel = "@triton.jit" in cell.source or "@gluon.jit" in cell.source
    yield from _size_problems(lines, MOST_KERNEL_LINES if holds_kernel else MOST_LINES)
    for forbidden in FORBIDDEN:
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


def _size_problems(lines: list[str], most_lines: int) -> Iterator[str]:
    marks = (EXERCISE, FROM_HERE, TO_HERE)
    marked = [line for line in lines if any(mark.match(line) for mark in marks)]
    count = sum(1 for line in lines if line.strip()) - len(marked)
    if count > most_lines:
        instead = "split it, or move it into course/"
        yield f"it has {count} lines, and at most {most_lines} are allowed: {instead}."
    for line in lines:
        if len(line) > MOST_COLUMNS:
            limit = f"and at most {MOST_COLUMNS} are allowed"
            yield f"a line has {len(line)} columns, {limit}: {line.strip()[:40]}…"
