"""Loads, stores and atomics of Triton's interpreter, at the addresses that a kernel has computed.

All memory of the process is seen as one array, from a first address that is not 0. The course
watches every launch and stops an access outside of what it was given before it comes here.
"""

import ctypes
import math
import sys
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

MEM_SEMANTIC = Enum("MEM_SEMANTIC", "ACQUIRE_RELEASE ACQUIRE RELEASE RELAXED", start=0)
RMW_OP = Enum("RMW_OP", "ADD FADD AND OR XOR XCHG MAX MIN UMIN UMAX", start=0)

_BITS = {RMW_OP.ADD, RMW_OP.AND, RMW_OP.OR, RMW_OP.XOR, RMW_OP.XCHG}
_OF_KIND = {
    "f": {RMW_OP.FADD},
    "i": _BITS | {RMW_OP.MAX, RMW_OP.MIN},
    "u": _BITS | {RMW_OP.UMAX, RMW_OP.UMIN},
}
"""What libtriton does to floats, and to integers of 32 bits or more."""

FIRST = 64
LAST = min(sys.maxsize, 2**47) - 1
"""The addresses of all memory, of a process with 32-bit addresses or with 64."""

_COMBINE: dict[Enum, Callable[[Any, Any], Any]] = {
    RMW_OP.ADD: np.add,
    RMW_OP.FADD: np.add,
    RMW_OP.AND: np.bitwise_and,
    RMW_OP.OR: np.bitwise_or,
    RMW_OP.XOR: np.bitwise_xor,
    RMW_OP.XCHG: lambda old, new: new,
    RMW_OP.MAX: np.maximum,
    RMW_OP.MIN: np.minimum,
    RMW_OP.UMIN: np.minimum,
    RMW_OP.UMAX: np.maximum,
}


@cache
def _memory(dtype: np.dtype) -> np.ndarray:
    """All memory as elements of a type."""
    count = (LAST - FIRST) // dtype.itemsize
    whole = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(FIRST)
    return np.frombuffer(whole, dtype)


def _indices(ptrs: np.ndarray, mask: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The lanes that a mask lets through, and where each finds its element in `_memory`."""
    lanes = np.flatnonzero(np.broadcast_to(mask, ptrs.shape))
    offsets = ptrs.ravel()[lanes].astype(np.int64) - FIRST
    if (offsets % dtype.itemsize).any():
        raise ValueError(f"An address is no multiple of the {dtype.itemsize} bytes of an element.")
    return lanes, (offsets // dtype.itemsize).astype(np.intp)


def load(ptrs: np.ndarray, mask: np.ndarray, other: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The elements at these addresses; `other` where the mask keeps a lane out."""
    dtype = np.dtype(dtype)
    result = np.array(np.broadcast_to(other, ptrs.shape), dtype=dtype).ravel()
    lanes, indices = _indices(ptrs, mask, dtype)
    result[lanes] = _memory(dtype)[indices]
    return result.reshape(ptrs.shape)


def store(ptrs: np.ndarray, value: np.ndarray, mask: np.ndarray) -> None:
    """Put the elements there, but for lanes that the mask keeps out."""
    value = np.broadcast_to(value, ptrs.shape).ravel()
    lanes, indices = _indices(ptrs, mask, value.dtype)
    _memory(value.dtype)[indices] = value[lanes]


def atomic_rmw(
    op: Enum, ptrs: np.ndarray, value: np.ndarray, mask: np.ndarray, _semantic: object
) -> np.ndarray:
    """Combine each element with a value, one lane after the other; what was there before."""
    combine, kind = _COMBINE[op], value.dtype.kind
    if op not in _OF_KIND.get(kind, ()) or (kind != "f" and value.itemsize < 4):
        raise ValueError("Unsupported data type")
    value = np.broadcast_to(value, ptrs.shape).ravel()
    old, memory = np.zeros_like(value), _memory(value.dtype)
    for lane, index in zip(*_indices(ptrs, mask, value.dtype), strict=True):
        old[lane] = memory[index]
        memory[index] = combine(old[lane], value[lane])
    return old.reshape(ptrs.shape)


def atomic_cas(
    ptrs: np.ndarray, expected: np.ndarray, value: np.ndarray, _semantic: object
) -> np.ndarray:
    """Put a value where an expected one is, one lane after the other; what was there before."""
    value, expected = (np.broadcast_to(each, ptrs.shape).ravel() for each in (value, expected))
    old, memory = np.zeros_like(value), _memory(value.dtype)
    for lane, index in zip(*_indices(ptrs, np.True_, value.dtype), strict=True):
        old[lane] = memory[index]
        if old[lane] == expected[lane]:
            memory[index] = value[lane]
    return old.reshape(ptrs.shape)


def fma_fp32(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z, rounded once.

    float64 holds the product exactly. The sum is rounded to odd there, after which rounding it to
    float32 is right.
    """
    with np.errstate(all="ignore"):
        product, z = np.multiply(x, y, dtype=np.float64), np.asarray(z, np.float64)
        total = np.asarray(product + z)
        part = total - product
        error = (product - (total - part)) + (z - part)
        even = (total.view(np.uint64) & np.uint64(1)) == 0
        inexact = np.isfinite(total) & (error != 0) & even
        total = np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total)
        return total.astype(np.float32)


if hasattr(math, "fma"):  # Python 3.13, as in the page
    fma_fp64 = np.vectorize(math.fma, otypes=[np.float64])
