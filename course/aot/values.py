"""What C is given for a Python value, where it fits the argument's type."""

import ctypes
import math
from collections.abc import Callable
from typing import Any

import torch

from course.compiling.arguments import DTYPES
from course.errors import CourseError

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
        # PyTorch has no name for fp8e4b15: any dtype of a byte serves.
        if tensor.dtype is not wanted and (wanted is not None or tensor.dtype.itemsize != 1):
            raise CourseError(f"{what} is a tensor of {tensor.dtype}, and must be of {wanted} ({type.name}).")
        return tensor.data_ptr()

    return address


def _integer(what: str, type: Scalar) -> Callable[[Any], int]:
    least, greatest = type.range

    def integer(value: Any) -> int:
        if not isinstance(value, int):
            raise CourseError(f"{what} is {_kind(value)}, and must be {'a bool' if type.boolean else 'an int'} ({type.name}).")
        if not least <= value <= greatest:
            raise CourseError(f"{what} is {value}, and {type.name} holds {least} to {greatest}.")
        return int(value)

    return integer


def _float(what: str, type: Scalar) -> Callable[[Any], float]:
    to_c = ctypes.c_float if type.c == "float" else ctypes.c_double

    def number(value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise CourseError(f"{what} is {_kind(value)}, and must be a number ({type.name}).")
        try:
            rounded = to_c(value).value
        except OverflowError:  # an int that is larger than any float
            rounded = math.inf
        if math.isinf(rounded) and value not in (math.inf, -math.inf):
            raise CourseError(f"{what} is {value}, which {type.name} does not hold.")
        return value

    return number


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
