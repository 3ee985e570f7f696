"""What C is given for a Python value, where it fits the argument's type."""

import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any

import torch

from course.errors import CourseError
from course.lowering.arguments import DTYPES

from .scalars import Scalar


def converter(what: str, type: Scalar) -> Callable[[Any], int | float]:
    """A function from a value to what C is given for it, made once since each launch calls it.

    what: whose value it is, for the CourseError where one does not fit the type.
    """
    if type.pointer:
        return _pointer(what, type)
    return _float(what, type) if type.float else _integer(what, type)


def _pointer(what: str, type: Scalar) -> Callable[[Any], int]:
    pointee = type.name.removeprefix("*")
    wanted = DTYPES.get(pointee, DTYPES.get(pointee.removeprefix("k")))

    def address(tensor: Any) -> int:
        if not isinstance(tensor, torch.Tensor):
            raise CourseError(f"{what} is {_kind(tensor)}, and must be a tensor ({type.name}).")
        if tensor.layout is not torch.strided:
            raise CourseError(
                f"{what} is a tensor of layout {tensor.layout}, which has no one address: give a dense one."
            )
        # PyTorch has no name for fp8e4b15: any dtype of a byte serves.
        if tensor.dtype is not wanted and (wanted is not None or tensor.dtype.itemsize != 1):
            raise CourseError(
                f"{what} is a tensor of {tensor.dtype}, and must be of {wanted} ({type.name})."
            )
        return tensor.data_ptr()

    return address


def _integer(what: str, type: Scalar) -> Callable[[Any], int]:
    least, greatest = type.range

    def integer(value: Any) -> int:
        if not isinstance(value, int):
            raise CourseError(
                f"{what} is {_kind(value)}, and must be {'a bool' if type.boolean else 'an int'} ({type.name})."
            )
        if not least <= value <= greatest:
            raise CourseError(f"{what} is {value}, and {type.name} holds {least} to {greatest}.")
        return int(value)

    return integer


def _float(what: str, type: Scalar) -> Callable[[Any], float]:
    to_c = ROUNDED.get(type.name, lambda value: ctypes.c_double(value).value)

    def number(value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise CourseError(f"{what} is {_kind(value)}, and must be a number ({type.name}).")
        try:
            rounded = to_c(value)
        except OverflowError:  # of an int that is larger than any float, too
            rounded = math.inf
        if math.isinf(rounded) and value not in (math.inf, -math.inf):
            raise CourseError(f"{what} is {value}, which {type.name} does not hold.")
        return rounded

    return number


def _to_bf16(value: float) -> float:
    """Rounded once, to 8 digits of two or a multiple of the least bfloat16; ties to even."""
    if not math.isfinite(value) or value == 0:
        return value
    least = max(math.frexp(value)[1] - 8, -133)
    return ctypes.c_float(math.ldexp(round(math.ldexp(value, -least)), least)).value


ROUNDED: dict[str, Callable[[float], float]] = {
    "fp16": lambda value: struct.unpack("<e", struct.pack("<e", float(value)))[0],
    "bf16": _to_bf16,
    "fp32": lambda value: ctypes.c_float(value).value,
}
"""By type, the nearest number that it has. C is given a float for each of them, and would round the two small ones again."""


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
