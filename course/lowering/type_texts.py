"""Texts that describe an argument in place of a value, as "*fp32:16", "i32"."""

import math
import re
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from course.errors import CourseError
from course.triton_internals.interpreted_values import FLOATS_OF_A_BYTE

# Triton's name of a type -> PyTorch's
DTYPES = {
    "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64,
    **FLOATS_OF_A_BYTE,
}  # fmt: skip
SCALARS = {
    "i1": True, "i8": 3, "i16": 3, "i32": 3, "i64": 2**40 + 1,
    "u1": True, "u8": 3, "u16": 3, "u32": 3, "u64": 2**63 + 1,
    "fp16": 1.5, "bf16": 1.5, "fp32": 1.5, "fp64": 1.5,
}  # fmt: skip
"""A number for each type, not divisible by 16 and not 1."""
BY_VALUE = ("i1", "i32", "i64", "u64", "fp32")
"""The types that the JIT gives to a number by itself. It must be told of the others."""
BYTES = ("fp8e4b15",)
"""What a pointer may point to as well. PyTorch has no name for it."""

POINTER = re.compile(r"\*(k?)(\w+)(:16)?( large)?")
SCALAR = re.compile(r"(\w+)(?::(16|1))?")
DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[([\d, ]+)\]>")


def value_of_type(text: str) -> Any:
    """A value that the JIT specializes for a type. Raises CourseError if the text names none."""
    if text in ("None", "nullptr"):
        return None
    if match := DESCRIPTOR.fullmatch(text):
        block = [int(size) for size in match[2].split(",") if size.strip()]
        return _tensor_descriptor(text, _dtype(match[1], text), block)
    if match := POINTER.fullmatch(text):
        dtype = _dtype(match[2], text)
        return meta_tensor(dtype, 0 if match[3] else dtype.itemsize, 2**32 if match[4] else 2**20)
    match = SCALAR.fullmatch(text)
    if not match or match[1] not in SCALARS:
        raise CourseError(
            f"{text!r} is no type of an argument: write a pointer as '*fp32' or '*fp32:16', a "
            f"number as one of {', '.join(SCALARS)} or 'i32:16', and a constant as its value."
        )
    if match[2] == "1":
        return 1
    if match[2] == "16":
        return 2**40 if match[1] == "i64" else 16
    return SCALARS[match[1]]


def names_a_number(text: str) -> bool:
    """Whether a text is a number's type, as "i32:16"."""
    match = SCALAR.fullmatch(text)
    return match is not None and match[1] in SCALARS


def fixed_type(text: str, is_constexpr: bool) -> tuple[str, Any] | None:
    """The type that the JIT must be told of, since the value from `value_of_type` does not show it.

    With "D" for one that is divisible by 16, the value of a constant, else None; see
    `triton_internals.compiler.FixedTypes`. is_constexpr: whether the parameter is a constant, which
    a type makes an argument.
    """
    if match := POINTER.fullmatch(text):
        shown = not is_constexpr and not match[1] and match[2] in DTYPES
        if shown or match[2] not in (*DTYPES, *BYTES):
            return None
        return f"*{match[1]}{match[2]}", match[3] and "D"
    match = SCALAR.fullmatch(text)
    if not match or match[1] not in SCALARS or (match[1] in BY_VALUE and not is_constexpr):
        return None
    return ("constexpr", 1) if match[2] == "1" else (match[1], match[2] and "D")


def meta_tensor(dtype: torch.dtype, beyond_16: int, storage_bytes: int) -> torch.Tensor:
    """A tensor without memory, whose address is so many bytes beyond a multiple of 16."""
    elements = max(1, storage_bytes // dtype.itemsize)
    offset = beyond_16 // dtype.itemsize
    return torch.empty(max(elements, offset + 1), dtype=dtype, device="meta")[offset:]


def _tensor_descriptor(text: str, dtype: torch.dtype, block: list[int]) -> TensorDescriptor:
    if not block or any(size & (size - 1) or not size for size in block):
        raise CourseError(
            f"The block in {text!r} must have powers of two, as tensordesc<fp16[64, 64]>."
        )
    strides = [math.prod([1024] * (len(block) - 1 - axis)) for axis in range(len(block))]
    return TensorDescriptor(meta_tensor(dtype, 0, 2**20), [1024] * len(block), strides, block)


def _dtype(name: str, text: str) -> torch.dtype:
    if name in BYTES:
        return torch.uint8
    if name not in DTYPES:
        raise CourseError(f"There is no type {name!r} in {text!r}: there is {', '.join(DTYPES)}.")
    return DTYPES[name]
