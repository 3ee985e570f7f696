"""Which notebooks there are, in what order, and the numbers that follow from it.

A notebook and an exercise have names that never change, and numbers that follow from where they
stand. Where a source speaks of one, it writes its name in braces, as {first-kernel}, and a reader
finds its number there.
"""

import re
from pathlib import Path

from course.errors import CourseError

from .folders import SOLUTIONS

EXERCISE = re.compile(r"# exercise ([a-z0-9-]+)$")
"""The first line of an exercise's code cell."""
EXERCISES = re.compile(EXERCISE.pattern, re.MULTILINE)
NAMED = re.compile(r"\{([a-z0-9]+(?:-[a-z0-9]+)+)\}")
"""A name in braces. Every name has a hyphen, so that `{x}` in a text stays what it is."""

PARTS = {
    "First kernels": "your-first-kernel",
    "What became of it": "who-holds-what",
    "Softmax": "softmax-of-a-row",
    "Tensor cores": "matrix-product",
    "Flash attention": "one-tile-of-keys",
    "Without Python": "ahead-of-time",
    "Your own kernels": "when-it-is-slow",
    "Below tl": "gluon-copies",
    "Training": "attention-gradient",
}
"""part of the course -> the lesson that it begins with"""

EVENING = ("your-first-kernel", "vector-add", "three-in-one")
ROUTES = {
    "an evening": EVENING,
    "a long day": (*EVENING, "two-dimensions", "neighbors-in-memory", "programs-that-share"),
}
"""way through the course -> its lessons; the third way is all of them"""


def lesson_sources(folder: Path = SOLUTIONS) -> list[Path]:
    """Every lesson's source, in order."""
    return sorted(folder.glob("[0-9][0-9]-*.py"))


def lessons_named(numbers: list[str], files: list[Path]) -> list[Path]:
    """The files of these lessons, in order; all if none is named.

    numbers: as "04" or "4". Raises CourseError for a lesson that is not there.
    """
    by_number = {file.name[:2]: file for file in files}
    for number in numbers:
        if not number or number.zfill(2) not in by_number:
            raise CourseError(f"There is no lesson {number!r}: there is {', '.join(by_number)}.")
    return [by_number[number] for number in sorted({n.zfill(2) for n in numbers} or by_number)]


def numbers(solutions: Path = SOLUTIONS) -> dict[str, str]:
    """name -> number: of each notebook, as "vector-add" -> "02", and of each exercise, as
    "fill-a-vector" -> "02.1"."""
    by_name = {}
    for source in lesson_sources(solutions):
        notebook, name = source.stem[:2], source.stem[3:]
        by_name[name] = notebook
        for place, exercise in enumerate(EXERCISES.findall(source.read_text()), start=1):
            by_name[exercise] = f"{notebook}.{place}"
    return by_name


def part_of(lesson: str, by_name: dict[str, str]) -> str:
    """The part of the course that a lesson belongs to.

    lesson: its number, as "02". by_name: what `numbers` says.
    """
    return [part for part, first in PARTS.items() if by_name.get(first, "99") <= lesson][-1]


def numbered(text: str, by_name: dict[str, str]) -> str:
    """The text with numbers in place of names in braces; an unknown name stays as it is."""
    return NAMED.sub(lambda match: by_name.get(match[1], match[0]), text)
