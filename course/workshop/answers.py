"""Answers that a rehearsal gives: a right and a wrong one per lesson, and three that misbehave."""

import itertools
import re
from dataclasses import dataclass

from course.exercises.answers import changed, mistakes
from course.lessons.source import EXERCISE, lesson_sources, solved

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

check("00.2", double_below_kernel)
"""
"""An answer that never comes to its end; it compiles in no time."""

GREEDY = """
def back_by_two(x):
    everything = torch.ones(30 * 10**9, dtype=torch.uint8)
    return x.flip(0)[::2] + everything[0]

check("01.4", back_by_two)
"""
"""An answer that asks for 30 GB."""

CRASH = "import ctypes; ctypes.string_at(0)"
"""A cell that ends its own session."""


@dataclass(frozen=True)
class Answers:
    """A lesson's answers, as cells that end in their check."""

    lesson: str
    exercise: str
    right: str
    wrong: str
    wrong_name: str
    wrong_verdict: str
    is_code: bool = True


def lesson_answers() -> list[Answers]:
    """An exercise of each lesson, solved and with its first usual mistake: the first exercise that
    asks for code, or else the first."""
    by_lesson: dict[str, Answers] = {}
    for exercise, (solution, name) in solved_cells().items():
        lesson, mistake = exercise[:2], mistakes(exercise)[0]
        is_code = isinstance(mistake.answer, dict)
        if lesson in by_lesson and not (is_code and not by_lesson[lesson].is_code):
            continue
        wrong = f'check("{exercise}", {mistake.answer!r})'
        if isinstance(mistake.answer, dict):
            wrong = f'{changed(solution, mistake.answer)}\n\ncheck("{exercise}", {name})'
        right = f'{solution}\n\ncheck("{exercise}", {name})'
        by_lesson[lesson] = Answers(
            lesson, exercise, right, wrong, mistake.name, mistake.verdict, is_code
        )
    return [by_lesson[lesson] for lesson in sorted(by_lesson)]


def solved_cells() -> dict[str, tuple[str, str]]:
    """exercise -> its solved cell, and the name that its check is given."""
    by_exercise = {}
    for source in lesson_sources():
        for cell, after in itertools.pairwise(solved(source).cells):
            marker = EXERCISE.match(cell.source.split("\n")[0])
            checked = re.fullmatch(r'check\("[\d.]+", (\w+)\)', after.source)
            if marker and checked:
                by_exercise[marker[1]] = cell.source, checked[1]
    return by_exercise
