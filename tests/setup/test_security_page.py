"""Each defense on the security page names a test, and the test is there."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pages" / "security.md").read_text()


def names_of_tests(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def rows() -> list[list[str]]:
    table = [line for line in PAGE.split("\n") if line.startswith("| ")]
    return [line[2:-2].split(" | ") for line in table if not line.endswith("| the test |")]


def test_every_defense_names_a_test_that_is_there():
    assert len(rows()) > 20
    for row in rows():
        file, _, name = row[2].strip("`").partition("::")
        assert name in names_of_tests(ROOT / file), row


def test_no_test_holds_two_defenses():
    named = [row[2] for row in rows()]
    assert len(named) == len(set(named))


def test_what_is_not_defended_comes_first():
    assert PAGE.split("\n## ")[1].startswith("What is not defended")
