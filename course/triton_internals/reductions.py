"""Reductions over whole halves of a block at a time: by a function of the kernel's own, and sums in
half precision.

The interpreter by itself calls that function for each pair of elements, and has NumPy add numbers
of half precision in float32, which compiled code does not.
"""

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import ReduceOps, ScanOps

from course.type_names import AnyValue

Blocks = tuple[tl.tensor, ...]
_own_reduce, _own_sum = ReduceOps.generic_reduce, ReduceOps.sum
_own_extreme = ReduceOps.min_max


def generic_reduce(reduction: ReduceOps, blocks: Blocks) -> list[tl.tensor]:
    """What a reduction returns: neighbors joined, then neighbors of what comes out, and so on.

    A function that combines must be associative, so only the order of its operands is kept. One
    that takes no blocks, since it asks whether a number is true, is called as the interpreter does.
    """
    whole, axis = reduction.unravel(blocks, reduction.axis)
    arrays = [np.moveaxis(block.handle.data, axis, -1) for block in whole]
    kinds = [block.dtype for block in whole]
    try:
        while arrays[0].shape[-1] > 1:
            arrays = joined_halves(reduction, arrays, kinds)
    except Exception:
        own: Callable[..., list[tl.tensor]] = _own_reduce
        return own(reduction, blocks)
    return [
        reduction.to_tensor(_shaped(reduction, array[..., 0], blocks[0]), kind)
        for array, kind in zip(arrays, kinds, strict=True)
    ]


def summed(reduction: ReduceOps, block: tl.tensor) -> tl.tensor:
    """A sum, which is rounded to half precision after each addition if that is the block's type."""
    if block.handle.data.dtype != np.float16:
        own: Callable[..., tl.tensor] = _own_sum
        return own(reduction, block)
    (whole,), axis = reduction.unravel((block,), reduction.axis)
    array = np.moveaxis(whole.handle.data, axis, -1)
    while array.shape[-1] > 1:
        array = array[..., ::2] + array[..., 1::2]
    return reduction.to_tensor(_shaped(reduction, array[..., 0], block), block.dtype)


def extreme(reduction: ReduceOps, block: AnyValue, *functions: AnyValue, **named: AnyValue) -> Any:
    """A maximum or minimum, its place, or both. Where there is no number among the elements it is
    NaN, at the first place, where NumPy warns or raises."""
    own: Callable[..., Any] = _own_extreme
    values = block[0] if isinstance(block, tuple) else block
    data, axis = values.handle.data, reduction.axis
    if data.dtype.kind != "f" or not (missing := np.isnan(data).all(axis, keepdims=True)).any():
        return own(reduction, block, *functions, **named)
    filled = reduction.to_tensor(np.where(missing, data.dtype.type(0), data), values.dtype)
    found = own(reduction, filled, *functions, **named)
    for each in found if isinstance(found, tuple) else (found,):
        if each.dtype.is_floating():
            result = each.handle.data
            result[missing.reshape(result.shape)] = np.nan
    return found


def joined_halves(
    reduction: ReduceOps, arrays: list[np.ndarray], kinds: list[tl.dtype]
) -> list[np.ndarray]:
    """Each even element along the last axis combined with the one after it."""
    halves = [
        [
            reduction.to_tensor(array[..., first::2], kind)
            for array, kind in zip(arrays, kinds, strict=True)
        ]
        for first in (0, 1)
    ]
    combined = reduction.combine_fn.fn(*halves[0], *halves[1])
    results = combined if isinstance(combined, tuple) else (combined,)
    return [_data(result, half) for result, half in zip(results, halves[0], strict=True)]


_COMBINING: tuple[CodeType, ...] = tuple(
    function.__code__ for function in (_own_reduce, ScanOps.generic_scan, joined_halves)
)


def combines_elements(frame: FrameType | None) -> bool:
    """Whether a frame is what combines elements in a reduction or a scan."""
    return frame is not None and frame.f_code in _COMBINING


def _data(result: AnyValue, like: tl.tensor) -> np.ndarray:
    """A result's numbers, of a block's shape and in its type."""
    data = result.handle.data if isinstance(result, tl.tensor) else np.asarray(result)
    return np.broadcast_to(data, like.handle.data.shape).astype(like.handle.data.dtype)


def _shaped(reduction: ReduceOps, reduced: np.ndarray, block: tl.tensor) -> AnyValue:
    """What is left, with axes of one element if they are to be kept."""
    if reduction.keep_dims:
        if reduction.axis is None:
            return reduced.reshape((1,) * block.handle.data.ndim)
        return np.expand_dims(reduced, reduction.axis)
    return reduced.item() if reduced.ndim == 0 else reduced
