"""The ways through the course, from what the lessons say: which sections each takes, and how long
they are.

Under a section's heading a lesson has a line as *Routes: one day, all*, and at its head a table of
minutes per section.
"""

import re
from dataclasses import dataclass, field

ROUTES = ("three hours", "one day", "all")
SECTION = re.compile(r"^## (?P<title>.+)\n+(?:\*Routes: (?P<routes>[^*\n]+)\*)?", re.MULTILINE)
TABLE = re.compile(
    r"^\|[^|\n]+\| *(?:about )?minutes *\|\n\|[-:| ]+\|\n((?:\|.*\n?)+)", re.MULTILINE
)
ROW = re.compile(r"^\| *(?P<title>[^|\n]+?) *\| *(?P<minutes>\d+) *\|$", re.MULTILINE)


@dataclass
class Lesson:
    """A lesson's sections."""

    title: str
    page: str
    minutes: dict[str, int] = field(default_factory=dict)
    """By section, as the lesson's own table has them."""
    routes: dict[str, set[str]] = field(default_factory=dict)
    """The sections that each route takes."""

    @property
    def is_tagged(self) -> bool:
        return bool(self.routes)

    def minutes_of(self, route: str) -> int:
        """The minutes that a route takes in this lesson."""
        if route == "all":
            return sum(self.minutes.values())
        sections = self.routes.get(route, set())
        return sum(self.minutes.get(section, 0) for section in sections)


def lesson_of(markdown: str, page: str) -> Lesson:
    """A lesson by the text of its Markdown cells."""
    title = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    lesson = Lesson(title[1] if title else page, page)
    for section in SECTION.finditer(markdown):
        for route in (section["routes"] or "").split(","):
            if route.strip():
                lesson.routes.setdefault(route.strip(), set()).add(section["title"].strip())
    if rows := TABLE.search(markdown):
        minutes = {row["title"]: int(row["minutes"]) for row in ROW.finditer(rows[1])}
        lesson.minutes = {title: minutes[title] for title in minutes if "**" not in title}  # a sum
    return lesson


def table(lessons: list[Lesson]) -> str:
    """Minutes of each lesson on each route, in Markdown. A route that no lesson speaks of has no
    column."""
    shown = [route for route in ROUTES if any(route in lesson.routes for lesson in lessons)]
    shown = shown if "all" in shown else [*shown, "all"]
    rows = [["lesson", *shown], ["---", *["--:"] * len(shown)]]
    for lesson in lessons:
        minutes = [lesson.minutes_of(route) for route in shown]
        cells = [str(each) if each else "" for each in minutes]
        rows.append([f"[{lesson.title}]({lesson.page})", *cells])
    sums = [sum(lesson.minutes_of(route) for lesson in lessons) for route in shown]
    rows.append(["together", *map(_hours, sums)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _hours(minutes: int) -> str:
    """Minutes as people say them, to the quarter of an hour."""
    quarters = round(minutes / 15)
    hours, rest = divmod(quarters, 4)
    return f"{hours}{('', '¼', '½', '¾')[rest]} h" if hours else f"{minutes} min"
