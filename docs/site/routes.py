"""The parts of the course with their notebooks and minutes, and the ways through it, as tables."""

import re
from itertools import groupby
from pathlib import Path

from course.lessons.folders import SOLUTIONS
from course.lessons.order import lesson_sources, numbers, part_of

TITLE = re.compile(r"^# # \d\d · (.+)$", re.MULTILINE)
MINUTES = re.compile(r"^# \| \*\*Together, an estimate\*\* \| (\d+) \|$", re.MULTILINE)


def parts(folder: str, solutions: Path = SOLUTIONS) -> str:
    """A row for each part: its notebooks, with links into `folder`, and their minutes together."""
    by_name = numbers(solutions)
    rows = ["| part | notebooks, with minutes | together |", "|---|---|--:|"]
    sources = lesson_sources(solutions)
    for part, of_part in groupby(sources, lambda source: part_of(source.stem[:2], by_name)):
        listed, together = [], 0
        for source in of_part:
            minutes = minutes_of(source)
            link = f"[{source.stem[:2]} {_title(source)}]({folder}/{source.stem}.ipynb)"
            listed.append(f"{link} {minutes}")
            together += minutes
        rows.append(f"| {part} | {' · '.join(listed)} | {hours(together)} |")
    return "\n".join(rows)


def minutes_of(source: Path) -> int:
    """The minutes that the table at a lesson's head adds up to; 0 where there is no such table."""
    found = MINUTES.search(source.read_text(encoding="utf-8"))
    return int(found[1]) if found else 0


def _title(source: Path) -> str:
    found = TITLE.search(source.read_text(encoding="utf-8"))
    return found[1] if found else source.stem[3:]


def hours(minutes: int) -> str:
    """Minutes as people say them, to the quarter of an hour."""
    quarters = round(minutes / 15)
    whole, rest = divmod(quarters, 4)
    return f"{whole}{('', '¼', '½', '¾')[rest]} h" if whole else f"{minutes} min"
