"""Tensors over NumPy, at addresses that kernels see; dispatch modes are told what they compute."""

import builtins
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partialmethod, reduce
from typing import Any, NamedTuple

import numpy as np

from ._dispatch import operation
from ._print import text_of

ALIGNED = 64
"""What divides the address of new memory, as in PyTorch."""


class dtype:  # noqa: N801  as all of PyTorch's own names here
    """The type of a tensor's elements."""

    def __init__(self, name: str, bits: str, digits: int = 0, computed: str = "") -> None:
        """bits: NumPy's type that holds them. computed: the one that they are computed in."""
        self.name, self.bits, self.digits = name, np.dtype(bits), digits
        self.computed = np.dtype(computed or bits)
        self.itemsize = self.bits.itemsize
        self.is_floating_point = self.computed.kind == "f"
        self.is_complex = False
        self.is_signed = self.computed.kind in "if"

    @property
    def category(self) -> builtins.int:
        """Which of truth values, integers and floats."""
        return "biuf".index(self.computed.kind.replace("u", "i"))

    def __repr__(self) -> str:
        return f"torch.{self.name}"


float64, float32 = dtype("float64", "f8", 53), dtype("float32", "f4", 24)
float16, bfloat16 = dtype("float16", "f2", 11, "f4"), dtype("bfloat16", "u2", 8, "f4")
float8_e4m3fn, float8_e5m2 = (
    dtype("float8_e4m3fn", "u1", 4, "f4"),
    dtype("float8_e5m2", "u1", 3, "f4"),
)
float8_e4m3fnuz = dtype("float8_e4m3fnuz", "u1", 4, "f4")
float8_e5m2fnuz = dtype("float8_e5m2fnuz", "u1", 3, "f4")
int64, int32, int16, int8 = (dtype(f"int{8 * n}", f"i{n}") for n in (8, 4, 2, 1))
uint64, uint32, uint16, uint8 = (dtype(f"uint{8 * n}", f"u{n}") for n in (8, 4, 2, 1))
bool = dtype("bool", "?")
SUPPORTED = (
    float64, float32, float16, bfloat16, int64, int32, int16, int8, uint64, uint32, uint16, uint8,
    bool,
)  # fmt: skip
_BY_BITS = {each.bits: each for each in SUPPORTED if each is not bfloat16}
_RANK = (bool, uint8, int8, int16, int32, int64, bfloat16, float16, float32, float64)


class device:  # noqa: N801
    """Where a tensor lies: on the CPU."""

    def __init__(self, type: Any = "cpu") -> None:
        if str(type) != "cpu":
            raise RuntimeError(f"This page has no device {str(type)!r}: tensors lie on the CPU.")
        self.type, self.index = "cpu", None

    def __eq__(self, other: object) -> builtins.bool:
        return str(other) == "cpu"

    def __hash__(self) -> builtins.int:
        return hash("cpu")

    def __str__(self) -> str:
        return "cpu"


class Size(tuple[builtins.int, ...]):
    """A shape."""

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> builtins.int:
        """The number of elements."""
        return math.prod(self)


class UntypedStorage:
    """The memory of one or more tensors."""

    def __init__(self, size: builtins.int = 0, memory: np.ndarray | None = None) -> None:
        if memory is None:
            room = np.zeros(size + ALIGNED, np.uint8)
            begin = -room.ctypes.data % ALIGNED
            memory = room[begin : begin + size]
        self.memory = memory
        self.device = device()

    def nbytes(self) -> builtins.int:
        """Its size in bytes."""
        return self.memory.size

    size = nbytes

    def data_ptr(self) -> builtins.int:
        """Its address."""
        return self.memory.ctypes.data if self.memory.size else 0

    @property
    def _cdata(self) -> builtins.int:
        return self.memory.ctypes.data

    def cpu(self) -> "UntypedStorage":
        """It lies on the CPU."""
        return self

    def clone(self) -> "UntypedStorage":
        """The same bytes elsewhere."""
        copy = UntypedStorage(self.nbytes())
        copy.memory[:] = self.memory
        return copy


def _from_bits(bits: np.ndarray) -> np.ndarray:
    """What bfloat16s are, from their bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _to_bits(values: np.ndarray) -> np.ndarray:
    """The nearest bfloat16s, the even one of two."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(np.shape(values))
    rounded = (bits + (bits >> np.uint32(16) & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16)
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def shape_of(sizes: Sequence[Any]) -> tuple[builtins.int, ...]:
    """A shape that was given as one argument or as several."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    return tuple(map(operator.index, sizes))


def allocated(shape: Sequence[builtins.int], kind: dtype, on: object = None) -> "Tensor":
    """A tensor in new memory."""
    device(on or "cpu")
    if kind not in SUPPORTED:
        raise NotImplementedError(f"This page has no tensors of {kind}.")
    storage = UntypedStorage(math.prod(shape) * kind.itemsize)
    return Tensor(storage.memory.view(kind.bits).reshape(shape), kind, storage)


def allocated_like(array: np.ndarray, kind: dtype, on: object = None) -> "Tensor":
    """A tensor in new memory, whose axes lie as an array's do where that has no gaps."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    if array.flags.c_contiguous or not array.transpose(order).flags.c_contiguous:
        return allocated(array.shape, kind, on)
    return allocated([array.shape[axis] for axis in order], kind, on).permute(*np.argsort(order))


def made(
    values: Any, kind: dtype | None = None, on: object = None, *, lies: builtins.bool = False
) -> "Tensor":
    """A new tensor of these numbers. lies: whether its axes lie as theirs do."""
    values = np.asarray(values)
    allocate = allocated_like if lies else lambda array, *rest: allocated(array.shape, *rest)
    tensor = allocate(values, kind or _BY_BITS[values.dtype], on)
    tensor._put(values)
    return tensor


def values_of(operand: Any) -> Any:
    """The numbers of a tensor, or a number itself."""
    return operand.values() if isinstance(operand, Tensor) else operand


def promote_types(one: dtype, other: dtype) -> dtype:
    """The dtype of what is computed of these two."""
    pair = {one, other}
    if pair == {bfloat16, float16}:
        return float32
    if pair == {uint8, int8}:
        return int16
    if len(pair) > 1 and not pair <= set(_RANK):
        raise NotImplementedError(f"This page does not compute with {one} and {other} together.")
    return one if len(pair) == 1 else max(pair, key=_RANK.index)


def result_kind(*operands: Any) -> dtype:
    """The dtype of a result: a single number changes the category alone."""
    tensors = [each for each in operands if isinstance(each, Tensor)]
    levels = [
        [each.dtype for each in tensors if each.ndim],
        [each.dtype for each in tensors if not each.ndim],
        [_kind_of_number(each) for each in operands if not isinstance(each, Tensor)],
    ]
    kind: dtype | None = None
    for level in levels:
        if level and (kind is None or reduce(promote_types, level).category > kind.category):
            kind = reduce(promote_types, level)
    assert kind is not None
    return kind


def _kind_of_number(number: Any) -> dtype:
    if isinstance(number, (builtins.bool, np.bool_)):
        return bool
    if isinstance(number, (builtins.int, np.integer)):
        return int64
    if isinstance(number, (builtins.float, np.floating)):
        return float32
    raise TypeError(
        f"This page computes with tensors and numbers, not with {type(number).__name__}."
    )


def elementwise(
    function: Callable[..., Any], *operands: Any, kind: dtype | None = None,
    computed: np.dtype | None = None,
) -> "Tensor":  # fmt: skip
    """Numbers of tensors, each computed of those at the same place.

    kind: the result's; by default what the operands promote to. computed: the type for the way.
    """
    promoted = result_kind(*operands)
    kind = kind or promoted
    computed = computed or (kind if kind.is_floating_point else promoted).computed
    with np.errstate(all="ignore"):
        arrays = [np.asarray(values_of(each)).astype(computed) for each in operands]
        return made(function(*arrays), kind, lies=True)


def _along(
    name: str, function: Callable[..., Any], kind: dtype | None = None
) -> Callable[..., "Tensor"]:
    """An operation that leaves one number of all along some axes. kind: the result's."""

    @operation(name)
    def reduced(x: "Tensor", dim: Any = None, keepdim: builtins.bool = False) -> "Tensor":
        return x._reduced(function, dim, keepdim, kind)

    return reduced


class _Found(NamedTuple):
    """The extremes along an axis, and where they are."""

    values: "Tensor"
    indices: "Tensor"


class Tensor:
    """An array with a dtype, in memory that several may share."""

    __array_priority__ = 100
    requires_grad = is_cuda = is_meta = is_nested = is_quantized = is_sparse = False
    layout = "strided"
    grad_fn = None

    def __init__(self, array: np.ndarray, kind: dtype, storage: UntypedStorage) -> None:
        self._array, self.dtype, self._storage = array, kind, storage
        self.device = device()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"A tensor in this page has no {name!r}: a page of the site has only what its lessons "
            "use of PyTorch. The lesson on your own machine has all of it."
        )

    # Where it lies
    @property
    def shape(self) -> Size:
        return Size(self._array.shape)

    ndim = property(lambda self: self._array.ndim)
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self._array.size * self.dtype.itemsize)

    def size(self, dim: builtins.int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> builtins.int:
        return self._array.ndim

    def stride(self, dim: builtins.int | None = None) -> Any:
        # NumPy keeps none for tensors without elements.
        strides = tuple(step // self.itemsize for step in self._array.strides)
        if not self._array.size:
            sizes = [max(size, 1) for size in self.shape]
            strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(self.ndim))
        return strides if dim is None else strides[dim]

    def numel(self) -> builtins.int:
        return self._array.size

    def element_size(self) -> builtins.int:
        return self.dtype.itemsize

    def storage_offset(self) -> builtins.int:
        return (self._array.ctypes.data - self._storage.memory.ctypes.data) // self.itemsize

    def data_ptr(self) -> builtins.int:
        return self._array.ctypes.data if self._storage.nbytes() else 0

    def untyped_storage(self) -> UntypedStorage:
        return self._storage

    def is_contiguous(self) -> builtins.bool:
        return self._array.flags.c_contiguous

    def is_floating_point(self) -> builtins.bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> builtins.bool:
        return False

    def set_(
        self, storage: UntypedStorage, offset: builtins.int | None = None,
        size: Sequence[builtins.int] | None = None, stride: Sequence[builtins.int] | None = None,
    ) -> "Tensor":  # fmt: skip
        self._storage = storage
        whole = storage.memory[: storage.nbytes() // self.itemsize * self.itemsize]
        whole = whole.view(self.dtype.bits)[offset or 0 :]
        size = (whole.size,) if size is None else size
        steps = [step * self.itemsize for step in ((1,) if stride is None else stride)]
        self._array = np.lib.stride_tricks.as_strided(whole, tuple(size), steps)
        return self

    # Views
    def _view(self, array: np.ndarray) -> "Tensor":
        return Tensor(array, self.dtype, self._storage)

    @operation("as_strided", is_view=True)
    def as_strided(
        self, size: Sequence[builtins.int], stride: Sequence[builtins.int],
        storage_offset: builtins.int | None = None,
    ) -> "Tensor":  # fmt: skip
        offset = self.storage_offset() if storage_offset is None else storage_offset
        return self._view(self._array).set_(self._storage, offset, size, stride)

    @operation("view", is_view=True)
    def view(self, *shape: Any) -> "Tensor":
        if isinstance(shape[0], dtype):
            return Tensor(self._array.view(shape[0].bits), shape[0], self._storage)
        array = self._array.view()
        array.shape = shape_of(shape)  # raises where that needs a copy
        return self._view(array)

    def reshape(self, *shape: Any) -> "Tensor":
        array = self._array.reshape(shape_of(shape))
        if not array.size or np.shares_memory(array, self._array):
            return self.view(*array.shape) if array.shape else self.view(())
        return self.contiguous().view(*array.shape)

    def flatten(self) -> "Tensor":
        return self.reshape(-1)

    @operation("permute", is_view=True)
    def permute(self, *dims: Any) -> "Tensor":
        return self._view(self._array.transpose(shape_of(dims)))

    @operation("transpose", overload="int", is_view=True)
    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> "Tensor":
        return self._view(self._array.swapaxes(dim0, dim1))

    @operation("t", is_view=True)
    def t(self) -> "Tensor":
        return self._view(self._array.T)

    T = property(lambda self: self.t())
    mT = property(lambda self: self.transpose(-2, -1))

    @operation("unsqueeze", is_view=True)
    def unsqueeze(self, dim: builtins.int) -> "Tensor":
        return self._view(np.expand_dims(self._array, dim))

    @operation("squeeze", is_view=True)
    def squeeze(self, dim: builtins.int | None = None) -> "Tensor":
        return self._view(self._array.squeeze(dim))

    @operation("expand", is_view=True)
    def expand(self, *shape: Any) -> "Tensor":
        return self._view(np.broadcast_to(self._array, shape_of(shape)))

    @operation("select", overload="int", is_view=True)
    def _indexed(self, index: Any) -> "Tensor":
        rest = () if any(each is ... for each in index) else (...,)
        return self._view(self._array[(*index, *rest)])

    @operation("index", overload="Tensor")
    def _picked(self, index: Any) -> "Tensor":
        picked = allocated((taken := self._array[index]).shape, self.dtype)
        picked._array[...] = taken
        return picked

    def __getitem__(self, index: Any) -> "Tensor":
        index = tuple(map(_plain_index, index if isinstance(index, tuple) else (index,)))
        if any(isinstance(each, np.ndarray) for each in index):
            return self._picked(index)
        return self._indexed(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        index = tuple(map(_plain_index, index if isinstance(index, tuple) else (index,)))
        if any(isinstance(each, np.ndarray) for each in index):
            self._put(values_of(value), index)
        else:
            self._indexed(index).copy_(value)

    def __len__(self) -> builtins.int:
        return len(self._array)

    def __iter__(self) -> Iterator["Tensor"]:
        return (self[i] for i in range(len(self)))

    # What it holds
    def values(self) -> np.ndarray:
        """Its numbers; those of bfloat16 in float32."""
        return _from_bits(self._array) if self.dtype is bfloat16 else self._array

    def _put(self, values: Any, index: Any = ...) -> None:
        with np.errstate(all="ignore"):
            self._array[index] = _to_bits(np.asarray(values)) if self.dtype is bfloat16 else values

    def numpy(self) -> np.ndarray:
        if self.dtype is bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._array

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray:
        return np.asarray(self.values(), dtype)

    def tolist(self) -> Any:
        return self.values().tolist()

    @operation("_local_scalar_dense")
    def item(self) -> Any:
        return self.values().item()

    def __bool__(self) -> builtins.bool:
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return builtins.bool(self.item())

    def __float__(self) -> builtins.float:
        return builtins.float(self.item())

    def __int__(self) -> builtins.int:
        return builtins.int(self.item())

    def __index__(self) -> builtins.int:
        return operator.index(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.ndim == 0 else str(self), spec)

    def __repr__(self) -> str:
        return text_of(self, repr(self.dtype), self.dtype in (float32, int64, bool))

    @operation("fill", overload="Scalar")
    def fill_(self, value: Any) -> "Tensor":
        self._put(values_of(value))
        return self

    def zero_(self) -> "Tensor":
        return self.fill_(0)

    @operation("copy")
    def copy_(self, other: Any) -> "Tensor":
        self._put(values_of(other))
        return self

    @operation("clone")
    def clone(self, *, memory_format: str = "preserve") -> "Tensor":
        if memory_format == "preserve":
            copy = allocated_like(self._array, self.dtype)
        else:
            copy = allocated(self.shape, self.dtype)
        copy._array[...] = self._array
        return copy

    def contiguous(self) -> "Tensor":
        return self if self.is_contiguous() else self.clone(memory_format="contiguous")

    @operation("_to_copy")
    def _to_copy(self, dtype: dtype) -> "Tensor":
        return made(self.values(), dtype, lies=True)

    def to(
        self, to: Any = None, *, dtype: dtype | None = None, copy: builtins.bool = False
    ) -> "Tensor":
        if isinstance(to, Tensor):
            to = to.dtype
        if to is not None and not isinstance(to, _DTYPE):
            device(to)
        else:
            dtype = dtype or to
        changes = dtype not in (None, self.dtype)
        return self._to_copy(dtype or self.dtype) if copy or changes else self

    def cpu(self) -> "Tensor":
        return self

    detach = cpu

    def masked_fill(self, mask: "Tensor", value: Any) -> "Tensor":
        return made(np.where(mask.values(), value, self.values()), self.dtype)

    @operation("nonzero")
    def nonzero(self) -> "Tensor":
        return made(np.argwhere(self._array).astype(np.int64))

    # Along axes
    def _reduced(
        self,
        function: Callable[..., Any],
        dim: Any,
        keepdim: builtins.bool,
        kind: dtype | None = None,
    ) -> "Tensor":
        dim = tuple(dim) if isinstance(dim, list) else dim
        with np.errstate(all="ignore"):
            out = function(self.values().astype(self.dtype.computed), axis=dim, keepdims=keepdim)
        return made(out, kind or self.dtype)

    @operation("sum", overload="dim_IntList")
    def sum(
        self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: dtype | None = None
    ) -> "Tensor":
        # In double: PyTorch adds in many short pieces, and is as near.
        wide = np.float64 if self.is_floating_point() else np.int64
        kind = dtype or (self.dtype if self.is_floating_point() else int64)
        return self._reduced(lambda x, **at: np.sum(x, dtype=wide, **at), dim, keepdim, kind)

    @operation("mean", overload="dim")
    def mean(self, dim: Any = None, keepdim: builtins.bool = False) -> "Tensor":
        return self._reduced(lambda x, **at: np.mean(x, dtype=np.float64, **at), dim, keepdim)

    amax = _along("amax", np.max)
    amin = _along("amin", np.min)
    _max = _along("max", np.max)

    def max(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        if dim is None:
            return self._max()
        return _Found(self.amax(dim, keepdim), self.argmax(dim, keepdim))

    @operation("min")
    def min(self) -> "Tensor":
        return self._reduced(np.min, None, False)

    argmax = _along("argmax", np.argmax, int64)
    all = _along("all", np.all, bool)
    any = _along("any", np.any, bool)

    @operation("cumsum")
    def cumsum(self, dim: builtins.int) -> "Tensor":
        wide = np.float64 if self.is_floating_point() else np.int64
        kind = self.dtype if self.is_floating_point() else int64
        return made(np.cumsum(self.values(), axis=dim, dtype=wide), kind)

    @operation("_softmax")
    @np.errstate(all="ignore")
    def softmax(self, dim: builtins.int) -> "Tensor":
        wide = self.values().astype(np.float64)
        powers = np.exp(wide - wide.max(axis=dim, keepdims=True, initial=-np.inf))
        return made(powers / powers.sum(axis=dim, keepdims=True), self.dtype)

    @operation("_log_softmax")
    @np.errstate(all="ignore")
    def log_softmax(self, dim: builtins.int) -> "Tensor":
        wide = self.values().astype(np.float64)
        wide = wide - wide.max(axis=dim, keepdims=True, initial=-np.inf)
        return made(wide - np.log(np.exp(wide).sum(axis=dim, keepdims=True)), self.dtype)

    @operation("logsumexp")
    def logsumexp(self, dim: Any, keepdim: builtins.bool = False) -> "Tensor":
        with np.errstate(all="ignore"):
            wide = self.values().astype(np.float64)
            most = wide.max(axis=dim, keepdims=True, initial=-np.inf)
            most = np.where(np.isfinite(most), most, 0)
            total = np.log(np.exp(wide - most).sum(axis=dim, keepdims=True)) + most
        return made(total if keepdim else total.squeeze(dim), self.dtype)

    @operation("repeat")
    def repeat(self, *sizes: Any) -> "Tensor":
        copies = allocated((taken := np.tile(self._array, shape_of(sizes))).shape, self.dtype)
        copies._array[...] = taken
        return copies

    def flip(self, *dims: Any) -> "Tensor":
        return _flipped(self, shape_of(dims))

    # Products of matrices
    def __matmul__(self, other: "Tensor") -> "Tensor":
        product = _mm if self.ndim == other.ndim == 2 else _bmm
        return product(self, other)

    # Numbers
    @operation("clamp")
    def clamp(self, min: Any = None, max: Any = None) -> "Tensor":
        bounds = [values_of(bound) for bound in (min, max)]
        return elementwise(lambda x: np.clip(x, *bounds), self)

    @operation("nan_to_num")
    def nan_to_num(self, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> "Tensor":
        def changed(x: np.ndarray) -> np.ndarray:
            return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)

        return elementwise(changed, self)

    def type_as(self, other: "Tensor") -> "Tensor":
        return self.to(other.dtype)

    def new_empty(self, *size: Any, dtype: dtype | None = None, device: object = None) -> "Tensor":
        from . import empty

        return empty(*size, dtype=dtype or self.dtype, device=device)


_DTYPE = dtype


def _plain_index(index: Any) -> Any:
    if isinstance(index, Tensor):
        return index._array if index.ndim or index.dtype is bool else index.item()
    if isinstance(index, list):
        return np.asarray(index)
    return index


def _product(one: Tensor, other: Tensor) -> Tensor:
    wide = [np.asarray(each.values(), np.float64) for each in (one, other)]
    with np.errstate(all="ignore"):
        return made(np.matmul(*wide), promote_types(one.dtype, other.dtype))


_mm, _bmm = operation("mm")(_product), operation("bmm")(_product)
_flipped = operation("flip")(lambda x, dims: made(np.flip(x.values(), dims).copy(), x.dtype))

Binary = Callable[[Any, Any], Any]


def _of_two(
    name: str, function: Binary, kind: dtype | None = None, floats: builtins.bool = False
) -> Binary:
    """An operation on two. kind: the result's. floats: whether integers become floats."""

    @operation(name, overload="Tensor")
    def computed(one: Any, other: Any) -> Tensor:
        promoted = result_kind(one, other)
        own = float32 if floats and not promoted.is_floating_point else kind
        return elementwise(
            function, one, other, kind=own, computed=None if own is float32 else promoted.computed
        )

    return computed


def _of_one(
    name: str, function: Callable[[Any], Any], floats: builtins.bool = True
) -> Callable[[Any], Tensor]:
    """An operation on one. floats: whether integers become floats."""

    @operation(name)
    def computed(x: Tensor) -> Tensor:
        return elementwise(
            function, x, kind=float32 if floats and not x.is_floating_point() else None
        )

    return computed


def _erf(x: np.ndarray) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


TWO = {
    name: _of_two(name, function)
    for name, function in {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_divide": np.floor_divide,
        "remainder": np.remainder, "pow": np.power, "maximum": np.maximum, "minimum": np.minimum,
        "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
        "hypot": np.hypot, "rsub": lambda x, y: y - x,
    }.items()
}  # fmt: skip
TWO["div"] = _of_two("div", np.divide, floats=True)
TWO |= {
    name: _of_two(name, function, kind=bool)
    for name, function in {
        "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
        "eq": np.equal, "ne": np.not_equal,
    }.items()
}  # fmt: skip
ONE = {
    name: _of_one(name, function)
    for name, function in {
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
        "tanh": np.tanh, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": np.reciprocal,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
        "gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    }.items()
}  # fmt: skip
ONE |= {
    name: _of_one(name, function, floats=False)
    for name, function in {
        "abs": np.abs, "neg": np.negative, "bitwise_not": np.invert, "square": np.square,
        "relu": lambda x: np.maximum(x, 0), "round": np.round,
        "sign": lambda x: (x > 0) * x.dtype.type(1) - (x < 0),
    }.items()
}  # fmt: skip


@operation("isnan")
def isnan(x: Tensor) -> Tensor:
    """Where it is no number."""
    return made(np.isnan(x.values()), bool)


@operation("isfinite")
def isfinite(x: Tensor) -> Tensor:
    """Where it is a finite number."""
    return made(np.isfinite(x.values()), bool)


def _in_place(function: Binary) -> Binary:
    return lambda one, other: one.copy_(function(one, other))


for _name, _function in (*TWO.items(), *ONE.items(), ("isnan", isnan), ("isfinite", isfinite)):
    setattr(Tensor, _name, _function)
for _name, _kind in {
    "double": float64, "float": float32, "half": float16, "bfloat16": bfloat16, "int": int32,
    "long": int64, "bool": bool,
}.items():  # fmt: skip
    setattr(Tensor, _name, partialmethod(Tensor.to, _kind))
for _symbol, _name in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor",
}.items():  # fmt: skip
    setattr(Tensor, f"__{_symbol}__", TWO[_name])
    setattr(Tensor, f"__i{_symbol}__", _in_place(TWO[_name]))
for _name in ("add", "mul", "sub", "div"):
    setattr(Tensor, f"{_name}_", _in_place(TWO[_name]))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Tensor, f"__{_name}__", TWO[_name])
Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
for _symbol, _function in {
    "radd": TWO["add"], "rmul": TWO["mul"], "rsub": TWO["rsub"], "rand": TWO["bitwise_and"],
    "ror": TWO["bitwise_or"], "rtruediv": lambda x, y: ONE["reciprocal"](x) * y,
    "rpow": lambda x, y: TWO["pow"](y, x), "neg": ONE["neg"], "abs": ONE["abs"],
    "invert": ONE["bitwise_not"],
}.items():  # fmt: skip
    setattr(Tensor, f"__{_symbol}__", _function)
