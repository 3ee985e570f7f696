"""Where in a kernel an error was raised: the expression, and what its names hold there."""

import ast
import inspect
import linecache
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import torch
import triton
from triton.compiler.errors import CompilationError
from triton.language import tensor
from triton.runtime import interpreter

from course.type_names import AnyValue, AnyValues

OTHERS = (
    *(str(Path(str(each.__file__)).parent) for each in (triton, torch, np)),
    str(Path(__file__).parents[1]),
    inspect.__file__,
    ast.__file__,
)
"""Files and folders of code that is no kernel's, though it runs in one."""
_OF_THE_COMPILER = {"CodeGenerator": "gscope", "DependenciesFinder": "globals"}
"""What goes through a kernel's text, and where it keeps the names of the module."""


@dataclass
class Place:
    """An expression of a kernel, as the compiler or the interpreter came to it."""

    node: ast.AST = field(default_factory=ast.Pass)
    names: AnyValues = field(default_factory=dict)
    """What names mean there: the kernel's own, and its module's."""
    source: str = ""
    """For the compiler: the text of the function, in which the node's line counts from 1."""
    frames: list[FrameType] = field(default_factory=list)
    """The calls that led to the error, the innermost last."""
    in_kernel: bool = True
    """Whether it is a kernel's, and not its launcher's."""

    @classmethod
    def of(cls, error: BaseException) -> "Place":
        """Where an error was raised; a place with no expression where none is known."""
        frames: list[FrameType] = []
        for each in reversed(chain_of(error)):  # Triton's own functions raise in no kernel's line
            traced = [*traceback.walk_tb(each.__traceback__)]
            frames = [frame for frame, _ in traced] + frames
            if place := cls._in_compiler(frames) or cls._in_interpreter(each.__traceback__, frames):
                return place
        return cls(frames=frames)

    @classmethod
    def _in_compiler(cls, frames: list[FrameType]) -> "Place | None":
        for frame in reversed(frames):
            visitor, node = frame.f_locals.get("self"), frame.f_locals.get("node")
            home = _OF_THE_COMPILER.get(type(visitor).__name__)
            in_triton = str(getattr(visitor, "file_name", "")).startswith(OTHERS[0])
            if home and isinstance(node, ast.AST) and not in_triton:
                names = getattr(visitor, home) | getattr(visitor, "lscope", {})
                owners = (each.f_locals.get("self") for each in reversed(frames))
                texts = (getattr(owner, "src", None) for owner in owners)
                source = next((text for text in texts if isinstance(text, str)), "")
                place = cls(node, names, source, frames)
                # The names of a loop's body are gone by now, but not what was handed on.
                is_call = isinstance(node, ast.Call)
                given = (
                    frame.f_locals.get("args")
                    if is_call
                    else [*map(frame.f_locals.get, ("lhs", "rhs"))]
                )
                for operand, value in zip(place.operands, given or (), strict=False):
                    if isinstance(operand, ast.Name) and value is not None:
                        names[operand.id] = value
                return place
        return None

    @classmethod
    def _in_interpreter(
        cls, trace: TracebackType | None, frames: list[FrameType]
    ) -> "Place | None":
        own, interpreted, in_kernel = None, False, False
        while trace is not None:
            file, called = trace.tb_frame.f_code.co_filename, trace.tb_frame.f_code.co_name
            is_executor = file == interpreter.__file__ and called == "__call__"
            interpreted |= is_executor and "grid" in trace.tb_frame.f_locals  # it is computed
            if not file.startswith(OTHERS):
                own, in_kernel = trace, interpreted
            trace = trace.tb_next
        if own is None:
            return None
        names = own.tb_frame.f_globals | own.tb_frame.f_locals
        node = _expression(own.tb_frame, own.tb_lasti)
        return cls(node, names, frames=frames, in_kernel=in_kernel)

    # What sentences name: texts, empty where there is nothing to name.

    @cached_property
    def call(self) -> ast.Call | None:
        """The first call in the expression."""
        return next((each for each in ast.walk(self.node) if isinstance(each, ast.Call)), None)

    @cached_property
    def operands(self) -> list[ast.expr]:
        """What is joined, indexed or handed on there."""
        match self.node:
            case ast.BinOp(left=a, right=b) | ast.Compare(left=a, comparators=[b, *_]):
                return [a, b]
            case ast.AugAssign(target=a, value=b) | ast.Subscript(value=a, slice=b):
                return [a, b]
            case ast.Assign(targets=[ast.Subscript(value=a, slice=b)], value=value):
                return [a, b, value]
        return [*self.call.args] if self.call else []

    def operand(self, number: int) -> ast.expr | None:
        return self.operands[number] if number < len(self.operands) else None

    @property
    def function(self) -> str:
        """What is called."""
        return ast.unparse(self.call.func) if self.call else ""

    @property
    def expression(self) -> str:
        return ast.unparse(self.node)

    @property
    def a(self) -> str:
        """The first operand."""
        return ast.unparse(self.operands[0]) if self.operands else ""

    @property
    def b(self) -> str:
        """The second operand."""
        return ast.unparse(self.operands[1]) if len(self.operands) > 1 else ""

    @property
    def c(self) -> str:
        """What is assigned."""
        return ast.unparse(self.operands[2]) if len(self.operands) > 2 else "…"

    @property
    def mask(self) -> str:
        """The mask of a call, by its name or its place."""
        named = self.call.keywords if self.call else []
        by_place = self.operand(2 if self.function.endswith("store") else 1)
        held = next((each.value for each in named if each.arg == "mask"), by_place)
        return ast.unparse(held) if held else ""

    @property
    def value(self) -> str:
        """The first name there that holds a value of the launch, and no constant."""
        return next((name for name, held in self._held() if isinstance(held, tensor)), "")

    @property
    def block_size(self) -> str:
        """That name, if it is written as constants are."""
        return self.value if self.value.isupper() else ""

    @property
    def several(self) -> str:
        """The first name there that holds a tuple or a list."""
        kinds = (tuple, list, triton.language.tuple)
        return next((name for name, held in self._held() if isinstance(held, kinds)), "")

    @property
    def pointer(self) -> str:
        """The first name of all that holds a pointer."""
        return next((name for name, held in self.names.items() if _is_pointer(held)), "")

    @property
    def pointed(self) -> str:
        """The first name there that holds a pointer."""
        return next((name for name, held in self._held() if _is_pointer(held)), "")

    @property
    def descriptor(self) -> str:
        """The first name there that holds a tensor descriptor."""
        kind = triton.language.core.tensor_descriptor_base
        return next((name for name, held in self._held() if isinstance(held, kind)), "")

    @property
    def indexed_pointer(self) -> str:
        is_indexed = isinstance(self.node, (ast.Subscript, ast.Assign))
        return self.a if is_indexed and _is_pointer(self.held(self.operand(0))) else ""

    @property
    def misplaced(self) -> str:
        """A parameter whose name ends in _ptr, and which was given no pointer."""
        named = (each for each in self.names.items() if each[0].endswith("_ptr"))
        odd = (name for name, held in named if isinstance(held, tensor) and not _is_pointer(held))
        return next(odd, "")

    @property
    def b_shape(self) -> str:
        return shape_text(self.held(self.operand(1)))

    @property
    def a_joined(self) -> str:
        """The first operand as it stands before a dot."""
        is_joined = self.operands and isinstance(self.operands[0], (ast.BinOp, ast.UnaryOp))
        return f"({self.a})" if is_joined else self.a

    @property
    def bitwise(self) -> str:
        """An operator on bits."""
        operator = getattr(self.node, "op", None)
        kinds = (ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)
        return self.expression if isinstance(operator, kinds) else ""

    @property
    def of_two(self) -> str:
        """tl.maximum or tl.minimum, where a reduction was given two values."""
        given = self.function in ("tl.max", "tl.min") and len(self.operands) > 1
        return f"{self.function}imum({self.a}, {self.b})" if given else ""

    @property
    def subscript(self) -> str:
        return self.expression if isinstance(self.node, ast.Subscript) else ""

    @property
    def picked(self) -> str:
        """A condition that indexes a block."""
        index = self.operand(1)
        held = self.held(index)
        is_known = isinstance(held, tensor) and held.type.scalar.is_bool()
        is_condition = isinstance(index, ast.Compare) or is_known
        return self.b if self.subscript and is_condition else ""

    @property
    def gathered(self) -> str:
        """A block of numbers that indexes a block."""
        return self.subscript if self.b_shape else ""

    @property
    def sliced(self) -> str:
        """A block that is indexed by slices of which one leaves something out."""
        index = self.operand(1)
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        texts = [ast.unparse(each) for each in parts if isinstance(each, ast.Slice)]
        return self.subscript if any(text != ":" for text in texts) else ""

    @property
    def parameters(self) -> str:
        """The names that a grid may ask for."""
        held = self.held(self.operand(0))
        return ", ".join(held) if isinstance(held, dict) else ""

    @property
    def foreign(self) -> str:
        """A name of PyTorch's, NumPy's or math's."""
        for node in ast.walk(self.node):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                home = getattr(self.held(node.value), "__name__", "")
                if home in ("torch", "numpy", "math"):
                    return ast.unparse(node)
        return ""

    @property
    def in_triton(self) -> str:
        """The name of a foreign function, or of a method, in Triton's language."""
        name = self.foreign or (self.node.attr if isinstance(self.node, ast.Attribute) else "")
        name = name.rpartition(".")[2]
        return f"tl.{name}" if name and hasattr(triton.language, name) else ""

    @property
    def range_size(self) -> str:
        """How long a range is that goes from `a` to `a + size`, or from `i * size` to
        `(i + 1) * size`."""
        match self.operands:
            case [start, ast.BinOp(left=left, op=ast.Add(), right=size)]:
                return ast.unparse(size) if ast.unparse(left) == ast.unparse(start) else ""
            case [ast.BinOp(left=first), ast.BinOp(left=after, op=ast.Mult(), right=size)]:
                is_next = ast.unparse(after) == f"{ast.unparse(first)} + 1"
                return ast.unparse(size) if is_next else ""
        return ""

    @property
    def length(self) -> str:
        """The last operand of a range, where that is a constant."""
        held = self.held(self.operands[-1]) if self.operands else None
        return str(held) if isinstance(held, int) else ""

    @property
    def power(self) -> str:
        """The power of two that a range of so many elements needs."""
        return str(triton.next_power_of_2(int(self.length))) if self.length else ""

    @cached_property
    def meeting(self) -> list[tuple[str, list[int]]]:
        """Two blocks that meet and do not fit: what each is called, and its shape."""
        for frame in reversed(self.frames):
            if frame.f_code.co_name == "broadcast_impl_value":
                blocks = [frame.f_locals[name] for name in ("lhs", "rhs")]
                break
        else:
            blocks = [self.held(each) for each in self.operands[:2]]
        if len(blocks) < 2 or not all(map(shape_text, blocks)):
            return []
        is_call = isinstance(self.node, ast.Call) and "dot" not in self.function
        if is_call or len(self.operands) < 2:
            return [(_role(block), _shape(block)) for block in blocks]
        # By itself Triton puts 1 before the shape of the one that has fewer axes.
        owns = map(self.held, self.operands)
        pairs = zip((self.a, self.b), owns, blocks, strict=False)
        return [(name, _shape(own if shape_text(own) else other)) for name, own, other in pairs]

    @property
    def met(self) -> str:
        """What two blocks are that do not fit."""
        return " and ".join(f"{name} is {shape}" for name, shape in self.meeting)

    @property
    def turned(self) -> str:
        """What to write where two blocks fit as soon as the axes of one are turned."""
        for (_, fixed), (name, other) in zip(self.meeting, self.meeting[::-1], strict=True):
            if len(fixed) == len(other) == 1:
                return "for a tile of all pairs give one [:, None] and the other [None, :]"
            if len(fixed) == 2 and other == fixed[::-1]:
                where = "or exchange [:, None] and [None, :] in its offsets"
                return f"one is turned: take .T of it, {where}"
            if len(fixed) == 2 and other == fixed[:1]:
                return f"write {name}[:, None]"
            if len(fixed) == 2 and other == [1, fixed[0]]:
                return "write [:, None] for [None, :]"
            if len(fixed) == 2 and other == [fixed[1], 1]:
                return "write [None, :] for [:, None], or reduce along the other axis"
        return "axes that meet must be equally long, or 1"

    def held(self, node: ast.AST | None) -> AnyValue:
        """What a name or a constant of the kernel stands for; None for any other expression."""
        if isinstance(node, ast.Constant):
            return node.value
        found = self.names.get(node.id) if isinstance(node, ast.Name) else None
        return getattr(found, "value", found)  # a constexpr's

    def _held(self) -> Iterator[tuple[str, AnyValue]]:
        """The names in the expression, with what they hold."""
        for node in ast.walk(self.node):
            if isinstance(node, ast.Name):
                yield node.id, self.names.get(node.id)


def chain_of(error: BaseException) -> list[BaseException]:
    """An error, the one it was raised from, and so on, also where the compiler hides that one."""
    cause = error.__cause__
    if cause is None and isinstance(error, CompilationError):
        cause = error.__context__
    return [error, *(chain_of(cause) if isinstance(cause, Exception) else [])]


def shape_text(block: Any) -> str:
    """The shape of a block, as "[16, 1]"; empty for any other value."""
    is_block = isinstance(block, tensor) and block.type.is_block()
    return str(_shape(block)) if is_block else ""


def _shape(block: tensor) -> list[int]:
    return [int(size) for size in block.shape]


def _role(block: tensor) -> str:
    if _is_pointer(block):
        return "the block of pointers"
    return "the mask" if block.type.scalar.is_bool() else "the value"


def _is_pointer(held: AnyValue) -> bool:
    return isinstance(held, tensor) and held.type.scalar.is_ptr()


def _expression(frame: FrameType, instruction: int) -> ast.AST:
    """The expression that an instruction belongs to, by its place in the text of its file."""
    start, end, first, last = [*frame.f_code.co_positions()][instruction // 2]
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
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
