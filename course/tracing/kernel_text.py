"""The text of a kernel: which statement the interpreter is in, and which call in it."""

import ast
import sys
from dataclasses import dataclass
from functools import lru_cache
from traceback import walk_stack
from types import CodeType

from course.lowering.call_sites import CallPath, CallSites, kind_of
from course.lowering.kernel_reference import Listing


@dataclass(frozen=True)
class Site:
    """A call in the source, such as one of the two loads in `tl.load(x) + tl.load(y)`."""

    file: str
    line: int
    """The first line of its statement."""
    path: CallPath
    """Its place, and the calls that led there."""
    names: frozenset[str]
    """The names in its pointer."""


class KernelText:
    """The text of a kernel and of the jitted functions that it calls.

    Rows are counted from 0 over all functions.
    """

    def __init__(self, listing: Listing) -> None:
        self.functions = listing
        self._known: dict[CodeType, bool] = {}
        self._statements: dict[tuple[str, int], int] = {}
        self._rows: dict[tuple[str, int], int] = {}
        self._calls = CallSites(listing)
        self.loaded: dict[tuple[str, int], str] = {}
        """The names that loads are assigned to, by file and line."""
        self.loops: list[tuple[int, int]] = []
        """The rows of each loop's header and of its last line."""
        rows = 0
        for function in listing:
            file, first = function.file, function.line
            for line in range(first, first + function.text.count("\n") + 1):
                self._rows[file, line] = rows
                rows += 1
            for node in ast.walk(ast.parse(function.text)):
                if isinstance(node, ast.stmt):
                    self._add(file, node, first - 1)

    def _add(self, file: str, node: ast.stmt, before: int) -> None:
        """Note a statement. before: lines of the file above the function."""
        body = getattr(node, "body", None)
        end = node.end_lineno or node.lineno
        last = max(body[0].lineno - 1 if body else end, node.lineno)
        for line in range(node.lineno, last + 1):
            self._statements[file, line + before] = node.lineno + before
        if name := _loaded_name(node):
            self.loaded[file, node.lineno + before] = name
        if isinstance(node, (ast.For, ast.While)):
            header, last_line = node.lineno + before, end + before
            self.loops.append((self.row(file, header), self.row(file, last_line)))

    def holds(self, code: CodeType) -> bool:
        """Whether a code object is one of these functions."""
        if code not in self._known:
            self._known[code] = any(
                function.name == code.co_name
                and function.file == code.co_filename
                and 0 <= code.co_firstlineno - function.line <= function.text.count("\n")
                for function in self.functions
            )
        return self._known[code]

    def row(self, file: str, line: int) -> int:
        """The row of a line; 0 for a line of no function."""
        return self._rows.get((file, line), 0)

    def statement(self, file: str, line: int) -> int:
        """The first line of the statement that a line belongs to, which may go over several."""
        return self._statements.get((file, line), line)

    def site(self) -> Site:
        """The innermost call of the kernel's own that is running, and the calls that led there."""
        path = tuple(
            (frame.f_code.co_filename, *_position(frame.f_code, frame.f_lasti))
            for frame, _ in walk_stack(sys._getframe(1))
            if self.holds(frame.f_code)
        )
        if not path:
            return Site("", 0, (), frozenset())
        file, line, _ = path[0]
        return Site(file, self.statement(file, line), path, self._calls.names(path[0]))


def _loaded_name(node: ast.stmt) -> str:
    """The name in `name = tl.load(…)` or `name = tl.load(…).to(…)`; empty for other statements."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return ""
    value = node.value
    while isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "to":
        assert isinstance(value.func, ast.Attribute)
        value = value.func.value
    is_load = isinstance(value, ast.Call) and kind_of(value) == "load"
    return node.targets[0].id if is_load else ""


@lru_cache(maxsize=4096)
def _position(code: CodeType, instruction: int) -> tuple[int, int]:
    """The line and the column of an instruction, given by its offset in bytes."""
    line, _, column, _ = list(code.co_positions())[instruction // 2]
    return line or code.co_firstlineno, column or 0
