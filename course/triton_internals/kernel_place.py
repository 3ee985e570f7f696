"""Where in a kernel an error was raised: the expression, and what its names hold there."""

import ast
import inspect
import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import torch
import triton
from triton import JITFunction
from triton.compiler.errors import CompilationError
from triton.runtime import interpreter

from course.type_names import AnyValue, AnyValues

OTHERS = (
    *(str(Path(str(each.__file__)).parent) for each in (triton, torch, np)),
    *(str(Path(__file__).parents[1]), inspect.__file__, ast.__file__),
)
"""Files and folders of code that is no kernel's, though it runs in one; Triton's comes first."""
_OF_THE_COMPILER = {"CodeGenerator": "gscope", "DependenciesFinder": "globals"}
"""What goes through a kernel's text, and where it keeps the names of the module."""


@dataclass
class Place:
    """An expression of a kernel, as the compiler or the interpreter came to it."""

    node: ast.AST = field(default_factory=ast.Pass)
    names: AnyValues = field(default_factory=dict)
    """What names mean there: the kernel's own, and its module's."""
    frames: list[FrameType] = field(default_factory=list)
    """The calls that led to the error, the innermost last."""
    source: str = ""
    """For the compiler: the text of the function, in which the node's line counts from 1."""
    in_kernel: bool = True
    """Whether it is a kernel's, and not its launcher's."""

    @classmethod
    def of(cls, error: BaseException) -> "Place":
        """Where an error was raised; a place with no expression where none is known."""
        frames: list[FrameType] = []
        for each in reversed(chain_of(error)):  # Triton's own functions raise in no kernel's line
            frames = [frame for frame, _ in traceback.walk_tb(each.__traceback__)] + frames
            if place := _in_compiler(frames) or _in_interpreter(each.__traceback__, frames):
                return place
        return cls(frames=frames, in_kernel=False)

    @property
    def call(self) -> ast.Call | None:
        """The first call in the expression."""
        return next((each for each in ast.walk(self.node) if isinstance(each, ast.Call)), None)

    @property
    def function(self) -> str:
        """What is called there."""
        return ast.unparse(self.call.func) if self.call else ""

    @property
    def operands(self) -> list[ast.expr]:
        """What is joined, indexed, assigned or handed on there."""
        match self.node:
            case ast.BinOp(left=a, right=b) | ast.Compare(left=a, comparators=[b, *_]):
                return [a, b]
            case ast.AugAssign(target=a, value=b) | ast.Subscript(value=a, slice=b):
                return [a, b]
            case ast.Assign(targets=[ast.Subscript(value=a, slice=b)], value=value):
                return [a, b, value]
        return [*self.call.args] if self.call else []

    def operand(self, number: int) -> str:
        """The text of an operand; empty if there are not so many."""
        return ast.unparse(self.operands[number]) if number < len(self.operands) else ""

    def held(self, number: int) -> AnyValue:
        """What an operand holds that is a name or a constant; None for any other."""
        node = self.operands[number] if number < len(self.operands) else None
        found = self.names.get(node.id) if isinstance(node, ast.Name) else None
        constant = node.value if isinstance(node, ast.Constant) else None
        return constant if found is None else getattr(found, "value", found)  # a constexpr's

    def first(self, wanted: Callable[[Any], bool]) -> str:
        """The first name in the expression that holds what is wanted; empty if none does."""
        names = (each.id for each in ast.walk(self.node) if isinstance(each, ast.Name))
        return next((name for name in names if wanted(self.names.get(name))), "")


def chain_of(error: BaseException) -> list[BaseException]:
    """An error, the one it was raised from, and so on, also where the compiler hides that one."""
    cause = error.__cause__
    if cause is None and isinstance(error, CompilationError):
        cause = error.__context__
    return [error, *(chain_of(cause) if isinstance(cause, Exception) else [])]


def _in_compiler(frames: list[FrameType]) -> Place | None:
    for frame in reversed(frames):
        visitor, node = frame.f_locals.get("self"), frame.f_locals.get("node")
        home = _OF_THE_COMPILER.get(type(visitor).__name__)
        if not home or not isinstance(node, ast.AST):
            continue
        if str(getattr(visitor, "file_name", "")).startswith(OTHERS[0]):
            continue
        names = getattr(visitor, home) | getattr(visitor, "lscope", {})
        kernels = (each.f_locals.get("self") for each in reversed(frames))
        source = next((each.src for each in kernels if isinstance(each, JITFunction)), "")
        place = Place(node, names, frames, source)
        # The names of a loop's body are gone by now, but not what was handed on.
        given = frame.f_locals.get("args") if isinstance(node, ast.Call) else None
        given = given or map(frame.f_locals.get, ("lhs", "rhs"))
        for operand, value in zip(place.operands, given, strict=False):
            if isinstance(operand, ast.Name) and value is not None:
                names[operand.id] = value
        return place
    return None


def _in_interpreter(trace: TracebackType | None, frames: list[FrameType]) -> Place | None:
    own, interpreted, in_kernel = None, False, False
    while trace is not None:
        code, known = trace.tb_frame.f_code, trace.tb_frame.f_locals
        is_executor = code.co_filename == interpreter.__file__ and code.co_name == "__call__"
        is_helper = code is interpreter.InterpretedFunction.__call__.__code__
        interpreted |= is_helper or (is_executor and "grid" in known)  # it has been computed
        if not code.co_filename.startswith(OTHERS):
            own, in_kernel = trace, interpreted
        trace = trace.tb_next
    if own is None:
        return None
    names = own.tb_frame.f_globals | own.tb_frame.f_locals
    return Place(_expression(own), names, frames, in_kernel=in_kernel)


def _expression(trace: TracebackType) -> ast.AST:
    """The expression that ran, by its place in the text of its file."""
    code = trace.tb_frame.f_code
    start, end, first, last = [*code.co_positions()][trace.tb_lasti // 2]
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return ast.Pass()
    found: dict[int, ast.AST] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and (node.lineno, node.end_lineno) == (start, end):
            # Triton compiles a kernel without what it is indented by.
            moved = node.col_offset - (first or 0)
            if moved >= 0 and (node.end_col_offset or 0) - (last or 0) == moved:
                found.setdefault(moved, node)
    return found[min(found)] if found else ast.Pass()
