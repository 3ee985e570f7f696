"""The hash by which a record knows its code: what changes it, and what does not."""

import importlib
import itertools
import textwrap

import pytest

from course.benching import source_hash
from course.benching.source_hash import code_hash

CODE = """
LIMIT = 4


def helper(x, scale):
    total = x * scale
    return [total + each for each in range(LIMIT)]


def work(x, block=8):
    if x < 0:
        raise ValueError(f"x is {x}")
    parts = helper(x, scale=2.0)
    return sum(parts) + block
"""

SAME = {
    "a comment": ("    total = x * scale", "    # scaled\n    total = x * scale  # once"),
    "blank lines and brackets":
        ("return sum(parts) + block", "return (\n        sum(parts)\n\n        + block\n    )"),
    "a docstring": ("def helper(x, scale):", 'def helper(x, scale):\n    """Scale x."""'),
    "an annotation":
        ("def helper(x, scale):", "def helper(x: float, scale: float) -> list[float]:"),
    "the text of an error": ('f"x is {x}"', '"x is negative: give 0 or more."'),
    "a local's name": (
        "    total = x * scale\n    return [total +", "    scaled = x * scale\n    return [scaled +"
    ),
    "a loop variable's name": ("[total + each for each in", "[total + n for n in"),
    "an unused definition": ("LIMIT = 4", "LIMIT = 4\nUNUSED = 5"),
    "an unused comprehension over a parameter's name":
        ("LIMIT = 4", "LIMIT = 4\nUNUSED = {x: block for x, block in zip('ab', 'cd')}"),
    "an unused definition of a parameter's name": ("LIMIT = 4", "LIMIT = 4\nscale = 5"),
}  # fmt: skip

OTHER = {
    "an operator": ("x * scale", "x + scale"),
    "a number": ("scale=2.0", "scale=2.5"),
    "a constant elsewhere": ("LIMIT = 4", "LIMIT = 5"),
    "a default": ("block=8", "block=16"),
    "how a parameter is given": ("def helper(x, scale):", "def helper(x, scale, /):"),
    "which of two locals is used": (
        "    total = x * scale\n    return [total +",
        "    total = x * scale\n    other = x\n    return [other +",
    ),
    "what a comprehension goes over": ("in range(LIMIT)", "in range(total)"),
    "what is collected":
        ("[total + each for each", "[total + x for each"),
    "a condition": ("x < 0", "x <= 0"),
    "a statement left out": ("    if x < 0:\n        raise ValueError(f\"x is {x}\")\n", ""),
    "a decorator": ("def work", "import functools\n@functools.cache\ndef work"),
    "a constant for the compiler":
        ("def helper(x, scale):", "def helper(x, scale: 'tl.constexpr'):"),
}  # fmt: skip

NUMBERS = itertools.count()  # a package is imported once


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Returns a function: files of a package -> the hash of its module's `work`."""
    monkeypatch.syspath_prepend(tmp_path)

    def hash_of(text, **others):
        package = f"hashed_package_{next(NUMBERS)}"
        monkeypatch.setattr(source_hash, "PACKAGE", package)
        monkeypatch.setattr(source_hash, "UNHASHED", f"{package}.checks")
        (tmp_path / package).mkdir()
        for name, content in {"__init__": "", "main": text, **others}.items():
            text = textwrap.dedent(content).replace("PACKAGE", package)
            path = tmp_path / package / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        importlib.invalidate_caches()
        return code_hash([f"{package}.main.work"])

    return hash_of


@pytest.mark.parametrize("what", SAME)
def test_a_change_of_how_code_is_written_keeps_the_hash(package, what):
    assert CODE.count(SAME[what][0]) == 1
    assert package(CODE.replace(*SAME[what])) == package(CODE)


@pytest.mark.parametrize("what", OTHER)
def test_a_change_of_what_code_does_changes_the_hash(package, what):
    assert CODE.count(OTHER[what][0]) == 1
    assert package(CODE.replace(*OTHER[what])) != package(CODE)


def test_a_definition_may_move_to_another_file_under_another_name(package):
    helper = CODE[CODE.index("LIMIT") : CODE.index("def work")]
    rest = CODE[CODE.index("def work") :].replace("helper(", "scaled(")
    moved = package(
        "from PACKAGE.tools import scale_all as scaled\n" + rest,
        tools=helper.replace("helper", "scale_all"),
    )
    assert moved == package(CODE)


TRIED = "try:\n    from PACKAGE.tools import helper\nexcept ImportError:\n    helper = None\n"


@pytest.mark.parametrize("file", ["tools", "tools/__init__"])
@pytest.mark.parametrize("imports", ["from PACKAGE.tools import helper\n", TRIED])
def test_code_that_was_moved_still_counts(package, imports, file):
    helper = CODE[CODE.index("LIMIT") : CODE.index("def work")]
    rest = CODE[CODE.index("def work") :]
    assert package(imports + rest, **{file: helper}) == package(CODE)
    other = helper.replace("x * scale", "x / scale")
    assert package(imports + rest, **{file: other}) != package(CODE)


def test_checks_of_inputs_do_not_count(package):
    text = "from PACKAGE.checks import check\n" + CODE.replace(
        "    parts", "    check(x)\n    parts"
    )
    assert package(text, checks="def check(x): pass") == package(
        text, checks="def check(x): assert x"
    )


def test_definitions_that_use_each_other_have_a_hash(package):
    text = (
        "def work(n):\n    return other(n - 1) if n else 0\n\n"
        "def other(n):\n    return work(n - 1) if n else {}\n"
    )
    assert package(text.format(1)) != package(text.format(2))
