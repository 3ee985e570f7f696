"""Numbers of 8 bits in the interpreter, rounded as a GPU rounds them.

The interpreter by itself adds the first bit that it cuts off to the mantissa alone, and loses the
carry: -0.498 becomes -0.25, and not -0.5.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes
from triton._C.libtriton import ir
from triton.runtime import interpreter

from .interpreted_values import FLOATS_OF_A_BYTE, numbers_of

TORCH_TYPES = {tl.dtype(name): kind for name, kind in FLOATS_OF_A_BYTE.items()}
NUMPY_TYPES = {tl.float16: np.float16, tl.float32: np.float32, tl.float64: np.float64}

_own: Callable[..., np.ndarray] = interpreter._convert_float


def converted(values: np.ndarray, given: tl.dtype, wanted: tl.dtype, rounding: Any) -> np.ndarray:
    """The bits of an array in another type of floating-point numbers, as unsigned integers.

    To 8 bits they go to the nearest, or to the largest finite number (`cvt.rn.satfinite`). Takes
    the place of the interpreter's function, which still does what touches no 8 bits, or bfloat16.
    """
    with _disable_current_modes():  # this is no work of the function that launches
        if given in TORCH_TYPES and wanted in NUMPY_TYPES:
            exact = numbers_of(values, given.name).astype(NUMPY_TYPES[wanted])
            return exact.view(f"u{exact.itemsize}")
        nearest = rounding in (None, ir.ROUNDING_MODE.RTNE)
        if given in NUMPY_TYPES and wanted in TORCH_TYPES and nearest:
            numbers = torch.from_numpy(np.array(values).view(NUMPY_TYPES[given]))
            most = torch.finfo(TORCH_TYPES[wanted]).max
            rounded = numbers.clamp(-most, most).to(TORCH_TYPES[wanted])
            return rounded.view(torch.uint8).numpy()
    return _own(values, given, wanted, rounding)
