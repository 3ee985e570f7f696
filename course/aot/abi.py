"""The types of arguments in Triton, C, PyTorch and machine code, and what C is given for values."""

import ctypes
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

import torch

from course.errors import CourseError
from course.lowering.type_texts import BYTES, DTYPES
from course.type_names import kind_of

POINTEES = (*DTYPES, *BYTES)
"""What a pointer may point to: every scalar type of Triton's."""

Value = torch.Tensor | bool | int | float
"""What a call takes for an argument."""


@dataclass(frozen=True)
class Scalar:
    """The type of an argument that is passed at run time."""

    name: str
    """Triton's, as "i32", or "*fp16" for a pointer."""
    c: str
    """The C function's parameter."""
    size: int
    """Bytes of the kernel's own parameter."""
    format: str
    """The kernel's parameter for Python's struct; empty where struct has no such number."""
    bits_c: str = ""
    """The C type in which the kernel takes it, if that is another one than `c`."""

    @property
    def pointer(self) -> bool:
        return self.name.startswith("*")

    @property
    def integer(self) -> bool:
        return self.name[0] in "iu"

    @property
    def boolean(self) -> bool:
        return self.name in ("i1", "u1")

    @property
    def floating(self) -> bool:
        return self.name[0] in "fb"

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest value of an integer."""
        if self.boolean:
            return 0, 1
        bits = 8 * self.size
        if self.name[0] == "u":
            return 0, 2**bits - 1
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def number(self, content: bytes) -> int | float | None:
        """The number that a kernel reads in these bytes; None for an address."""
        if self.pointer:
            return None
        if self.name == "bf16":  # the upper half of a float
            content = bytes(2) + content
        (number,) = struct.unpack(f"<{self.format}", content)
        assert isinstance(number, (int, float))
        return number

    def packed(self, number: int | float) -> bytes:
        """The bytes that a kernel reads of a number, rounded to this type."""
        if self.floating:
            number = ROUNDED[self.name](number)
        return struct.pack(f"<{self.format}", number)[-self.size :]


SCALARS = {
    scalar.name: scalar
    for scalar in (
        Scalar("i1", "int8_t", 1, "?"),
        Scalar("u1", "uint8_t", 1, "?"),
        Scalar("i8", "int8_t", 1, "b"),
        Scalar("i16", "int16_t", 2, "h"),
        Scalar("i32", "int32_t", 4, "i"),
        Scalar("i64", "int64_t", 8, "q"),
        Scalar("u8", "uint8_t", 1, "B"),
        Scalar("u16", "uint16_t", 2, "H"),
        Scalar("u32", "uint32_t", 4, "I"),
        Scalar("u64", "uint64_t", 8, "Q"),
        Scalar("fp16", "float", 2, "e", "uint16_t"),
        Scalar("bf16", "float", 2, "f", "uint16_t"),
        Scalar("fp32", "float", 4, "f"),
        Scalar("fp64", "double", 8, "d"),
    )
}

C_TYPES: "dict[str, type[ctypes._SimpleCData[int]] | type[ctypes._SimpleCData[float]]]" = {
    "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16,
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float, "double": ctypes.c_double, "CUdeviceptr": ctypes.c_uint64,
}  # fmt: skip
"""C type -> the class of ctypes."""


def scalar_of(name: str) -> Scalar | None:
    """The type of this name, or None. "*kfp32" is a pointer to what is only read."""
    if name.startswith("*") and (name[1:] in POINTEES or name[1:].removeprefix("k") in POINTEES):
        return Scalar(name, "CUdeviceptr", 8, "Q")
    return SCALARS.get(name)


def converter(what: str, type: Scalar) -> Callable[[Value], int | float]:
    """A function from a value to what C is given for it, made once because each launch calls it.

    what: the argument, for the CourseError about a value that does not fit the type.
    """
    if type.pointer:
        return _address(what, type)
    return _float(what, type) if type.floating else _integer(what, type)


def _address(what: str, type: Scalar) -> Callable[[Value], int]:
    pointee = type.name.removeprefix("*")
    dtype = DTYPES.get(pointee, DTYPES.get(pointee.removeprefix("k")))

    def address(tensor: Value) -> int:
        if not isinstance(tensor, torch.Tensor):
            raise CourseError(f"{what} is {kind_of(tensor)}, and must be a tensor ({type.name}).")
        if tensor.layout is not torch.strided:
            raise CourseError(
                f"{what} is a tensor of layout {tensor.layout}, which has no one address: "
                "give a dense one."
            )
        # PyTorch has no name for fp8e4b15: any dtype of one byte serves.
        if tensor.dtype is not dtype and (dtype is not None or tensor.dtype.itemsize != 1):
            raise CourseError(
                f"{what} is a tensor of {tensor.dtype}, and must be of {dtype} ({type.name})."
            )
        return tensor.data_ptr()

    return address


def _integer(what: str, type: Scalar) -> Callable[[Value], int]:
    least, greatest = type.range
    wanted = f"{'a bool' if type.boolean else 'an int'} ({type.name})"

    def integer(value: Value) -> int:
        if not isinstance(value, int):
            raise CourseError(f"{what} is {kind_of(value)}, and must be {wanted}.")
        if not least <= value <= greatest:
            raise CourseError(f"{what} is {value}, and {type.name} holds {least} to {greatest}.")
        return int(value)

    return integer


def _float(what: str, type: Scalar) -> Callable[[Value], float]:
    rounded_to_type = ROUNDED[type.name]

    def number(value: Value) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise CourseError(f"{what} is {kind_of(value)}, and must be a number ({type.name}).")
        try:
            rounded = rounded_to_type(value)
        except OverflowError:  # an int may be larger than any float
            rounded = math.inf
        if math.isinf(rounded) and value not in (math.inf, -math.inf):
            raise CourseError(f"{what} is {value}, which {type.name} does not hold.")
        return rounded

    return number


def _to_fp16(value: float) -> float:
    return float(struct.unpack("<e", struct.pack("<e", float(value)))[0])


def _to_bf16(value: float) -> float:
    """Rounded once, to 8 binary digits or a multiple of the least bfloat16; ties to even."""
    if not math.isfinite(value) or value == 0:
        return value
    least = max(math.frexp(value)[1] - 8, -133)
    return ctypes.c_float(math.ldexp(round(math.ldexp(value, -least)), least)).value


ROUNDED: dict[str, Callable[[float], float]] = {
    "fp16": _to_fp16,
    "bf16": _to_bf16,
    "fp32": lambda value: ctypes.c_float(value).value,
    "fp64": lambda value: ctypes.c_double(value).value,
}
"""Type -> the nearest number that it has. C gets a float for the two small types and rounds again,
which then changes nothing."""
