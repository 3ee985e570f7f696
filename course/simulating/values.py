"""Blocks and pointers of a simulated kernel: NumPy's arrays with the types of Triton.

float16 is computed in float16. bfloat16, which NumPy lacks, is kept as the float32 of equal value.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import SupportsIndex, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from triton.experimental.gluon import language as gl
from triton.language import pointer_type

from .constants import Layout, unwrapped
from .faults import HazardError, OnlyKnown, SimulationError
from .global_memory import Storage
from .layouts import common_layout, expanded_layout, sliced_layout

NUMPY = {
    gl.float16: np.float16, gl.bfloat16: np.float32, gl.float32: np.float32,
    gl.float64: np.float64, gl.int1: np.bool_, gl.int8: np.int8, gl.int16: np.int16,
    gl.int32: np.int32, gl.int64: np.int64, gl.uint8: np.uint8, gl.uint32: np.uint32,
}  # fmt: skip
TORCH = {
    torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float32: gl.float32,
    torch.float64: gl.float64, torch.bool: gl.int1, torch.int8: gl.int8, torch.int16: gl.int16,
    torch.int32: gl.int32, torch.int64: gl.int64, torch.uint8: gl.uint8,
}  # fmt: skip

Shape: TypeAlias = Sequence[SupportsIndex]
"""Sizes of axes: whole numbers of Python, constants, blocks of one element."""
Key: TypeAlias = slice | tuple[slice | None, ...] | None
"""What stands in brackets after a block: None where it gets another axis."""
Numbers: TypeAlias = np.ndarray | float
"""What NumPy computes with."""


def rounded(array: ArrayLike, dtype: gl.dtype) -> np.ndarray:
    """An array in NumPy's type for `dtype`, with its values rounded to it."""
    if dtype == gl.bfloat16:
        values = torch.from_numpy(np.array(array, np.float32, order="C"))
        return values.to(torch.bfloat16).float().numpy()
    given = np.asarray(array)
    if given.dtype.kind == "f" and dtype.is_int() and dtype != gl.int1:
        given = _whole(given, dtype)
    with np.errstate(all="ignore"):
        return given.astype(NUMPY[dtype])


def _whole(array: np.ndarray, dtype: gl.dtype) -> np.ndarray:
    """Numbers without their fractions, as a GPU converts them: those too large become the largest
    of 32 or 64 bits, and NaN becomes 0."""
    wide = np.int64 if dtype.primitive_bitwidth == 64 else np.int32
    limits = np.iinfo(np.uint32 if dtype == gl.uint32 else wide)
    whole = np.nan_to_num(np.trunc(array.astype(np.float64)), nan=0.0)
    too_large, too_small = whole >= limits.max, whole <= limits.min
    safe = np.where(too_large | too_small, 0, whole).astype(limits.dtype)
    return np.where(too_large, limits.max, np.where(too_small, limits.min, safe))


class Block(OnlyKnown):
    """A tensor of a kernel."""

    def __init__(self, array: ArrayLike, dtype: gl.dtype, layout: Layout | None = None) -> None:
        self.array, self.dtype, self.layout = np.asarray(array), dtype, layout

    @property
    def shape(self) -> list[int]:
        return list(self.array.shape)

    @property
    def type(self) -> "Block":
        return self  # for `block.type.layout`

    def to(self, dtype: gl.dtype) -> "Block":
        return Block(rounded(self.values(), dtype), dtype, self.layout)

    def values(self) -> np.ndarray:
        """The elements, where they can be used already."""
        return self.array

    def reshape(self, shape: Shape) -> "Block":
        """The same elements in another shape, and in a layout that only a compiler works out."""
        return Block(self.values().reshape([int(size) for size in shape]), self.dtype)

    def permute(self, order: Shape) -> "Block":
        """The axes in another order, and a layout that only a compiler works out."""
        return Block(self.values().transpose([int(axis) for axis in order]), self.dtype)

    def split(self) -> "tuple[Block, Block]":
        """The two halves along the last axis, which has two elements."""
        values = self.values()
        if values.ndim == 0 or values.shape[-1] != 2:
            raise SimulationError(
                f"split takes a block whose last axis has 2 elements; the shape is {self.shape}."
            )
        return Block(values[..., 0], self.dtype), Block(values[..., 1], self.dtype)

    def __getitem__(self, key: Key) -> "Block":
        return Block(self.values()[key], self.dtype, expanded_layout(self.layout, key))

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise SimulationError(
                "A block has no single truth: use gl.where or a mask, and join conditions by & and "
                "|, not by `and` and `or`."
            )
        return bool(self.values())

    def __index__(self) -> int:
        return int(self.values())

    def max(self, axis: int | None = None) -> "Block":
        """NaN only where all are, as the hardware's maximum."""
        return self._reduced(np.fmax.reduce, axis, self.dtype)

    def min(self, axis: int | None = None) -> "Block":
        return self._reduced(np.fmin.reduce, axis, self.dtype)

    def sum(self, axis: int | None = None) -> "Block":
        is_small = not self.dtype.is_floating() and self.dtype.primitive_bitwidth < 32
        return self._reduced(np.sum, axis, gl.int32 if is_small else self.dtype)

    def _reduced(
        self, function: Callable[..., ArrayLike], axis: int | None, dtype: gl.dtype
    ) -> "Block":
        axis, axes = unwrapped(axis), self.array.ndim
        if axis is not None and not -axes <= axis < axes:
            raise SimulationError(f"A block of {axes} axes has no axis {axis}.")
        place = None if axis is None else axis % axes
        reduced = rounded(function(self.values(), axis=place), dtype)
        return Block(reduced, dtype, sliced_layout(self.layout, place))

    def __neg__(self) -> "Block":
        return Block(-self.values(), self.dtype, self.layout)

    def __invert__(self) -> "Block":
        return Block(~self.values(), self.dtype, self.layout)


Operand: TypeAlias = Block | gl.constexpr | float
"""What arithmetic takes, and what a mask or a condition is: a block or a number."""


@dataclass(frozen=True)
class Pointer(OnlyKnown):
    """Addresses of elements of a tensor: one, or a block of them."""

    storage: Storage
    """The tensor's elements, in the order of memory."""
    element: gl.dtype
    name: str
    first: int
    """The place of the tensor's first element in `storage`."""
    extent: int
    """The places from its first element to its last one."""
    offsets: Numbers = 0
    """Places after the first element."""
    layout: Layout | None = None

    @property
    def dtype(self) -> gl.dtype:
        """The type of the addresses, whose `element_ty` is the tensor's."""
        return pointer_type(self.element)

    def moved(self, by: Operand) -> "Pointer":
        layout = common_layout(self.layout, layout_of(by))
        return replace(self, offsets=self.offsets + plain(by), layout=layout)

    __add__ = __radd__ = moved

    def __sub__(self, by: Operand) -> "Pointer":
        return self.moved(-by if isinstance(by, Block) else -plain(by))

    def __getitem__(self, key: Key) -> "Pointer":
        layout = expanded_layout(self.layout, key)
        return replace(self, offsets=np.asarray(self.offsets)[key], layout=layout)

    def places(self, mask: Operand | None) -> tuple[np.ndarray, np.ndarray]:
        """The places that are accessed, and the mask. Raises HazardError outside the tensor."""
        lanes = True if mask is None else plain(mask)
        places, wanted = np.broadcast_arrays(np.asarray(self.offsets), lanes)
        outside = wanted & ((places < 0) | (places >= self.extent))
        if outside.any():
            raise HazardError(
                f"{self.name}[{places[outside].flat[0]}] is outside the tensor, whose length is "
                f"{self.extent}."
            )
        return places + self.first, wanted


def undefined(dtype: gl.dtype) -> float:
    """What a lane holds that was masked out of a load and given nothing: NaN, or a large number."""
    return np.nan if dtype.is_floating() else np.iinfo(NUMPY[dtype]).max if dtype != gl.int1 else 1


def plain(value: Operand) -> Numbers:
    """A block as an array, a constexpr as its value, a number as it is."""
    return value.values() if isinstance(value, Block) else unwrapped(value)


def layout_of(value: Operand | Pointer | None) -> Layout | None:
    """The layout of a block; None for a number."""
    if isinstance(value, Pointer):
        return value.layout
    return value.layout if isinstance(value, Block) and value.array.ndim else None


def _type_of(value: Operand) -> gl.dtype:
    """A block's type, or that which Triton gives a number."""
    if isinstance(value, Block):
        return value.dtype
    number = plain(value)
    if isinstance(number, bool):
        return gl.int1
    if isinstance(number, float):
        return gl.float32
    fits = -(2**31) <= int(number) < 2**31
    return gl.int32 if fits else gl.uint32 if 0 <= int(number) < 2**32 else gl.int64


def _kind(dtype: gl.dtype) -> int:
    return 2 if dtype.is_floating() else 0 if dtype == gl.int1 else 1


def common_type(*values: Operand) -> gl.dtype:
    """The type that Triton converts operands to: a block's where a number is of no wider kind."""
    blocks = [value for value in values if isinstance(value, Block)]
    most = max((_kind(value.dtype) for value in blocks), default=-1)
    taken = [each for each in values if isinstance(each, Block) or _kind(_type_of(each)) > most]
    return reduce(_wider, map(_type_of, taken))


def _wider(one: gl.dtype, other: gl.dtype) -> gl.dtype:
    """The type of two that Triton converts both to."""
    if one.is_floating() != other.is_floating():
        return one if one.is_floating() else other
    if one.primitive_bitwidth != other.primitive_bitwidth:
        return max(one, other, key=lambda dtype: dtype.primitive_bitwidth)
    if one != other and one.is_floating():
        return gl.float16  # of it and bfloat16
    return other if other.is_int_unsigned() else one


def elementwise(
    function: Callable[..., ArrayLike], *values: Operand, dtype: gl.dtype | None = None
) -> Block:
    """A function of NumPy on blocks and numbers."""
    layout = common_layout(*map(layout_of, values))
    with np.errstate(all="ignore"):
        out = function(*map(plain, values))
    return Block(rounded(out, dtype := dtype or common_type(*values)), dtype, layout)


def _together(
    function: Callable[..., ArrayLike], one: Operand, other: Operand, common: gl.dtype,
    dtype: gl.dtype,
) -> Block:  # fmt: skip
    """A function of two operands, both converted to a type first, whose result is of another."""
    layout = common_layout(layout_of(one), layout_of(other))
    with np.errstate(all="ignore"):
        out = np.asarray(function(*(rounded(plain(each), common) for each in (one, other))))
    if dtype == gl.int1 and out.dtype != np.bool_:
        out = out & 1
    return Block(rounded(out, dtype), dtype, layout)


def _operator(name: str, function: Callable[..., ArrayLike], compares: bool = False) -> None:
    def computed(one: Operand, other: Operand) -> Block:
        common = common_type(one, other)
        # Triton divides integers, and 16-bit floats, as float32.
        if name == "truediv" or (name == "mod" and common.is_floating()):
            common = gl.float64 if common == gl.float64 else gl.float32
        if common == gl.int1 and name in ("add", "sub", "mul"):
            return _together(function, one, other, gl.uint8, gl.int1)  # with a bit of each
        return _together(function, one, other, common, gl.int1 if compares else common)

    def forward(self: Block, other: Operand | Pointer) -> object:
        return NotImplemented if isinstance(other, Pointer) else computed(self, other)

    def backward(self: Block, other: Operand) -> Block:
        return computed(other, self)

    setattr(Block, f"__{name}__", forward)
    if not compares:
        setattr(Block, f"__r{name}__", backward)


def _quotient(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """`//` of a GPU, which rounds towards 0."""
    a, b = np.asarray(a), np.asarray(b)
    quotient: np.ndarray = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return quotient


_ARITHMETIC: dict[str, Callable[..., ArrayLike]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": _quotient, "mod": np.fmod, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift,
}  # fmt: skip
for _name, _function in _ARITHMETIC.items():
    _operator(_name, _function)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _operator(_name, getattr(operator, _name), compares=True)
