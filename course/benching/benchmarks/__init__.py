"""What is verified and timed: the cases, reference, peers and sizes of each operation."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from course.errors import CourseError
from course.places import refuse_other_kernels
from course.verifying.inputs import Case

Function = Callable[..., torch.Tensor]
Series = dict[str, Callable[[int], Function | None]]
"""Name -> (x -> the function to time, or None to leave that x out)."""


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
    series: Series
    """The first is the course's own function."""
    operations: Callable[..., int] | None = None
    """The inputs -> additions and multiplications of a call, where these take the time."""

    def functions(self, x: int) -> dict[str, Function]:
        """The functions to time at x, by their series' names."""
        built = ((name, build(x)) for name, build in self.series.items())
        return {name: function for name, function in built if function is not None}


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
    absolute: float | Function = 0.0
    """Error allowed on top of the dtype's tolerance, for results that cancel: see `verify`."""
    first_call: str = ""
    """Python that defines `call`, the first call in a fresh process, timed with an empty cache and
    with a filled one."""


def operation_names() -> list[str]:
    """The operations the course can verify and bench."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def operation(name: str) -> Operation:
    """The operation of this name. Raises CourseError, naming all, for others."""
    if name not in operation_names():
        raise CourseError(
            f"There is no operation {name!r}: there is {', '.join(operation_names())}."
        )
    refuse_other_kernels()
    module = importlib.import_module(f"{__name__}.{name}")
    assert isinstance(module.OPERATION, Operation)
    return module.OPERATION


def study(name: str) -> tuple[Operation, Study]:
    """The study of this name and its operation. Raises CourseError, naming all, for others."""
    studies = {
        study.name: (owner, study)
        for owner in map(operation, operation_names())
        for study in owner.studies
    }
    if name not in studies:
        raise CourseError(f"There is no study {name!r}: there is {', '.join(studies)}.")
    return studies[name]
