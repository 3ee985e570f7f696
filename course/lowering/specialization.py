"""Which kernel would the JIT compile for these arguments?

Two calls share a compiled kernel when their specializations are equal.
"""

from dataclasses import dataclass
from typing import Any

from course.errors import CourseError
from course.triton_internals.jit_functions import jit_specialize
from course.type_names import AnyValue, Kernel

from .kernel_reference import function_of


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel as the compiler is told of it."""

    name: str
    type: str
    """Triton's name: `*fp32` is a pointer to float32, `i32` an integer, `constexpr` a constant."""
    constant: AnyValue = None
    """The value of a constexpr; 1 for an integer equal to 1."""
    divisible_by_16: bool = False

    def __str__(self) -> str:
        if self.type == "constexpr":
            return f"{self.name}: the constant {self.constant!r}"
        return f"{self.name}: {self.type}" + (", divisible by 16" if self.divisible_by_16 else "")


@dataclass(frozen=True)
class Specialization:
    """A kernel's parameters as the compiler is told of them. Equal ones share a compiled kernel."""

    kernel: str
    parameters: tuple[Parameter, ...]
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the compiler that are not the usual ones, such as num_warps, with their values."""

    def __str__(self) -> str:
        options = (f"{name}: the option {value!r}" for name, value in self.options)
        return "\n    ".join([self.kernel, *map(str, self.parameters), *options])

    __repr__ = __str__


def specialize(kernel: Kernel, *args: AnyValue, **meta: AnyValue) -> Specialization:
    """Ask Triton how it would specialize `kernel` for these arguments on an NVIDIA GPU.

    kernel: a function under @triton.jit. args, meta: what a launch would be given, without the
    grid. Raises CourseError where `kernel` is no kernel or the arguments do not fit its parameters.
    """
    function = function_of(kernel, "specialize")
    try:
        entries, options = jit_specialize(kernel, args, meta)
    except TypeError as error:
        reason = str(error).replace("dynamic_func", function.__name__)
        raise CourseError(
            f"The arguments do not fit the kernel {function.__name__}: {reason}."
        ) from error
    parameters = tuple(_parameter(*entry) for entry in entries)
    return Specialization(function.__name__, parameters, tuple(options.items()))


def _parameter(name: str, type: str, attribute: AnyValue) -> Parameter:
    if type == "constexpr":
        return Parameter(name, type, constant=attribute)
    return Parameter(name, type, divisible_by_16=attribute == "D")
