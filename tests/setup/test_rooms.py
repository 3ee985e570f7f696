"""The rooms of course/: imports go one way, and no room hides a public name."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT, run

DESIGN = (ROOT / "docs" / "design.md").read_text()
ORDER = re.findall(r"^\| `(\w+)` \|", DESIGN.split("## Rooms")[1].split("\n## ")[0], re.MULTILINE)
"""The rooms from the ground up: one imports from those before it alone, and from the files that lie
in course/ itself."""
FILES = {path.stem for path in (ROOT / "course").glob("*.py")} - {"__init__"}
ON_TOP = {"doctor", "__main__"}
"""Files in course/ itself that import from rooms."""
MAY_USE_ALL = ("workshop", "cli")

CALLS_ALL = """
import importlib, pathlib, pkgutil, types
import course
for module in pkgutil.walk_packages(course.__path__, "course."):
    if module.name.split(".")[-1] != "__main__":
        importlib.import_module(module.name)
for home in (course, course.draw, course.aot):
    for name in home.__all__:
        value = getattr(home, name)
        print(home.__name__, name, "module" if isinstance(value, types.ModuleType) else "name")
"""


def test_every_room_has_its_place():
    rooms = {path.parent.name for path in (ROOT / "course").glob("*/__init__.py")}
    assert len(ORDER) == len(set(ORDER)) and rooms == set(ORDER)


@pytest.mark.parametrize("room", ORDER)
def test_a_room_imports_from_those_below_it(room):
    above = ORDER[ORDER.index(room) + 1 :]
    for path in (ROOT / "course" / room).rglob("*.py"):
        assert not imports(path) & {*above, *(() if room in MAY_USE_ALL else ON_TOP)}, path


def test_the_files_beside_the_rooms_import_from_none():
    for name in FILES - ON_TOP:
        assert not imports(ROOT / "course" / f"{name}.py") & set(ORDER), name


def test_neither_the_course_nor_kernels_know_anything_of_the_tools():
    for path in [*(ROOT / "course").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]:
        words = re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
        assert "tools" not in words, path


def test_kernels_know_nothing_of_the_course():
    for path in (ROOT / "kernels").rglob("*.py"):
        assert not imports(path), path


def test_with_every_module_imported_each_public_name_is_still_what_it_was():
    ended = run(sys.executable, "-c", CALLS_ALL)
    assert ended.returncode == 0, ended.stderr[-2000:]
    modules = [line.rpartition(" ")[0] for line in ended.stdout.splitlines() if "module" in line]
    assert modules == ["course aot", "course draw", "course stock", "course.aot fake_driver"]
    assert len(ended.stdout.splitlines()) > 40


def imports(path: Path) -> set[str]:
    """What a file imports of course/, by the first part of its name: "lowering", "errors"."""
    package = path.relative_to(ROOT).parent.parts
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            target = [*base, *(node.module or "").split(".")]
            names |= {(*filter(None, target), alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {tuple(alias.name.split(".")) for alias in node.names}
    own = package[1] if len(package) > 1 else ""
    inside = {name[1] for name in names if name[0] == "course" and len(name) > 1}
    return {name for name in inside if name != own and name in {*ORDER, *FILES}}


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_names_is_there(page):
    named = re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`", (ROOT / page).read_text())
    missing = [name for name in named if not (ROOT / name).exists()]
    # A name to be filled in, as solutions/NN-name.py; and what a run writes.
    assert not [name for name in missing if not re.search(r"NN|\bname\b|^(build|work)/", name)]
