"""Types of blocks, which Triton's interpreter would make anew for each operation's result.

It checks a shape and writes out a type's name each time, which is a fifth of a kernel's time in
CPU mode. A sixth goes into finding that two blocks are of one shape.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from course.type_names import AnyValue

from .patching import patched

_make_block, _make_tensor = core.block_type.__init__, core.tensor.__init__
_numpy_type = interpreter._get_np_dtype
_broadcast_any = TritonSemantic.broadcast_impl_value
_blocks: dict[tuple[AnyValue, ...], dict[str, Any]] = {}
"""(Kind and name of the elements' type, shape) -> what is known of the block's type."""
_tensors: dict[tuple[int, ...], dict[str, Any]] = {}
"""Shape -> what each tensor of it says of its shape."""
_numpy: dict[tuple[type, str], Any] = {}
"""(Kind, name) of a type -> NumPy's type for it."""


@contextlib.contextmanager
def types_remembered() -> Iterator[None]:
    """While active, the interpreter asks what it has found out about a type before."""
    with (
        patched(core.block_type, __init__=_block),
        patched(core.tensor, __init__=_tensor),
        patched(interpreter, _get_np_dtype=_numpy_type_of),
        patched(TritonSemantic, broadcast_impl_value=_broadcast),
    ):
        yield


def _block(made: core.block_type, element_ty: core.dtype, shape: Any) -> None:
    sizes = tuple(each.value if isinstance(each, core.constexpr) else each for each in shape)
    key = type(element_ty), element_ty.name, sizes
    if key not in _blocks:
        _make_block(made, element_ty, shape)  # refuses what is no shape
        _blocks[key] = vars(made).copy()
    vars(made).update(_blocks[key])


def _tensor(made: core.tensor, handle: Any, type: core.dtype) -> None:
    shape = tuple(type.shape) if type.is_block() else ()
    if shape not in _tensors:
        _make_tensor(made, handle, type)
        _tensors[shape] = {name: vars(made)[name] for name in ("shape", "numel")}
    vars(made).update(_tensors[shape], handle=handle, type=type, dtype=type.scalar)


def _numpy_type_of(triton_type: core.dtype) -> Any:
    key = type(triton_type), triton_type.name
    if key not in _numpy:
        _numpy[key] = _numpy_type(triton_type)
    return _numpy[key]


def _broadcast(semantic: TritonSemantic, lhs: Any, rhs: Any) -> Any:
    """Two blocks of one shape as they are, which Triton tells dimension by dimension."""
    blocks = lhs.type.is_block() and rhs.type.is_block()
    same = blocks and [*lhs.type.shape] == [*rhs.type.shape]
    return (lhs, rhs) if same else _broadcast_any(semantic, lhs, rhs)
