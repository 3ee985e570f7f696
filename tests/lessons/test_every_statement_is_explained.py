"""docs/explained leads from each statement of the course's attention kernels, and of what launches
them, to the cell of a lesson that says what it does and why.

A table is a TOML file for one file of kernels/: a section for each function, and in it for each
statement, as `ast` writes it, "lesson: words". The words stand in one cell of that lesson and in no
other: its heading, or a part of the explanation. A statement that changes, a function without a
section and a cell that goes or no longer says these words make a test fail.
"""

import ast
import json
import tomllib
from collections.abc import Iterator
from functools import cache

import pytest

from course.lessons.order import lesson_sources
from course.lessons.without_solutions import solved
from course.places import content

ROOT = content()
TABLES = sorted((ROOT / "docs/explained").rglob("*.toml"))
FILE = "file"
ONLY = "only"
"""Some of a file's functions, where the rest is no part of what launches a kernel."""


def functions(text: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module and the methods of its classes, as (name, definition)."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef):
                yield inner.name, inner


def statements(function: ast.FunctionDef) -> Iterator[str]:
    """Each statement of a function but its docstring, once; of a compound one the head alone."""
    head = ast.unparse(ast.copy_location(_emptied(function), function))
    yield head.removesuffix("\n    pass")
    seen = set()
    for node in ast.walk(function):
        if node is function or not isinstance(node, ast.stmt) or _is_docstring(node):
            continue
        line = ast.unparse(_emptied(node)).removesuffix("\n    pass")
        if line not in seen:
            seen.add(line)
            yield line


def _emptied(node: ast.stmt) -> ast.stmt:
    """A compound statement with nothing in it."""
    if not hasattr(node, "body"):
        return node
    values = {name: getattr(node, name) for name in node._fields}
    values |= {"body": [ast.Pass()]}
    values |= {name: [] for name in ("orelse", "finalbody", "handlers") if name in values}
    return type(node)(**values, lineno=node.lineno)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@cache
def cells(lesson: str) -> list[str]:
    """The cells of a lesson by its name: texts and code, its lines joined."""
    (source,) = [each for each in lesson_sources() if each.stem.partition("-")[2] == lesson]
    return [" ".join(cell.source.split()) for cell in solved(source).cells]


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_each_statement_has_a_cell_that_explains_it(table):
    explained = tomllib.loads(table.read_text(encoding="utf-8"))
    text = (ROOT / explained.pop(FILE)).read_text(encoding="utf-8")
    only = explained.pop(ONLY, None)
    there = {
        name: list(statements(function))
        for name, function in functions(text)
        if only is None or name in only
    }
    assert {name: list(rows) for name, rows in explained.items()} == there


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_each_cell_is_there_and_says_these_words(table):
    explained = tomllib.loads(table.read_text(encoding="utf-8"))
    del explained[FILE]
    explained.pop(ONLY, None)
    places = {place for rows in explained.values() for place in rows.values()}
    for place in sorted(places):
        lesson, _, words = place.partition(": ")
        holding = [text for text in cells(lesson) if words in text]
        assert len(holding) == 1, f"{place!r} stands in {len(holding)} cells"


def written(file: str, explained: dict[str, dict[str, str]]) -> str:
    """A table's text, for whoever adds one."""
    parts = [f"{FILE} = {json.dumps(file)}"]
    for name, rows in explained.items():
        lines = [f"{json.dumps(line)} = {json.dumps(place)}" for line, place in rows.items()]
        parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"
