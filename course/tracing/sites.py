"""Where in a kernel's source the interpreter is: which statement, and which call in it."""

import ast
import sys
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType

from course.lowering.call_sites import CallPath, CallSite, CallSites, kind_of
from course.lowering.kernel_reference import Listing as Functions


@dataclass(frozen=True)
class Site:
    """A call in the source, such as one of the two loads in `tl.load(x) + tl.load(y)`."""

    file: str
    line: int
    """The first of its statement."""
    path: CallPath
    """Where it stands, and the calls that led there."""
    names: frozenset[str]
    """The names in its pointer."""


class Listing:
    """The text of a kernel and of the jitted functions that it calls."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self._known: dict[CodeType, bool] = {}
        self._statements: dict[tuple[str, int], int] = {}
        self._calls = CallSites(functions)
        self.loaded: dict[tuple[str, int], str] = {}
        """By file and line of `name = tl.load(…)` or `name = tl.load(…).to(…)`: the name."""
        self.loops: list[tuple[str, int, int]] = []
        """File, the line of the header, and the last line."""
        for function in functions:
            offset = function.line - 1
            for node in ast.walk(ast.parse(textwrap.dedent(function.text))):
                if isinstance(node, ast.stmt):
                    self._add(function.file, node, offset)

    def _add(self, file: str, node: ast.stmt, offset: int) -> None:
        body = getattr(node, "body", None)
        last = (body[0].lineno - 1 if body else node.end_lineno) or node.lineno
        for line in range(node.lineno, max(last, node.lineno) + 1):
            self._statements[file, line + offset] = node.lineno + offset
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            while (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Attribute)
                and value.func.attr == "to"
            ):
                value = value.func.value
            if isinstance(value, ast.Call) and kind_of(value) == "load":
                self.loaded[file, node.lineno + offset] = node.targets[0].id
        if isinstance(node, (ast.For, ast.While)):
            self.loops.append(
                (file, node.lineno + offset, (node.end_lineno or node.lineno) + offset)
            )

    def holds(self, code: CodeType) -> bool:
        """Whether a code object is one of these functions."""
        if code not in self._known:
            self._known[code] = any(
                each.name == code.co_name and each.file == code.co_filename
                and each.line <= code.co_firstlineno <= each.line + each.text.count("\n")
                for each in self.functions
            )  # fmt: skip
        return self._known[code]

    def statement(self, file: str, line: int) -> int:
        """The first line of the statement that a line belongs to: a call may be written over several."""
        return self._statements.get((file, line), line)

    def site(self) -> Site:
        """The innermost call of the kernel's own that is running, and the calls that led there."""
        path: list[CallSite] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self.holds(frame.f_code):
                path.append((frame.f_code.co_filename, *_position(frame.f_code, frame.f_lasti)))
            frame = frame.f_back
        if not path:
            return Site("", 0, (), frozenset())
        file, line, _ = path[0]
        return Site(file, self.statement(file, line), tuple(path), self._calls.names(path[0]))


@lru_cache(maxsize=4096)
def _position(code: CodeType, instruction: int) -> tuple[int, int]:
    positions = list(code.co_positions())
    line, _, column, _ = positions[instruction // 2]
    return line or code.co_firstlineno, column or 0
