"""Answers that a rehearsal gives: a right and a wrong one per lesson, and three that misbehave."""

import itertools
import re
from dataclasses import dataclass

from course.exercises.answers import changed, mistakes
from course.lessons.order import EXERCISE, lesson_sources
from course.lessons.source import solved

IMPORTS = (
    "from course import DEVICE, check\nimport torch\nimport triton\nimport triton.language as tl\n"
)

WITHOUT_END = """
@triton.jit
def double_below_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    while tl.sum(offsets, axis=0) >= 0:
        x += 1.0
    tl.store(out_ptr + offsets, x, mask=offsets < n)

check("if-becomes-mask", double_below_kernel)
"""
"""An answer that never comes to its end; it compiles in no time."""

GREEDY = """
def back_by_two(x):
    everything = torch.ones(30 * 10**9, dtype=torch.uint8)
    return x.flip(0)[::2] + everything[0]

check("every-other-backwards", back_by_two)
"""
"""An answer that asks for 30 GB."""

CRASH = "import ctypes; ctypes.string_at(0)"
"""A cell that ends its own session."""


@dataclass(frozen=True)
class Answers:
    """An exercise's right answer and its first usual mistake, as cells that end in their check."""

    exercise: str
    lesson: str
    """Its number."""
    right: str
    wrong: str
    wrong_name: str
    wrong_verdict: str
    is_code: bool = True


def lesson_answers() -> list[Answers]:
    """The answers to one exercise of each lesson: the first that asks for code, or else the
    first."""
    by_lesson: dict[str, Answers] = {}
    for each in all_answers().values():
        first = by_lesson.setdefault(each.lesson, each)
        if each.is_code and not first.is_code:
            by_lesson[each.lesson] = each
    return [by_lesson[lesson] for lesson in sorted(by_lesson)]


def all_answers() -> dict[str, Answers]:
    """exercise -> its answers, for every exercise of the lessons."""
    answers = {}
    for source in lesson_sources():
        for cell, after in itertools.pairwise(solved(source).cells):
            marker = EXERCISE.match(cell.source.split("\n")[0])
            if marker and re.fullmatch(r'check\("[a-z0-9-]+", \w+\)', after.source):
                lesson = source.stem[:2]
                answers[marker[1]] = _answers(marker[1], lesson, cell.source, after.source)
    return answers


def _answers(exercise: str, lesson: str, solution: str, check: str) -> Answers:
    mistake = mistakes(exercise)[0]
    wrong, is_code = f'check("{exercise}", {mistake.answer!r})', False
    if isinstance(mistake.answer, dict):
        wrong, is_code = f"{changed(solution, mistake.answer)}\n\n{check}", True
    right = f"{solution}\n\n{check}"
    return Answers(exercise, lesson, right, wrong, mistake.name, mistake.verdict, is_code)
