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


def values_with_layouts(ttgir: Path, target: GPUTarget, shared: bool, views: bool) -> Iterator[dict[str, Any]]:
    """Every value of a file of TTGIR that has a layout, in order, with the layout as the compiler's own linear layout.

    shared: values in shared memory, and not those in registers. views: whether to ask for the linear layouts, at which Triton
        3.9.0 aborts the process for the former.
    """
    from triton._C.libtriton import gluon_ir, ir

    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    module = ir.parse_mlir_module(str(ttgir), context)
    builder = gluon_ir.GluonOpBuilder(context)
    found: list[dict[str, Any]] = []

    def visit(operation: Any) -> None:
        for number in range(operation.get_num_results()):
            value = operation.get_result(number)
            text = str(value.get_type())
            match = re.match(r"(?:tensor|!ttg\.memdesc)<((?:\d+x)+)([^,]*), (#\w+\.\w+(?:<\{.*?\}>+)?)", text)
            if match is None or text.startswith("!ttg.memdesc") != shared:
                continue
            shape = [int(size) for size in match[1].split("x")[:-1]]
            bases = _bases(builder, value, shape, shared) if views and "tensor_memory" not in text else {}
            location = str(value.get_loc())
            variable = re.search(r'(?:^loc\(| at )"(\w+)"\(', location)  # of a library's operation, the caller's
            found.append(
                {
                    "type": text, "shape": shape, "element": match[2], "bases": bases, "operation": operation.get_name(),
                    "variable": variable[1] if variable else "", "location": location,
                }
            )  # fmt: skip

    module.walk(visit)
    yield from found


def _bases(builder: Any, value: Any, shape: list[int], shared: bool) -> dict[str, list[list[int]]]:
    """The bases of a value's linear layout; none where this Triton has no view of it."""
    try:
        if shared:
            layout = builder.get_gluon_layout_from_memdesc(value)
            # In front of its own shape a buffer has the number of copies that a pipeline keeps.
            linear = builder.to_linear_layout(layout._to_ir(builder), shape[-getattr(layout, "rank", 2) :])
            return {"offset": linear.offset_bases, "block": linear.block_bases}
        layout = builder.get_gluon_layout_from_tensor(value)
        linear = builder.to_linear_layout(layout._to_ir(builder), shape)
        return {
            "register": linear.reg_bases, "lane": linear.lane_bases, "warp": linear.warp_bases, "block": linear.block_bases
        }  # fmt: skip
    except (ValueError, TypeError, AttributeError, RuntimeError):
        return {}
