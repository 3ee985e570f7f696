"""A copy of the package in which every sentence of ours reads otherwise."""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("aot", "exercises", "isolate", "lowering", "simulating", "tracing", "verifying")
BESIDE = ("cache", "doctor", "files", "mode")
"""Files beside the rooms."""
DATA = ("answers", "c", "examples", "fake_driver", "operator_code")
"""Folders whose texts are no sentences: code, and what learners write."""
SENTENCE = re.compile(
    r"([A-Za-z][\w'-]*[,;:.]? ){3}[A-Za-z]|^[A-Z][a-z]* [a-z]+ [a-z]+|[a-z]+ [a-z]+[.:;](\s|$)"
)
"""Four words, or three that begin with a capital, or two before a full stop or a colon."""
WORD = re.compile(r"(?<![\w{\\])[A-Za-z]{3,}(?![\w}])")


def altered_copy(folder: Path) -> int:
    """Write the package into a folder, with what a session needs beside it; the number of altered
    sentences."""
    shutil.copytree(
        ROOT / "course", folder / "course", ignore=shutil.ignore_patterns("__pycache__")
    )
    for beside in ("kernels", "notebooks", "solutions"):
        (folder / beside).symlink_to(ROOT / beside)
    package = folder / "course"
    files = [path for room in ROOMS for path in (package / room).rglob("*.py")]
    files += [package / f"{name}.py" for name in BESIDE]
    trees = {path: ast.parse(path.read_text()) for path in files if path.parent.name not in DATA}
    names = {text for tree in trees.values() for text in _literals(tree)}
    altered = 0
    for path, tree in trees.items():
        change = _Change(names)
        path.write_text(ast.unparse(change.visit(tree)))
        altered += change.altered
    return altered


def _literals(tree: ast.AST) -> Iterator[str]:
    """The names of closed sets: what stands in a `Literal[…]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
            yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))


class _Change(ast.NodeTransformer):
    """Spells each word of a sentence backwards. Names of closed sets and patterns stay."""

    def __init__(self, names: set[str]) -> None:
        self.names, self.altered = names, 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_docstring = isinstance(node.value, ast.Constant)
        return node if is_docstring else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = ast.unparse(node.func)
        reads_others = called.startswith("re.") or called == "first_words"
        return node if reads_others else self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
        if SENTENCE.search("".join(parts)):
            for each in node.values:
                if isinstance(each, ast.Constant):
                    each.value = self._backwards(each.value)
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                each.value = self.visit(each.value)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        text = node.value
        if isinstance(text, str) and text not in self.names and SENTENCE.search(text):
            node.value = self._backwards(text)
        return node

    def _backwards(self, text: str) -> str:
        self.altered += 1
        return WORD.sub(lambda word: word[0][::-1], text)
