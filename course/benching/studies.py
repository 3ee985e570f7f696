"""What `course verify`, `course bench` and `make record` do for one operation of kernels/."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course.errors import CourseError
from course.verifying.inputs import Case

from . import operations

Function = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Study:
    """One comparison of speeds: several functions over several sizes or settings."""

    name: str
    x_name: str
    xs: Sequence[int]
    make: Callable[[int], tuple[torch.Tensor, ...]]
    """x -> the inputs of a call, on the GPU."""
    bytes: Callable[..., int]
    """The inputs -> bytes a call must move."""
    series: dict[str, Callable[[int], Function | None]]
    """Name -> (x -> the function to time, or None to leave that x out). The first is the course's own."""
    operations: Callable[..., int] | None = None
    """The inputs -> additions and multiplications of a call, where these and not the bytes are what takes the time."""


@dataclass(frozen=True)
class Operation:
    """One file of kernels/: how to tell that it is right, and what to time it against."""

    name: str
    ladder: dict[str, Function]
    """Every version by its function's name, from the naive one to the public one."""
    reference: Function
    """The same in PyTorch; it is given float64."""
    cases: Sequence[Case]
    studies: Sequence[Study]
    absolute: float = 0.0
    """Error allowed on top of the dtype's tolerance, for results that cancel."""
    first_call: str = ""
    """Python that makes the first call in a fresh process; it is timed with an empty cache and with a filled one."""


def operation_names() -> list[str]:
    """The operations the course can verify and bench."""
    return sorted(module.name for module in pkgutil.iter_modules(operations.__path__))


def operation(name: str) -> Operation:
    """The operation of this name. Raises CourseError, naming all, where there is none."""
    if name not in operation_names():
        raise CourseError(
            f"There is no operation {name!r}: there is {', '.join(operation_names())}."
        )
    found: Any = importlib.import_module(f"{operations.__name__}.{name}").OPERATION
    assert isinstance(found, Operation)
    return found


def study(name: str) -> tuple[Operation, Study]:
    """The study of this name and its operation. Raises CourseError, naming all, where there is none."""
    every = [(each, found) for each in map(operation, operation_names()) for found in each.studies]
    for each, found in every:
        if found.name == name:
            return each, found
    raise CourseError(
        f"There is no study {name!r}: there is {', '.join(found.name for _, found in every)}."
    )
