"""What is private in Triton is there as it is used, and is used in one room alone."""

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import triton

from tests.support.processes import ROOT

ROOM = ROOT / "course" / "triton_internals"
USED = tomllib.loads((ROOM / "private_names.toml").read_text())["used"]
NAMES = [(each, name) for each in USED for name in each["names"]]
DOCUMENTED = re.compile(
    r"triton(\.language(\.extra(\.libdevice)?)?|\.testing|\.tools\.(tensor_descriptor|compile)"
    r"|\.profiler(\.\w+)*|\.experimental(\.gluon(\.language|\.nvidia)?(\.(?!_)\w+)*)?)?"
)
"""Modules of Triton that its documentation or its tutorials import."""
SHARED = {"arg_names", "is_constexpr", "has_default", "do_bench", "generic_visit"}
"""What a kernel hands to every room, and what others call so too."""


@pytest.mark.parametrize("used, name", NAMES, ids=[f"{u['module']}.{n}" for u, n in NAMES])
def test_triton_has_each_private_name_with_the_parameters_that_are_relied_on(used, name):
    since = used.get("since", "3.6")
    if version(triton.__version__) < version(since):
        pytest.skip(f"needs Triton {since}")
    path, _, listed = name.partition("(")
    wanted = [each.strip() for each in listed.rstrip(")").split(",") if each.strip()]
    owner, value = importlib.import_module(used["module"]), None
    for part in path.split("."):
        owner, value = value if value is not None else owner, None
        if hasattr(owner, part):
            value = getattr(owner, part)
        else:
            assert part in set_in(owner), f"{used['module']} has no {path}: {used['why']}"
    if listed:
        there = [*inspect.signature(value).parameters]
        assert there[: len(wanted)] == wanted, f"{path} takes {there}: {used['why']}"


@pytest.mark.parametrize("used", USED, ids=[each["module"] for each in USED])
def test_a_test_holds_what_each_name_means(used):
    assert (ROOT / used["test"]).is_file()


def test_no_other_room_reads_what_is_private_in_triton():
    last = {name.partition("(")[0].rpartition(".")[2] for _, name in NAMES}
    # A word without a line is also what objects of our own, or of Python's, have.
    private = {name for name in last if "_" in name.strip("_")} - SHARED
    read = [
        f"{path.relative_to(ROOT)}:{line} {what}"
        for path in sorted((ROOT / "course").rglob("*.py"))
        if ROOM not in path.parents and "content" not in path.parts
        for line, what in reads(path, private)
    ]
    assert not read


def test_the_table_has_every_name_that_the_room_takes_from_a_private_module():
    listed = {f"{each['module']}.{name.partition('(')[0]}" for each, name in NAMES}
    for path in ROOM.glob("*.py"):
        for module, name in imported(ast.parse(path.read_text())):
            if not DOCUMENTED.fullmatch(module):
                full = f"{module}.{name}"
                known = any(each == full or each.startswith(f"{full}.") for each in listed)
                assert known, f"{path.name} imports {full}"


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def set_in(owner: object) -> set[str]:
    """The attributes that a class's methods, or a function, set."""
    parts = owner.__mro__[:-1] if inspect.isclass(owner) else [owner]
    found = set()
    for part in parts:
        found |= set(getattr(part, "__annotations__", {}))
        try:
            source = inspect.getsource(part)
        except (OSError, TypeError):
            continue
        found |= set(re.findall(r"\.(\w+)(?:: .*)? = |^\s+(\w+) = ", source, re.MULTILINE))
    return {name for names in found for name in (names if isinstance(names, tuple) else [names])}


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("triton."):
            yield from ((node.module or "", alias.name) for alias in node.names)


def reads(path: Path, private: set[str]) -> Iterator[tuple[int, str]]:
    """The lines of a file that read a private module, or an attribute by a private name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for name in (node.module or "", *(f"{node.module}.{a.name}" for a in node.names)):
                is_module = name == node.module or name.rpartition(".")[2].startswith("_")
                if name.split(".")[0] == "triton" and is_module and not DOCUMENTED.fullmatch(name):
                    yield node.lineno, name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "triton" and not DOCUMENTED.fullmatch(alias.name):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if re.match(r"triton\.(runtime|compiler|backends|_C|_utils|knobs)\b", text):
                yield node.lineno, text
            elif node.attr in private:
                yield node.lineno, f".{node.attr}"
        elif isinstance(node, ast.Constant) and node.value in private:
            yield node.lineno, repr(node.value)
