"""IR from a file: compiled on, and looked at value by value."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import CompiledKernel, make_backend


def compile_ir(path: Path, target: GPUTarget, options: dict[str, Any]) -> CompiledKernel:
    """Compile a file of TTIR or TTGIR on, with the options of the compiler that it knows."""
    known = vars(make_backend(target).parse_options({}))
    given = {key: _hashable(value) for key, value in options.items() if key in known}
    return triton.compile(str(path), target=target, options=given)


def _hashable(value: Any) -> Any:
    """With tuples for the lists that JSON has made of them."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


_TYPE = re.compile(r"(?:tensor|!ttg\.memdesc)<((?:\d+x)+)([^,]*), (#\w+\.\w+(?:<\{.*?\}>+)?)")
_WHOLE = re.compile(r", (\d+(?:x\d+)*)>$")
"""The buffer that a value in shared memory is a part of, where it is one."""
_YIELDED = {"scf.yield": 0, "scf.condition": 1}
"""What ends a loop's or a branch's region, and which of its operands becomes the first result of the whole."""


def values_with_layouts(ttgir: Path, target: GPUTarget) -> Iterator[dict[str, Any]]:
    """Every value of a file of TTGIR that has a layout, in order, with the layout as the compiler's own linear layout."""
    from triton._C.libtriton import gluon_ir, ir

    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    module = ir.parse_mlir_module(str(ttgir), context)
    builder = gluon_ir.GluonOpBuilder(context)
    found: list[dict[str, Any]] = []
    yielded: dict[int, list[str]] = {}  # by region, the locations of what it ends with

    def visit(
        operation: Any,
    ) -> None:  # those inside of a region come before the operation that it belongs to
        kind = operation.get_name()
        if kind in _YIELDED:
            operands = map(
                operation.get_operand, range(_YIELDED[kind], operation.get_num_operands())
            )
            yielded[operation.get_block().get_parent().id()] = [
                str(each.get_loc()) for each in operands
            ]
        inner = yielded.get(operation.get_region(0).id(), []) if operation.get_num_regions() else []
        for number in range(operation.get_num_results()):
            value = operation.get_result(number)
            text = str(value.get_type())
            if not (match := _TYPE.match(text)):
                continue
            shape = [int(size) for size in match[1].split("x")[:-1]]
            location = str(value.get_loc())
            found.append(
                {
                    "type": text, "shape": shape, "element": match[2], "bases": _bases(builder, value, text, shape),
                    "operation": kind, "location": location,
                    # The results of a loop share its location: each is named as what the loop's body ends with.
                    "named": inner[number] if number < len(inner) else location,
                }
            )  # fmt: skip

    module.walk(visit)
    yield from found


def _bases(builder: Any, value: Any, type: str, shape: list[int]) -> dict[str, list[list[int]]]:
    """The bases of a value's linear layout; none where this Triton has no view of it."""
    if "tensor_memory" in type:
        return {}
    try:
        if type.startswith("!ttg.memdesc"):
            layout = builder.get_gluon_layout_from_memdesc(value)
            if not hasattr(layout, "format_tensor_view"):
                return {}  # Triton 3.6 aborts the process where it is asked
            if hasattr(layout, "interval_padding_pairs"):
                return {}  # its linear layout leaves the padding out
            whole = _WHOLE.search(type)
            sizes = [int(size) for size in whole[1].split("x")] if whole else shape
            # In front of its own shape a buffer has the number of copies that a pipeline keeps.
            linear = builder.to_linear_layout(
                layout._to_ir(builder), sizes[-_shared_rank(layout) :]
            )
            return {"offset": linear.offset_bases, "block": linear.block_bases}
        layout = builder.get_gluon_layout_from_tensor(value)
        linear = builder.to_linear_layout(layout._to_ir(builder), shape)
        return {
            "register": linear.reg_bases, "lane": linear.lane_bases, "warp": linear.warp_bases, "block": linear.block_bases
        }  # fmt: skip
    except (ValueError, TypeError, AttributeError, RuntimeError, AssertionError):
        return {}


def _shared_rank(layout: Any) -> int:
    """How many dimensions a layout in shared memory has. The compiler aborts where it is given more or fewer."""
    if hasattr(layout, "rank"):
        return int(layout.rank)
    return len(layout.order) if hasattr(layout, "order") else len(layout.offset_bases[0])
