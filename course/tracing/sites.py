"""Where in a kernel's source the interpreter is: which statement, and which call in it."""

import ast
import sys
import textwrap
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any


@dataclass(frozen=True, order=True)
class Site:
    """A call in the source, such as one of the two loads in `tl.load(x) + tl.load(y)`."""

    file: str
    line: int
    """Of the statement's first line."""
    column: int
    names: frozenset[str] = field(default=frozenset(), compare=False)
    """Every name that stands in the call."""


class Listing:
    """The text of a kernel and of the jitted functions that it calls."""

    def __init__(self, functions: list[dict[str, Any]]) -> None:
        self.functions = functions
        self._known: dict[CodeType, bool] = {}
        self._statements: dict[tuple[str, int], int] = {}
        self._names: dict[tuple[str, int, int], frozenset[str]] = {}
        self.loops: list[tuple[str, int, int]] = []
        """File, the line of the header, and the last line."""
        for function in functions:
            offset = function["line"] - 1
            for node in ast.walk(ast.parse(textwrap.dedent(function["text"]))):
                if isinstance(node, ast.stmt):
                    self._add(function["file"], node, offset)
                elif isinstance(node, ast.Call):
                    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                    self._names[function["file"], node.lineno + offset, node.col_offset] = frozenset(names)

    def _add(self, file: str, node: ast.stmt, offset: int) -> None:
        body = getattr(node, "body", None)
        last = (body[0].lineno - 1 if body else node.end_lineno) or node.lineno
        for line in range(node.lineno, max(last, node.lineno) + 1):
            self._statements[file, line + offset] = node.lineno + offset
        if isinstance(node, (ast.For, ast.While)):
            self.loops.append((file, node.lineno + offset, (node.end_lineno or node.lineno) + offset))

    def holds(self, code: CodeType) -> bool:
        """Whether a code object is one of these functions."""
        if code not in self._known:
            self._known[code] = any(
                each["name"] == code.co_name and each["file"] == code.co_filename
                and each["line"] <= code.co_firstlineno <= each["line"] + each["text"].count("\n")
                for each in self.functions
            )  # fmt: skip
        return self._known[code]

    def statement(self, file: str, line: int) -> int:
        """The first line of the statement that a line belongs to: a call may be written over several."""
        return self._statements.get((file, line), line)

    def site(self) -> Site:
        """The innermost call of the kernel's own that is running."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self.holds(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return Site("", 0, 0)
        line, column = _position(frame.f_code, frame.f_lasti)
        file = frame.f_code.co_filename
        return Site(file, self.statement(file, line), column, self._names.get((file, line, column), frozenset()))


@lru_cache(maxsize=4096)
def _position(code: CodeType, instruction: int) -> tuple[int, int]:
    positions = list(code.co_positions())
    line, _, column, _ = positions[instruction // 2]
    return line or code.co_firstlineno, column or 0
