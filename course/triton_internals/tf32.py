"""Products of float32, from which tensor cores cut bits off, and the interpreter does not."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from .patching import patched

CUT_OFF = np.uint32(0x1FFF)
"""The bits of a float32 that TF32 lacks."""


@contextlib.contextmanager
def tf32_errors() -> Iterator[list[float]]:
    """While active, the list gets how far off each tl.dot would be that a GPU computes in TF32."""
    errors: list[float] = []
    own = interpreter.interpreter_builder.create_dot

    def create_dot(
        a: TensorHandle, b: TensorHandle, d: TensorHandle, precision: Any, *rest: Any
    ) -> TensorHandle:
        result: TensorHandle = own(a, b, d, precision, *rest)
        if a.dtype.scalar == tl.float32 and precision.name == "TF32":
            error = np.matmul(_cut(a.data), _cut(b.data)) - np.matmul(a.data, b.data)
            errors.append(float(np.nan_to_num(np.abs(error), nan=0.0).max(initial=0.0)))
        return result

    with patched(interpreter.interpreter_builder, create_dot=create_dot):
        yield errors


def _cut(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values).view(np.uint32) & ~CUT_OFF
    return bits.view(np.float32)
