"""The reference has every public name, from the source alone."""

import re
import subprocess
import sys
from pathlib import Path

import griffe
import pytest

import course
from docs.site import ROOT, reference

PAGES = reference.Reference(ROOT).pages()


def test_every_public_name_stands_there_with_its_docstring():
    headings = re.findall(r"^## (\S+)$", PAGES["course"], re.MULTILINE)
    modules = {"aot", "draw", "stock"}
    assert set(headings) == set(course.__all__) - modules
    assert modules == {name.removeprefix("course-") for name in PAGES} - {"course", "results"}
    for name in headings:
        section = PAGES["course"].partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert re.search(r"^[A-Z]\w.*\.$", section, re.MULTILINE), name


def test_every_picture_and_everything_of_aot_stands_there():
    for module in (course.draw, course.aot):
        short = module.__name__.removeprefix("course.")
        for name in module.__all__:
            is_module = name == "fake_driver"
            assert is_module or f"\n## {short}.{name}\n" in PAGES[f"course-{short}"]


def test_what_the_functions_return_stands_there_with_attributes_and_methods():
    lowered = PAGES["results"].partition("\n## Lowered\n")[2].partition("\n## ")[0]
    assert "- `ptx: str`" in lowered
    assert "- `follow(text: str" in lowered
    assert "_title" not in lowered


def test_nothing_of_the_course_is_imported():
    code = (
        "import sys; from docs.site import ROOT, reference; reference.Reference(ROOT).pages();"
        "sys.exit(any(name.split('.')[0] in ('course', 'torch', 'triton') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_parameters_become_items_and_prose_stays_prose():
    text = "Add two.\n\nn: how many, a\n    number.\nother: prose.\nRaises it: if x_ptr < 0."
    assert reference.rendered(text, {"n"}) == (
        "Add two.\n\n- **n**: how many, a\n  number.\n\nother: prose.\nRaises it: if x\\_ptr \\< 0."
    )


def test_python_in_a_docstring_is_code():
    assert reference.rendered("As in\n\n    add(x)\n    add(y)") == (
        "As in\n\n```python\nadd(x)\nadd(y)\n```"
    )
    assert reference.rendered("A text.\n\n    blue    … a warp") == (
        "A text.\n\n```text\nblue    … a warp\n```"
    )


def function_of(code):
    module = griffe.visit("module", filepath=Path("module.py"), code=code)
    return next(iter(module.members.values()))


def test_a_long_signature_has_an_argument_a_line():
    long = "def f(a: dict[str, int], b: str = 'x, y', *, " + "c" * 60 + ": int = 3) -> None: ..."
    assert reference.signature(function_of(long)).split("\n")[1:4] == [
        "    a: dict[str, int],",
        "    b: str = 'x, y',",
        "    *,",
    ]


@pytest.mark.parametrize(
    "written",
    ["f(a: int, /, *, b: int = 3) -> str", "f(*a: int, b, **c: int) -> None", "f(a=(1, 2)) -> int"],
)
def test_a_short_signature_is_as_it_is_written(written):
    assert reference.signature(function_of(f"def {written}: ...")) == written.replace(
        "a=(", "a = ("
    )
