"""How long a newcomer takes for a lesson, section by section: an estimate from its source.

Reading takes time, and so do predictions, questions whose answers are folded, lines of code to be
read, and exercises. The rates were fitted to what three readers estimated for the ten lessons of
version 0.9: with their stretch exercises in the last two of them 75, 145, 150, 150, 255, 245, 445,
107, 360 and 285 minutes. The rates give 2,125 minutes in all where they gave 2,217, and each lesson
within a fifth but for the first, which was shortened since. Nobody's minutes were measured.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .folders import SOLUTIONS
from .order import EXERCISE, lesson_sources, lessons_named
from .statements import FOLD, HEADING
from .without_solutions import FROM_HERE, TO_HERE, solved

if TYPE_CHECKING:
    from nbformat import NotebookNode

WORDS_PER_MINUTE = 180
LINES_PER_MINUTE = 7
"""Lines of code that are given and read, in cells and in texts."""
MINUTES_PER_CELL = 0.25
MINUTES_PER_PREDICTION = 1.0
MINUTES_PER_FOLD = 2.0
"""For each folded text but optional ones: a question is thought about before it is unfolded."""
MINUTES_PER_EXERCISE = 5.0
MINUTES_PER_LINE = 2.0
"""For each line that an exercise's solution has between its markers."""

MOST_CORE_MINUTES = 75
"""The most that a lesson may take, without its stretch exercises: one sitting."""

STEP = 5
"""The table's minutes are multiples of this, but for sections that are shorter than one and a
half."""

TABLE = "| section | about minutes |"
ENDS = "Beginning and end"
"""The row of the table for a lesson's head, with its questions, and for what is behind its
sections."""
OPTIONAL = ("Hint", "For the curious")
"""How the summaries of folds begin that few open."""
UNTIMED = ("On your own", "Further reading")
"""Sections that few do."""
BEHIND = ("In practice", "What you can do now")

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PREDICTION = re.compile(r"\*\*Predict")
FROM_HERE_ANYWHERE = re.compile(FROM_HERE.pattern, re.MULTILINE)
MARKUP = re.compile(r"<[^>]+>|^\|?[-| ]+$", re.MULTILINE)


@dataclass
class Section:
    """A section of a lesson, with the minutes that a newcomer takes for it."""

    title: str
    core: float = 0.0
    stretch: float = 0.0


def sections(notebook: "NotebookNode") -> list[Section]:
    """The sections of a solved lesson, in order; last, under ENDS, its head and its end."""
    timed: list[Section] = []
    now = ends = Section(ENDS)
    stretch_cells = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            _add(now, _code_minutes(cell.source), stretch_cells > 0)
            stretch_cells = max(0, stretch_cells - 1)
            continue
        for title, text in _by_section(_without_optional(cell.source)):
            if title in (*BEHIND, *UNTIMED):
                now = ends
            elif title:
                now = Section(title)
                timed.append(now)
            exercise = HEADING.search(text)
            if exercise and exercise[3] == "stretch":
                stretch_cells = 2  # the stub and the check that follow
            if title not in UNTIMED:
                _add(now, _reading_minutes(text), stretch_cells > 0)
    return [*timed, ends]


def _by_section(text: str) -> Iterator[tuple[str, str]]:
    """A cell's text as (section's title, text); first what goes on from before, with no title."""
    before, *parts = SECTION.split(text)
    yield "", before
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        yield title.strip(), body


def _add(section: Section, minutes: float, is_stretch: bool) -> None:
    if is_stretch:
        section.stretch += minutes
    else:
        section.core += minutes


def _without_optional(text: str) -> str:
    """A text without the folds that few readers open; a folded table asks nothing."""

    def kept(fold: re.Match[str]) -> str:
        opened = fold[2] if TABLE in fold[2] else fold[0]
        return "" if fold[1].startswith(OPTIONAL) else opened

    return FOLD.sub(kept, text)


def _reading_minutes(text: str) -> float:
    words = len(MARKUP.sub(" ", FENCED.sub("", text)).split())
    lines = sum(block.count("\n") - 1 for block in FENCED.findall(text))
    predictions, folds = len(PREDICTION.findall(text)), len(FOLD.findall(text))
    asked = MINUTES_PER_PREDICTION * predictions + MINUTES_PER_FOLD * folds
    minutes: float = words / WORDS_PER_MINUTE + lines / LINES_PER_MINUTE + asked
    return minutes


def _code_minutes(text: str) -> float:
    lines = text.split("\n")
    minutes = MINUTES_PER_CELL + (MINUTES_PER_EXERCISE if EXERCISE.match(lines[0]) else 0)
    inside = False
    for line in lines:
        inside = inside and not TO_HERE.match(line)
        if line.strip() and not line.startswith("check("):
            minutes += MINUTES_PER_LINE if inside else 1 / LINES_PER_MINUTE
        inside = inside or bool(FROM_HERE.match(line))
    return minutes


@dataclass
class ExerciseTime:
    """The minutes that a newcomer takes for an exercise, and where it stands."""

    section: Section
    minutes: float = 0.0
    """For its statement, its lines and its check; hints are not counted."""
    lines: int = 0
    """What its solution adds to the stub."""


def exercise_times(notebook: "NotebookNode") -> dict[str, ExerciseTime]:
    """The exercises of a solved lesson by name, in the order in which they stand there."""
    titles = {section.title: section for section in sections(notebook)}
    times: dict[str, ExerciseTime] = {}
    section = None
    for cell, stub, checked in zip(
        notebook.cells, notebook.cells[1:], notebook.cells[2:], strict=False
    ):
        for title in SECTION.findall(cell.source) if cell.cell_type == "markdown" else ():
            section = titles.get(title.strip(), section)
        heading = HEADING.search(cell.source)
        marker = EXERCISE.match(stub.source.split("\n")[0])
        if heading and section and marker:
            minutes = _reading_minutes(cell.source[heading.start() :])
            minutes += _code_minutes(stub.source) + _code_minutes(checked.source)
            lines = sum(map(int, FROM_HERE_ANYWHERE.findall(stub.source)))
            times[marker[1]] = ExerciseTime(section, minutes, lines)
    return times


def rounded(minutes: float) -> int:
    """Minutes for the table: the nearest multiple of STEP or, where they are few, as they are."""
    return STEP * round(minutes / STEP) if minutes >= 1.5 * STEP else max(1, round(minutes))


def core_minutes(notebook: "NotebookNode") -> int:
    """The minutes of a solved lesson without its stretch exercises, as its table adds them up."""
    return sum(rounded(section.core) for section in sections(notebook))


def table(notebook: "NotebookNode") -> str:
    """The table of minutes for a lesson's head, in Markdown."""
    timed = sections(notebook)
    rows = [(section.title, rounded(section.core)) for section in timed]
    rows.append(("**Together, an estimate**", core_minutes(notebook)))
    if stretch := sum(section.stretch for section in timed):
        rows.append(("Stretch exercises, for those with time left", rounded(stretch)))
    return "\n".join([TABLE, "|---|---|", *(f"| {title} | {minutes} |" for title, minutes in rows)])


def problems(notebook: "NotebookNode") -> Iterator[str]:
    """What is wrong with a lesson's table of minutes and its length: sentences.

    Lessons whose table has another heading are asked for nothing.
    """
    head = notebook.cells[0].source if notebook.cells else ""
    if TABLE not in head:
        return
    right = table(notebook)
    if not f"{head}\n".count(f"{right}\n"):
        yield f"the table of minutes at its head must be:\n{right}"
    if (minutes := core_minutes(notebook)) > MOST_CORE_MINUTES:
        yield (
            f"it takes about {minutes} minutes without its stretch exercises, and at most "
            f"{MOST_CORE_MINUTES} are allowed: cut it in two."
        )


def report(lessons: list[str], solutions: Path = SOLUTIONS) -> list[str]:
    """For these lessons, as "01" (all if none is named): the table to paste.

    Raises CourseError where there is no such lesson.
    """
    return [table(solved(source)) for source in lessons_named(lessons, lesson_sources(solutions))]
