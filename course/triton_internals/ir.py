"""IR from a file: compiled on, and looked at value by value."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import CompiledKernel, make_backend

from course.brackets import split_outside_brackets
from course.type_names import AnyValue, AnyValues

Bases = dict[str, list[list[int]]]


def compile_ir(path: Path, target: GPUTarget, options: AnyValues) -> CompiledKernel:
    """Compile a file of TTIR or TTGIR on, with the options of the compiler that it knows."""
    known = vars(make_backend(target).parse_options({}))
    options = {name: _hashable(value) for name, value in options.items() if name in known}
    return triton.compile(str(path), target=target, options=options)


def _hashable(value: AnyValue) -> Any:
    """The value with tuples in place of lists."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class BlockType:
    """A type with a layout: `tensor<64x32xf32, #blocked>`, or a buffer in shared memory."""

    shape: tuple[int, ...]
    element: str
    """`f32`, or `!tt.ptr<f32>`."""
    layout: str
    """A name, as `#blocked`, or an attribute in full, as `#ttg.slice<{…}>`."""
    shared: bool
    """Whether it is a buffer in shared memory."""


_BLOCK_TYPE = re.compile(r"(tensor|!?(?:ttg\.)?memdesc)<((?:\d+x)+)([^,<>]*(?:<[^<>]*>)?), (?=#)")


def block_types(text: str) -> list[BlockType]:
    """The types with a layout in a piece of IR, in order."""
    return [
        BlockType(
            tuple(int(size) for size in match[2].split("x")[:-1]),
            match[3],
            split_outside_brackets(text[match.end() :], ",")[0],
            match[1] != "tensor",
        )
        for match in _BLOCK_TYPE.finditer(text)
    ]


@dataclass(frozen=True)
class LaidOutValue:
    """A value of the TTGIR that has a layout."""

    type: BlockType
    bases: Bases
    """Its layout as the compiler's own linear layout; empty where this Triton has no view of it."""
    operation: str
    location: str
    """Where the value comes from, as MLIR prints it."""
    named: str
    """The location that names it: a loop's results share its location, so each has that of what the
    loop's body ends with."""


_YIELDED = {"scf.yield": 0, "scf.condition": 1}
"""What ends a loop's or a branch's region, and which operand becomes the first result."""
_WHOLE = re.compile(r", (\d+(?:x\d+)*)>$")
"""The buffer that a value in shared memory is a part of, where it is one."""


def values_with_layouts(ttgir: Path, target: GPUTarget) -> Iterator[LaidOutValue]:
    """Every value of a file of TTGIR that has a layout, in order."""
    from triton._C.libtriton import gluon_ir, ir

    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    module = ir.parse_mlir_module(str(ttgir), context)
    builder = gluon_ir.GluonOpBuilder(context)
    values: list[LaidOutValue] = []
    yielded: dict[int, list[str]] = {}  # by region, the locations of what it ends with

    # Operations inside of a region come before the one that the region belongs to.
    def visit(operation: Any) -> None:
        name = operation.get_name()
        if name in _YIELDED:
            places = range(_YIELDED[name], operation.get_num_operands())
            locations = [str(operation.get_operand(place).get_loc()) for place in places]
            yielded[operation.get_block().get_parent().id()] = locations
        inner = yielded.get(operation.get_region(0).id(), []) if operation.get_num_regions() else []
        for number in range(operation.get_num_results()):
            value = operation.get_result(number)
            text = str(value.get_type())
            type = next(iter(block_types(text)), None)
            if type is None or not text.startswith(("tensor<", "!ttg.memdesc<")):
                continue
            location = str(value.get_loc())
            named = inner[number] if number < len(inner) else location
            bases = _bases(builder, value, text, type)
            values.append(LaidOutValue(type, bases, name, location, named))

    module.walk(visit)
    yield from values


def _bases(builder: Any, value: AnyValue, text: str, type: BlockType) -> Bases:
    """The bases of a value's linear layout; empty where this Triton has no view of it."""
    if "tensor_memory" in text:
        return {}
    try:
        if not type.shared:
            layout = builder.get_gluon_layout_from_tensor(value)
            linear = builder.to_linear_layout(layout._to_ir(builder), [*type.shape])
            bases = linear.reg_bases, linear.lane_bases, linear.warp_bases, linear.block_bases
            return dict(zip(("register", "lane", "warp", "block"), bases, strict=True))
        layout = builder.get_gluon_layout_from_memdesc(value)
        if not hasattr(layout, "format_tensor_view"):
            return {}  # Triton 3.6 aborts the process where it is asked
        if hasattr(layout, "interval_padding_pairs"):
            return {}  # its linear layout leaves the padding out
        whole = _WHOLE.search(text)
        sizes = [int(size) for size in whole[1].split("x")] if whole else [*type.shape]
        # In front of its own shape a buffer has the number of copies that a pipeline keeps.
        linear = builder.to_linear_layout(layout._to_ir(builder), sizes[-_shared_rank(layout) :])
        return {"offset": linear.offset_bases, "block": linear.block_bases}
    except (ValueError, TypeError, AttributeError, RuntimeError, AssertionError):
        return {}


def _shared_rank(layout: Any) -> int:
    """The dimensions of a layout in shared memory. The compiler aborts at any other number."""
    if hasattr(layout, "rank"):
        return int(layout.rank)
    return len(layout.order) if hasattr(layout, "order") else len(layout.offset_bases[0])
