"""Values for what Triton leaves undefined, chosen so that a kernel which uses them is wrong."""

from typing import TypeAlias

import numpy as np
from triton.runtime.interpreter import TensorHandle

Mask: TypeAlias = TensorHandle | np.ndarray
"""A block of bool. Triton 3.8 hands the bare array on where a tensor descriptor is read or
written."""


def lanes_of(mask: Mask) -> np.ndarray:
    """The lanes that a mask lets take part, as an array of bool of the mask's shape."""
    values = mask if isinstance(mask, np.ndarray) else mask.data
    # A scalar's condition joined with a block's gives integers, which would pick lanes by number.
    return values.astype(bool)


def fill_undefined(block: TensorHandle, mask: Mask, largest_first: bool) -> None:
    """Fill the lanes that a mask keeps out with the largest and the smallest value, in turns.

    No sum, maximum, minimum or product hides both.
    largest_first: which of them comes first.
    """
    data, largest, smallest = block.data, *_extremes(block)
    lanes = ~np.broadcast_to(lanes_of(mask), data.shape)
    if data.size == 1 and not block.dtype.scalar.is_floating():
        largest_first = False  # it may be how often a loop runs
    turns = np.cumsum(lanes).reshape(lanes.shape) % 2 == largest_first
    data[lanes & turns], data[lanes & ~turns] = largest, smallest


def _extremes(block: TensorHandle) -> tuple[float, float]:
    """The largest and the smallest value of a block's type, and none near 0."""
    dtype, name = block.data.dtype, str(block.dtype.scalar)
    if dtype.kind == "f":
        return np.inf, -np.inf
    if name == "bf16":  # which the interpreter keeps as bits, as it does fp8
        return 0x7F80, 0xFF80
    if name.startswith("fp8"):
        return 0x7F, 0x7F  # NaN
    if dtype.kind == "b":
        return True, True
    most = np.iinfo(dtype).max
    if dtype.kind == "u":
        return most, most - 1
    if dtype.itemsize == 8:  # less, since an offset of so many elements in bytes would wrap to 0
        return most // 16, -most // 16
    return most, np.iinfo(dtype).min
