"""Values for what Triton leaves undefined, chosen so that a kernel which uses them is wrong."""

import numpy as np
from triton.runtime.interpreter import TensorHandle


def fill_undefined(block: TensorHandle, mask: TensorHandle, largest_first: bool) -> None:
    """Fill the lanes that a mask keeps out with the largest and the smallest value, in turns.

    No sum, maximum, minimum or product hides both.
    largest_first: which of them comes first.
    """
    data, largest, smallest = block.data, *_extremes(block)
    lanes = ~np.broadcast_to(mask.data, data.shape).astype(bool)
    if not data.ndim or data.size == 1:
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
