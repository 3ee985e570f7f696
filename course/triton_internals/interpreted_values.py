"""The values of a kernel that the interpreter runs, as numbers and in words."""

import numpy as np
import torch
from triton import language as tl

from course.type_names import AnyValue

FLOATS_OF_A_BYTE = {
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
MOST_CHARACTERS = 80


def numbers_of(bits: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers that the interpreter keeps as bits. dtype: Triton's name."""
    if dtype == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if dtype in FLOATS_OF_A_BYTE:
        octets = torch.from_numpy(np.array(bits, dtype=np.uint8))
        return octets.view(FLOATS_OF_A_BYTE[dtype]).float().numpy()
    return bits


def value_text(value: AnyValue) -> str:
    """A value that is no block: a constant, a tuple, a tensor descriptor."""
    value = getattr(value, "value", value)  # a constexpr's
    if isinstance(value, float):
        return scalar_text(value)
    if isinstance(value, tl.dtype):
        return str(value)
    if isinstance(value, (bool, int, str, type(None))):
        return repr(value)[:MOST_CHARACTERS]
    if isinstance(value, tuple) or type(value).__name__ == "tuple":
        return f"({', '.join(map(_item_text, value))})"[:MOST_CHARACTERS]
    if hasattr(value, "block_shape") or hasattr(value, "block_type"):
        return f"a descriptor of blocks {list(getattr(value, 'block_shape', []))}"
    block = getattr(getattr(value, "handle", None), "block_shape", None)
    return f"a block pointer, {list(block)}" if block else type(value).__name__


def scalar_text(number: bool | int | float) -> str:
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def _item_text(value: AnyValue) -> str:
    data = getattr(getattr(value, "handle", None), "data", None)
    if not isinstance(data, np.ndarray):
        return value_text(value)
    if value.dtype.is_ptr():
        return "pointer"
    return scalar_text(data.item()) if data.size == 1 else f"block {list(data.shape)}"
