"""A launch's arguments as another process can make them again.

For the compiler a tensor becomes what the JIT asks of it: its dtype, where its address lies against 16 bytes, and the size
of its storage; there it is made on PyTorch's meta device, so it takes no memory however large it is. To run a kernel in the
other process, tensors are kept aside, with their values.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from course.errors import CourseError
from course.isolate.function_source import Source, constant_text, source_of
from course.triton_internals.jit_functions import plain_function

# Triton's name of a type -> PyTorch's
DTYPES = {
    "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64,
    "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz, "fp8e5b16": torch.float8_e5m2fnuz,
}  # fmt: skip
SCALARS = {
    "i1": True, "i8": 3, "i16": 3, "i32": 3, "i64": 2**40 + 1, "u1": True, "u8": 3, "u16": 3, "u32": 3, "u64": 2**63 + 1,
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

Described = dict[str, Any]


def describe(value: Any, kept: list[torch.Tensor] | None = None) -> Described:
    """A value as JSON. Raises CourseError naming what a kernel cannot be given.

    kept: where to put the tensors that are to keep their values; `make` is then given the same list.
    """
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, torch.Tensor):
        _refuse_other_memory(value)
    if isinstance(value, torch.Tensor) and value.dtype not in DTYPES.values():
        raise CourseError(f"A kernel cannot be given a tensor of {value.dtype}.")
    if isinstance(value, torch.Tensor) and kept is not None:
        value = value.detach()
        same = [
            i for i, each in enumerate(kept) if _geometry(each) == _geometry(value)
        ]  # a storage on "meta" is kept by no other
        if not same:
            kept.append(value)
        return {"kept": same[0] if same else len(kept) - 1}
    if isinstance(value, torch.Tensor):
        return {"tensor": _name(value.dtype), **_place(value)}
    if isinstance(value, TensorDescriptor):
        return {
            "descriptor": describe(value.base, kept),
            "shape": [*value.shape],
            "strides": [*value.strides],
            "block": [*value.block_shape],
        }
    if type(value) in (tuple, list):
        return {"items": [describe(each, kept) for each in value], "list": type(value) is list}
    if isinstance(value, triton.runtime.jit.TensorWrapper) and kept is not None:
        return {"wrapped": describe(value.base, kept), "dtype": str(value.dtype)}
    if isinstance(value, triton.runtime.jit.TensorWrapper):
        return {"tensor": _name(DTYPES.get(str(value.dtype), value.dtype)), **_place(value.base)}
    if plain_function(value) is not None:
        return {"function": source_of(value).to_json()}
    text = constant_text(value)
    if text is None:
        raise CourseError(
            f"An argument of type {type(value).__name__} cannot be described to the compiler: give tensors, numbers, tuples "
            "of them, or types such as '*fp32:16'."
        )
    return {"constant": text}


def _refuse_other_memory(tensor: torch.Tensor) -> None:
    """Raise CourseError for a tensor that has no one block of memory."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else "sparse"
        raise CourseError(
            f"A kernel cannot be given a {kind} tensor: pass the dense tensors that it is made of."
        )


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What two tensors that are the same memory have in common."""
    return (
        tensor.untyped_storage()._cdata,
        tensor.storage_offset(),
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _place(tensor: torch.Tensor) -> Described:
    return {"beyond_16": tensor.data_ptr() % 16, "storage_bytes": tensor.untyped_storage().size()}


def make(described: Described, is_constexpr: bool, kept: Sequence[torch.Tensor] = ()) -> Any:
    """The value again, or one that the JIT treats in the same way.

    is_constexpr: of a parameter that is a constant, for which a text is itself and not a type.
    """
    if "text" in described:
        return described["text"] if is_constexpr else _of_type(described["text"])
    if "kept" in described:
        return kept[described["kept"]]
    if "wrapped" in described:
        dtype = getattr(triton.language, described["dtype"], None) or getattr(
            torch, described["dtype"].removeprefix("torch.")
        )
        return triton.runtime.jit.TensorWrapper(make(described["wrapped"], False, kept), dtype)
    if "tensor" in described:
        return _tensor(
            getattr(torch, described["tensor"]), described["beyond_16"], described["storage_bytes"]
        )
    if "descriptor" in described:
        base = make(described["descriptor"], False, kept)
        return TensorDescriptor(base, described["shape"], described["strides"], described["block"])
    if "function" in described:
        return Source.from_json(described["function"]).load()
    if "items" in described:
        return tuple(make(each, is_constexpr, kept) for each in described["items"])
    return eval(described["constant"])


def told_type(text: str, is_constexpr: bool) -> tuple[str, Any] | None:
    """The type that the JIT must be told of since the value from `make` does not show it, and "D"
    or None; None for others.

    is_constexpr: of a parameter that is a constant, which a type makes an argument.
    """
    if match := POINTER.fullmatch(text):
        by_value = not is_constexpr and not match[1] and match[2] in DTYPES
        return (
            None
            if by_value or match[2] not in (*DTYPES, *BYTES)
            else (f"*{match[1]}{match[2]}", match[3] and "D")
        )
    match = SCALAR.fullmatch(text)
    if not match or match[1] not in SCALARS or (match[1] in BY_VALUE and not is_constexpr):
        return None
    return ("constexpr", 1) if match[2] == "1" else (match[1], match[2] and "D")


def _tensor(dtype: torch.dtype, beyond_16: int, storage_bytes: int) -> torch.Tensor:
    elements = max(1, storage_bytes // dtype.itemsize)
    offset = beyond_16 // dtype.itemsize
    return torch.empty(max(elements, offset + 1), dtype=dtype, device="meta")[offset:]


def _of_type(text: str) -> Any:
    """A value of the type that a text names: "*fp32:16", "*bf16 large", "i32:16", "i64:1",
    "tensordesc<fp16[64, 64]>"."""
    if text in ("None", "nullptr"):
        return None
    if match := DESCRIPTOR.fullmatch(text):
        block = [int(size) for size in match[2].split(",") if size.strip()]
        if not block or any(size & (size - 1) or not size for size in block):
            raise CourseError(
                f"The block in {text!r} must have powers of two, as tensordesc<fp16[64, 64]>."
            )
        base = _tensor(_dtype(match[1], text), 0, 2**20)
        strides = [math.prod([1024] * (len(block) - 1 - axis)) for axis in range(len(block))]
        return TensorDescriptor(base, [1024] * len(block), strides, block)
    if match := POINTER.fullmatch(text):
        dtype = _dtype(match[2], text)
        return _tensor(dtype, 0 if match[3] else dtype.itemsize, 2**32 if match[4] else 2**20)
    match = SCALAR.fullmatch(text)
    if not match or match[1] not in SCALARS:
        raise CourseError(
            f"{text!r} is no type of an argument: write a pointer as '*fp32' or '*fp32:16', a number as one of "
            f"{', '.join(SCALARS)} or 'i32:16', and a constant as its value."
        )
    if match[2] == "1":
        return 1
    return 2**40 if match[2] and match[1] == "i64" else 16 if match[2] else SCALARS[match[1]]


def _dtype(name: str, text: str) -> torch.dtype:
    if name in BYTES:
        return torch.uint8
    if name not in DTYPES:
        raise CourseError(f"There is no type {name!r} in {text!r}: there is {', '.join(DTYPES)}.")
    return DTYPES[name]
