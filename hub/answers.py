"""Answers that a rehearsal gives: a right and a wrong one per lesson, and three that misbehave."""

import ast
import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass

from course.exercises.answers import changed, mistakes
from course.lessons.order import EXERCISE, lesson_sources
from course.lessons.without_solutions import solved

IMPORTS = (
    "from course import DEVICE, check\nimport torch\nimport triton\nimport triton.language as tl\n"
)

DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)

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
    before: str
    """What a learner's session has by then: the lesson's imports and kernels, above the
    exercise."""
    right: str
    wrong: str
    wrong_name: str
    wrong_verdict: str
    is_code: bool = True


def lesson_answers(lessons: Collection[str] = ()) -> list[Answers]:
    """The answers to one exercise of each lesson: the first that asks for code, or else the
    first.

    lessons: their numbers; all lessons without any.
    """
    by_lesson: dict[str, Answers] = {}
    for each in all_answers().values():
        if lessons and each.lesson not in lessons:
            continue
        first = by_lesson.setdefault(each.lesson, each)
        if each.is_code and not first.is_code:
            by_lesson[each.lesson] = each
    return [by_lesson[lesson] for lesson in sorted(by_lesson)]


def all_answers() -> dict[str, Answers]:
    """exercise -> its answers, for every exercise of the lessons."""
    answers = {}
    for source in lesson_sources():
        before: list[str] = []
        known: set[str] = set()
        for cell, after in itertools.pairwise(solved(source).cells):
            marker = EXERCISE.match(cell.source.split("\n")[0])
            if marker and re.fullmatch(r'check\("[a-z0-9-]+", \w+\)', after.source):
                answers[marker[1]] = _answers(
                    marker[1], source.stem[:2], "\n".join(before), cell.source, after.source
                )
            if cell.cell_type == "code":
                before += definitions(cell.source, known)
    return answers


def definitions(cell: str, known: set[str]) -> list[str]:
    """A cell's imports, functions and constants, without what it runs.

    known: the names that stand already, to which the cell's are added: a constant may use no other.
    """
    try:
        nodes = ast.parse(cell).body
    except SyntaxError:  # a command of Jupyter's
        return []
    lines, kept = cell.splitlines(), []
    for node in nodes:
        if isinstance(node, DEFINES) or (isinstance(node, ast.Assign) and _stands(node, known)):
            first = min(
                [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]
            )
            kept.append("\n".join(lines[first - 1 : node.end_lineno]))
            known |= _bound(node)
    return kept


def _stands(node: ast.Assign, known: set[str]) -> bool:
    """Whether a constant takes no call, and no name that is not known."""
    parts = list(ast.walk(node.value))
    names = {each.id for each in parts if isinstance(each, ast.Name)}
    return names <= known and not any(isinstance(each, ast.Call) for each in parts)


def _bound(node: ast.stmt) -> set[str]:
    """The names that an import, a definition or an assignment gives a meaning."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(each.asname or each.name).split(".")[0] for each in node.names}
    if isinstance(node, ast.Assign):
        return {each.id for target in node.targets for each in ast.walk(target)
                if isinstance(each, ast.Name)}  # fmt: skip
    return {getattr(node, "name", "")}


def _answers(exercise: str, lesson: str, before: str, solution: str, check: str) -> Answers:
    mistake = mistakes(exercise)[0]
    wrong, is_code = f'check("{exercise}", {mistake.answer!r})', False
    if isinstance(mistake.answer, dict):
        wrong, is_code = f"{changed(solution, mistake.answer)}\n\n{check}", True
    right = f"{solution}\n\n{check}"
    return Answers(exercise, lesson, before, right, wrong, mistake.name, mistake.verdict, is_code)
