"""How long a newcomer takes for a lesson, section by section: an estimate from its source.

Four things take time: reading the text, running a cell and making sense of what it prints, finding
out what an exercise asks, and writing its lines. The rates are calibrated by lessons 00 to 03 of
version 0.2, which were judged to take a newcomer 45, 120, 105 and 90 minutes: they come to 45, 120,
110 and 85. Nobody's minutes were measured. A cell's minute holds the machine's time as well: a cell
of lessons 04 and 05 took 6 to 7 s on average in CPU mode, on two cores with much else to do.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .source import EXERCISE, FROM_HERE, SOLUTIONS, TO_HERE, lesson_sources, lessons_named, solved
from .statements import FOLD, HEADING

if TYPE_CHECKING:
    from nbformat import NotebookNode

WORDS_PER_MINUTE = 180
MINUTES_PER_CELL = 1.0
MINUTES_PER_EXERCISE = 3.0
MINUTES_PER_LINE = 2.0
"""For each line that an exercise's solution has between its markers."""

MOST_CORE_MINUTES = 75
"""The most that the core of a sitting may take, without its stretch exercises."""

STEP = 5
"""The table's minutes are multiples of this, but for sections that are shorter than one and a
half."""

TABLE = "| section | about minutes |"
UNTIMED = ("On your own", "In practice", "Further reading", "What you can do now")
"""Sections behind the lesson proper."""

ROUTES = ("three hours, one day, all", "one day, all", "all")
SITTING = re.compile(r"Sitting (\d+)\b")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
ROUTES_LINE = re.compile(r"\*Routes: ([^*]*)\*")
FROM_HERE_ANYWHERE = re.compile(FROM_HERE.pattern, re.MULTILINE)
MARKUP = re.compile(r"<[^>]+>|^\*Routes:.*$|^\|?[-| ]+$", re.MULTILINE)


@dataclass
class Section:
    """A section of a lesson, with the minutes that a newcomer takes for it."""

    title: str
    sitting: int
    routes: str | None
    """Which ways through the course take it, as its line says; None where it has no such line."""
    core: float = 0.0
    stretch: float = 0.0


def sections(notebook: "NotebookNode") -> list[Section]:
    """The sections of a solved lesson, in order, without its head and what comes behind it."""
    timed: list[Section] = []
    now: Section | None = None
    sitting, stretch_cells = 1, 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            if now:
                _add(now, _code_minutes(cell.source), stretch_cells > 0)
            stretch_cells = max(0, stretch_cells - 1)
            continue
        for title, text in _by_section(_without_hints(cell.source)):
            if match := SITTING.match(title):
                sitting = int(match[1])
            elif title in UNTIMED:
                now = None
            elif title:
                line = ROUTES_LINE.match(text.strip())
                now = Section(title, sitting, line[1] if line else None)
                timed.append(now)
            exercise = HEADING.search(text)
            if exercise and exercise[3] == "stretch":
                stretch_cells = 2  # the stub and the check that follow
            if now and not SITTING.match(title):
                _add(now, _reading_minutes(text), stretch_cells > 0)
    return timed


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


def _without_hints(text: str) -> str:
    """A text without its folded hints, which few readers open; answers stay."""
    return FOLD.sub(lambda fold: "" if fold[1].startswith("Hint") else fold[2], text)


def _reading_minutes(text: str) -> float:
    return len(MARKUP.sub(" ", text).split()) / WORDS_PER_MINUTE


def _code_minutes(text: str) -> float:
    lines = text.split("\n")
    minutes = MINUTES_PER_CELL + (MINUTES_PER_EXERCISE if EXERCISE.match(lines[0]) else 0)
    inside = False
    for line in lines:
        inside = inside and not TO_HERE.match(line)
        minutes += MINUTES_PER_LINE if inside and line.strip() else 0
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
    """The exercises of a solved lesson by id, in the order in which they stand there."""
    titles = {section.title: section for section in sections(notebook)}
    times: dict[str, ExerciseTime] = {}
    section = None
    for cell, stub, checked in zip(
        notebook.cells, notebook.cells[1:], notebook.cells[2:], strict=False
    ):
        for title in SECTION.findall(cell.source) if cell.cell_type == "markdown" else ():
            section = titles.get(title.strip(), section)
        heading = HEADING.search(cell.source)
        if heading and section and EXERCISE.match(stub.source.split("\n")[0]):
            minutes = _reading_minutes(cell.source[heading.start() :])
            minutes += _code_minutes(stub.source) + _code_minutes(checked.source)
            lines = sum(map(int, FROM_HERE_ANYWHERE.findall(stub.source)))
            times[heading[1]] = ExerciseTime(section, minutes, lines)
    return times


def rounded(minutes: float) -> int:
    """Minutes for the table: the nearest multiple of STEP or, where they are few, as they are."""
    return STEP * round(minutes / STEP) if minutes >= 1.5 * STEP else max(1, round(minutes))


def table(notebook: "NotebookNode") -> str:
    """The table of minutes for a lesson's head, in Markdown."""
    timed = sections(notebook)
    rows = [(section.title, rounded(section.core)) for section in timed]
    if stretch := sum(section.stretch for section in timed):
        rows.append(("Stretch exercises", rounded(stretch)))
    rows.append(("**All, an estimate**", sum(minutes for _, minutes in rows)))
    return "\n".join([TABLE, "|---|---|", *(f"| {title} | {minutes} |" for title, minutes in rows)])


def sittings(notebook: "NotebookNode") -> dict[int, float]:
    """The core minutes of each sitting, by its number from 1."""
    minutes: dict[int, float] = {}
    for section in sections(notebook):
        minutes[section.sitting] = minutes.get(section.sitting, 0) + section.core
    return minutes


def problems(notebook: "NotebookNode") -> Iterator[str]:
    """What is wrong with a lesson's table of minutes, its sittings and its routes: sentences.

    Lessons whose table has another heading are asked for nothing of the first two.
    """
    head = notebook.cells[0].source if notebook.cells else ""
    if TABLE in head:
        right = table(notebook)
        if not f"{head}\n".count(f"{right}\n"):
            yield f"the table of minutes at its head must be:\n{right}"
        for sitting, minutes in sittings(notebook).items():
            if minutes > MOST_CORE_MINUTES:
                yield (
                    f"the core of sitting {sitting} takes about {minutes:.0f} minutes, and at most "
                    f"{MOST_CORE_MINUTES} are allowed: put a '## Sitting {sitting + 1}' in it, or "
                    "cut."
                )
    yield from _routes_problems(sections(notebook))


def _routes_problems(timed: list[Section]) -> Iterator[str]:
    if all(section.routes is None for section in timed):
        return
    allowed = ", ".join(f"'*Routes: {routes}*'" for routes in ROUTES)
    for section in timed:
        if section.routes not in ROUTES:
            yield f"under '## {section.title}' must stand one of {allowed}."


def report(lessons: list[str], solutions: Path = SOLUTIONS) -> list[str]:
    """For these lessons, as "01" (all if none is named): the table to paste, and each sitting.

    Raises CourseError where there is no such lesson.
    """
    sources = lessons_named(lessons, lesson_sources(solutions))
    return [_report_of(solved(source)) for source in sources]


def _report_of(notebook: "NotebookNode") -> str:
    lines = [
        f"Sitting {sitting}: {minutes:.0f} minutes of core, of at most {MOST_CORE_MINUTES}."
        for sitting, minutes in sittings(notebook).items()
    ]
    return "\n".join([table(notebook), "", *lines])
