"""The pages for whoever teaches a lesson, written from what the lesson and its exercises say.

Minutes and routes come from the lesson, wrong answers from `course.exercises.answers`, and why a
section is there from docs/teaching/sections.toml. So a page is out of date exactly when
`course teaching --check` says so.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course.errors import CourseError
from course.files import write_whole
from course.lessons.folders import ROOT
from course.lessons.minutes import ExerciseTime, Section, exercise_times, rounded, sections
from course.lessons.order import ROUTES, lesson_sources, numbered, numbers, part_of
from course.lessons.statements import Statement, read
from course.lessons.without_solutions import solved

from .answers import mistakes

FOLDER = ROOT / "docs" / "teaching"
NOTES = FOLDER / "sections.toml"
PLANS = FOLDER / "plans.md"
WRITTEN = "<!-- `course teaching` writes this page: change the lesson or sections.toml. -->"
MISTAKES = ("usual wrong answer", "`check` says", "what they believe, and what to say")
WORKSHOPS = {"an evening": "Half a day", "a long day": "A day"}
"""route -> what a workshop on it is called"""

BREAK_AFTER_MIN = 75
"""A plan names a break where so many minutes have passed since the last one."""


@dataclass(frozen=True)
class Note:
    """What a leader is told of a section."""

    why: str
    skip: str
    """What may be left out, and what then has to be said in its place."""


@dataclass(frozen=True)
class Taught:
    """A lesson as its leader sees it."""

    name: str
    """As "01-vector-add"."""
    title: str
    sections: list[Section]
    exercises: dict[str, ExerciseTime]
    statements: dict[str, Statement]

    @property
    def number(self) -> str:
        return self.name[:2]

    @property
    def core(self) -> list[str]:
        """The names of its core exercises."""
        return [name for name in self.exercises if self.statements[name].core]


def pages() -> dict[Path, str]:
    """Every page for teachers, by its path."""
    lessons = [_taught(source) for source in lesson_sources()]
    notes = read_notes()
    texts = {
        FOLDER / f"{lesson.name}.md": "\n".join(_page(lesson, notes.get(lesson.name[3:], {})))
        + "\n"
        for lesson in lessons
    }
    return texts | {PLANS: "\n".join(_plans(lessons)) + "\n"}


def write() -> list[Path]:
    """Write the pages that differ from what they must be; return their paths."""
    changed = _outdated()
    for path, text in changed.items():
        write_whole(path, text)
    return list(changed)


def problems() -> list[str]:
    """Which pages are not what the lessons give, in sentences."""
    again = "is out of date: run `course teaching`."
    return [f"{path.relative_to(ROOT)} {again}" for path in _outdated()]


def lost_notes() -> list[str]:
    """Notes in sections.toml of which no lesson has the section, in sentences."""
    titles = {
        lesson.name[3:]: {section.title for section in lesson.sections}
        for lesson in map(_taught, lesson_sources())
    }
    return [
        f"{NOTES.name} has a note on {title!r}, and lesson {number} no such section."
        for number, notes in read_notes().items()
        for title in notes
        if title not in titles.get(number, ())
    ]


def read_notes(path: Path = NOTES) -> dict[str, dict[str, Note]]:
    """The notes by lesson and section. Raises CourseError where the file is not as it must be."""
    try:
        tables = tomllib.loads(numbered(path.read_text(), numbers()))
        return {
            lesson: {title: Note(**note) for title, note in notes.items()}
            for lesson, notes in tables.items()
        }
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise CourseError(
            f"{path.name} cannot be read ({error}): a note has a lesson, a section, `why` and"
            " `skip`."
        ) from error


def _outdated() -> dict[Path, str]:
    """path -> what must stand there, and does not"""
    return {
        path: text
        for path, text in pages().items()
        if not path.exists() or path.read_text() != text
    }


def _taught(source: Path) -> Taught:
    notebook = solved(source)
    title = notebook.cells[0].source.split("\n")[0].removeprefix("# ")
    cells = [(cell.cell_type, cell.source) for cell in notebook.cells]
    stated = {statement.name: statement for statement in read(cells)}
    return Taught(source.stem, title, sections(notebook), exercise_times(notebook), stated)


def _page(lesson: Taught, notes: dict[str, Note]) -> Iterator[str]:
    yield f"# Teaching {lesson.title}"
    yield from ("", WRITTEN, "")
    yield (
        f"[The lesson](../../notebooks/{lesson.name}.ipynb), "
        f"[its solution](../../solutions/{lesson.name}.py). Minutes are estimates for somebody to "
        "whom this is new; a section's are without its stretch exercises."
    )
    yield from ("", "## Sections", "")
    yield from _head("section", "minutes", "why it is here", "what may be skipped")
    for section in lesson.sections:
        note = notes.get(section.title, Note("", ""))
        yield _row(section.title, str(rounded(section.core)), note.why, note.skip)
    yield from ("", "## Exercises")
    for exercise, time in lesson.exercises.items():
        statement = lesson.statements[exercise]
        kind = "core" if statement.core else "stretch"
        lines = f", {time.lines} line{'s' * (time.lines != 1)} to write" if time.lines else ""
        yield from ("", f"### {statement.number} · {statement.title}", "")
        yield (
            f"`{exercise}`: {kind}, about {rounded(time.minutes)} minutes{lines}, "
            f"{len(statement.hints)} hints, in *{time.section.title}*."
        )
        yield ""
        yield from _head(*MISTAKES)
        for mistake in mistakes(exercise):
            says = f"{mistake.verdict}: … {mistake.says} …" if mistake.says else mistake.verdict
            yield _row(mistake.name, says, mistake.means)


def _head(*columns: str) -> tuple[str, str]:
    """The two lines with which a Markdown table begins."""
    return _row(*columns), "|" + "---|" * len(columns)


def _row(*cells: str) -> str:
    """A row of a Markdown table; what would end a cell or the row is escaped or left out."""
    texts = (" ".join(cell.replace("|", r"\|").split()) for cell in cells)
    return f"| {' | '.join(texts)} |"


def _plans(lessons: list[Taught]) -> Iterator[str]:
    yield "# Plans for a workshop"
    yield from ("", WRITTEN, "")
    yield (
        "The minutes are those of learners who read by themselves and do the core exercises; "
        f"they add up without breaks. A break is named where {BREAK_AFTER_MIN} minutes have "
        "passed since the last one."
    )
    for route, name in WORKSHOPS.items():
        rows = [
            (lesson, section)
            for lesson in lessons
            if lesson.name[3:] in ROUTES[route]
            for section in lesson.sections
        ]
        total = sum(rounded(section.core) for _, section in rows)
        yield from ("", f"## {name}: the route *{route}*, about {_hours(total)}", "")
        yield from _head("from", "lesson", "section", "minutes", "core exercises")
        yield from _plan_rows(rows)
    yield from ("", "## Everything, for a term or a reading group", "")
    yield from _head("part", "lesson", "minutes of core", "minutes of stretch", "core exercises")
    by_name = numbers()
    for lesson in lessons:
        core = sum(rounded(section.core) for section in lesson.sections)
        stretch = sum(section.stretch for section in lesson.sections)
        counts = core, rounded(stretch) if stretch else 0, len(lesson.core)
        yield _row(part_of(lesson.number, by_name), lesson.title, *map(str, counts))


def _plan_rows(rows: list[tuple[Taught, Section]]) -> Iterator[str]:
    clock = since_break = 0
    for lesson, section in rows:
        minutes = rounded(section.core)
        if since_break and since_break + minutes > BREAK_AFTER_MIN:
            yield _row("", "", "*a break*", "", "")
            since_break = 0
        here = [name for name in lesson.core if lesson.exercises[name].section == section]
        numbers = ", ".join(lesson.statements[name].number for name in here)
        yield _row(_hours(clock), lesson.number, section.title, str(minutes), numbers)
        clock, since_break = clock + minutes, since_break + minutes


def _hours(minutes: int) -> str:
    """As "1:05"."""
    return f"{minutes // 60}:{minutes % 60:02d}"
