"""A stand-in for the part of PyTorch that a page's lessons use: tensors over NumPy.

What it has computes as PyTorch does, which the tests compare. What it lacks raises.
"""

import builtins
import math
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _dispatch
from ._dispatch import operation
from ._random import Generator, manual_seed, rand, randint, randn
from ._tensor import (
    ONE,
    Size,
    Tensor,
    UntypedStorage,
    allocated,
    allocated_like,
    bfloat16,
    bool,
    device,
    dtype,
    elementwise,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    isfinite,
    isnan,
    made,
    promote_types,
    result_kind,
    shape_of,
    uint8,
    uint16,
    uint32,
    uint64,
    values_of,
)

__version__ = "stand-in"
float, double, half, int, long = float32, float64, float16, int32, int64
inf, nan, pi = math.inf, math.nan, math.pi
strided, contiguous_format, preserve_format = "strided", "contiguous", "preserve"

LACKS = (
    "This page has no torch.{}: it has only what its lessons use of PyTorch. The lesson on your "
    "own machine has all of it."
)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(LACKS.format(name))


# New tensors
@operation("empty", overload="memory_format")
def empty(*size: Any, dtype: dtype | None = None, device: object = None) -> Tensor:
    """What it holds looks like nothing that is right by chance: NaN, or -1."""
    tensor = allocated(shape_of(size), dtype or float32, device)
    tensor._storage.memory[:] = 0xFF
    return tensor


@operation("full")
def full(
    size: Any, fill_value: Any, *, dtype: dtype | None = None, device: object = None
) -> Tensor:
    """Of one value."""
    tensor = allocated(shape_of((size,)), dtype or result_kind(values_of(fill_value)), device)
    tensor._put(values_of(fill_value))
    return tensor


@operation("zeros")
def zeros(*size: Any, dtype: dtype | None = None, device: object = None) -> Tensor:
    """Of zeros."""
    return allocated(shape_of(size), dtype or float32, device)


@operation("ones")
def ones(*size: Any, dtype: dtype | None = None, device: object = None) -> Tensor:
    """Of ones."""
    return made(np.ones(shape_of(size)), dtype or float32, device)


@operation("empty_like")
def empty_like(input: Tensor, *, dtype: dtype | None = None, device: object = None) -> Tensor:
    """As `empty`; of a dense tensor the strides are kept."""
    tensor = allocated_like(input._array, dtype or input.dtype, device)
    tensor._storage.memory[:] = 0xFF
    return tensor


@operation("zeros_like")
def zeros_like(input: Tensor, *, dtype: dtype | None = None, device: object = None) -> Tensor:
    """Of zeros, in the shape of another."""
    return empty_like(input, dtype=dtype, device=device).zero_()


@operation("ones_like")
def ones_like(input: Tensor, *, dtype: dtype | None = None, device: object = None) -> Tensor:
    """Of ones, in the shape of another."""
    return empty_like(input, dtype=dtype, device=device).fill_(1)


@operation("full_like")
def full_like(
    input: Tensor, fill_value: Any, *, dtype: dtype | None = None, device: object = None
) -> Tensor:
    """Of one value, in the shape of another."""
    return empty_like(input, dtype=dtype, device=device).fill_(fill_value)


@operation("arange")
def arange(*limits: Any, dtype: dtype | None = None, device: object = None) -> Tensor:
    """Numbers in steps."""
    return made(np.arange(*limits), dtype or result_kind(*limits), device)


@operation("lift_fresh")
def tensor(data: Any, *, dtype: dtype | None = None, device: object = None) -> Tensor:
    """Of numbers in lists."""
    array = np.asarray(values_of(data))
    if isinstance(data, Tensor):
        kind = data.dtype
    elif array.dtype.kind == "f" and not isinstance(data, (np.ndarray, np.floating)):
        kind = float32
    else:
        kind = made(array.ravel()[:0]).dtype
    return made(array, dtype or kind, device)


def as_tensor(data: Any, *, dtype: dtype | None = None) -> Tensor:
    """A tensor itself, or one of numbers."""
    return data.to(dtype=dtype) if isinstance(data, Tensor) else tensor(data, dtype=dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor over an array's memory."""
    kind = made(array.ravel()[:0]).dtype
    if not array.flags.c_contiguous:
        raise NotImplementedError("This page takes contiguous arrays: np.ascontiguousarray(x).")
    return Tensor(array, kind, UntypedStorage(memory=array.reshape(-1).view(np.uint8)))


def frombuffer(
    buffer: np.ndarray, *, dtype: dtype, count: builtins.int, offset: builtins.int
) -> Tensor:
    """A tensor over memory that is there."""
    memory = buffer.view(np.uint8)[offset : offset + count * dtype.itemsize]
    return Tensor(memory.view(dtype.bits), dtype, UntypedStorage(memory=memory))


_saved: dict[str, list[Tensor]] = {}


def save(tensors: list[Tensor], path: Any) -> None:
    """Keep copies of tensors: the page has no other process that would read a file."""
    _saved.clear()  # what was kept before has been read
    _saved[str(path)] = _copied(tensors)


def load(
    path: Any, *, mmap: builtins.bool, map_location: str, weights_only: builtins.bool
) -> list[Tensor]:
    """What was kept under a name."""
    return _copied(_saved[str(path)])


def _copied(tensors: list[Tensor]) -> list[Tensor]:
    """Copies, of which those share memory that share it."""
    storages = {each._storage._cdata: each._storage.clone() for each in tensors}
    return [
        empty(0, dtype=each.dtype).set_(
            storages[each._storage._cdata], each.storage_offset(), each.shape, each.stride()
        )
        for each in tensors
    ]


# Of several
@operation("where", overload="self")
def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    """The one where the condition holds, else the other."""
    kind = result_kind(input, other)
    return made(np.where(condition.values(), values_of(input), values_of(other)), kind)


@operation("stack")
def stack(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor:
    """Side by side along a new axis."""
    return made(np.stack([each.values() for each in tensors], dim), result_kind(*tensors))


@operation("cat")
def cat(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor:
    """One behind the other."""
    return made(np.concatenate([each.values() for each in tensors], dim), result_kind(*tensors))


@operation("constant_pad_nd")
def _pad(
    input: Tensor, pad: Sequence[builtins.int], mode: str = "constant", value: Any = 0
) -> Tensor:
    """More at the ends of the last axes; what is below zero takes off there."""
    if mode != "constant":
        raise NotImplementedError(f"This page does not pad by {mode!r}.")
    pairs = [(0, 0)] * (input.ndim - len(pad) // 2) + [*zip(pad[::2], pad[1::2], strict=True)][::-1]
    padded = np.pad(
        input.values(),
        [tuple(builtins.max(n, 0) for n in pair) for pair in pairs],
        constant_values=value or 0,
    )
    kept = tuple(
        slice(-builtins.min(first, 0), builtins.min(last, 0) or None) for first, last in pairs
    )
    return made(padded[kept], input.dtype)


def _gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """GELU, or its approximation by tanh."""
    if approximate == "none":
        return ONE["gelu"](input)
    if approximate != "tanh":
        raise NotImplementedError(f"This page does not approximate GELU by {approximate!r}.")
    return _gelu_by_tanh(input)


@operation("gelu")
def _gelu_by_tanh(input: Tensor) -> Tensor:
    root = math.sqrt(2 / math.pi)
    return elementwise(lambda x: 0.5 * x * (1 + np.tanh(root * (x + 0.044715 * x * x * x))), input)


def allclose(
    input: Tensor, other: Tensor, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8,
    equal_nan: builtins.bool = False,
) -> builtins.bool:  # fmt: skip
    """Whether all numbers are near."""
    pair = [np.asarray(each.values(), np.float64) for each in (input, other)]
    return builtins.bool(np.allclose(*pair, rtol, atol, equal_nan))


def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Whether shapes and all numbers are the same."""
    return input.shape == other.shape and np.array_equal(input.values(), other.values())


def is_tensor(obj: object) -> builtins.bool:
    """Whether it is one."""
    return isinstance(obj, Tensor)


class finfo:  # noqa: N801
    """The limits of a floating-point dtype."""

    def __init__(self, kind: dtype) -> None:
        exponent, largest = {
            float64: (-1022, 1023), float32: (-126, 127), float16: (-14, 15), bfloat16: (-126, 127),
            float8_e4m3fn: (-6, 8), float8_e5m2: (-14, 15),
        }[kind]  # fmt: skip
        self.eps = 2.0 ** (1 - kind.digits)
        self.smallest_normal = self.tiny = 2.0**exponent
        # In e4m3fn the largest pattern is NaN.
        self.max = (2 - self.eps * (2 if kind is float8_e4m3fn else 1)) * 2.0**largest
        self.min = -self.max


def iinfo(kind: dtype) -> np.iinfo[Any]:
    """The limits of an integer dtype."""
    return np.iinfo(kind.bits)


FUNCTIONS = (
    "add", "sub", "mul", "div", "maximum", "minimum", "hypot", "pow", "exp", "exp2", "log", "log2",
    "sqrt", "abs", "square", "relu", "sigmoid", "tanh", "rsqrt", "sum", "mean", "amax", "amin",
    "argmax", "max", "softmax", "log_softmax", "logsumexp", "cumsum", "flip", "clone", "clamp",
)  # fmt: skip
"""Functions that are methods too."""
globals().update({_name: getattr(Tensor, _name) for _name in FUNCTIONS})
matmul = Tensor.__matmul__
Tensor.new_zeros = lambda self, *size: zeros(*size, dtype=self.dtype)  # type: ignore[attr-defined]


def _module(name: str, **members: Any) -> Any:
    """A module of PyTorch's, with what is used of it."""
    module = types.ModuleType(f"{__name__}.{name}")

    def lacks(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise AttributeError(LACKS.format(f"{name}.{attribute}"))

    vars(module).update(members, __getattr__=lacks)
    parent, _, own = module.__name__.rpartition(".")
    sys.modules[module.__name__] = module
    setattr(sys.modules[parent], own, module)
    return module


_module("nn")
_module(
    "nn.functional", gelu=_gelu, pad=_pad, silu=ONE["silu"], relu=ONE["relu"],
    sigmoid=ONE["sigmoid"], softmax=Tensor.softmax, log_softmax=Tensor.log_softmax,
)  # fmt: skip
_module("cuda", is_available=lambda: False)
_module("_ops", HigherOrderOperator=_dispatch.HigherOrderOperator)
_module("ops", aten=_dispatch.aten)
_module("utils")
_module(
    "utils._python_dispatch", TorchDispatchMode=_dispatch.TorchDispatchMode,
    _disable_current_modes=_dispatch._disable_current_modes,
)  # fmt: skip
_module("utils._pytree", tree_map_only=_dispatch.tree_map_only)
_module("utils.weak", WeakTensorKeyDictionary=_dispatch.WeakTensorKeyDictionary)
for _name in ("empty", "empty_strided", "zeros", "ones", "full"):
    operation(f"new_{_name}")(__getattr__)  # the course lists them; nobody calls them here
operation("empty_strided")(__getattr__)
