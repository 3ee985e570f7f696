"""The same launch again, on copies of its tensors: packed for a child, or timed on a GPU."""

import contextlib
import inspect
import operator
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import triton

from course import MODE
from course.errors import CourseError
from course.gpus.limits import MOST_GRID
from course.gpus.peaks import Gpu
from course.isolate import Ended
from course.lowering.arguments import Described, describe
from course.lowering.kernel_reference import KernelReference, function_of, kernel_and_reference
from course.lowering.recorded_grid import with_recorded
from course.lowering.type_texts import names_a_number
from course.triton_internals.choices import with_choices
from course.triton_internals.interpreter import Grid
from course.triton_internals.jit_functions import compiler_options, inner_kernel
from course.type_names import AnyValue, AnyValues, Function, Kernel

from .copies import Copies

TRACE_S = 60
"""Seconds of computing after which a trace ends with what it has. What it takes is limited by its
operations, which are the same on every machine: this ends what runs none."""
MOST_BYTES = 2**30
"""Bytes of a launch's tensors: they are copied into the child."""

T = TypeVar("T")


@dataclass(frozen=True)
class LaunchRequest:
    """A launch that may be run: kernel[grid](*args, **kwargs)."""

    kernel: Kernel
    grid: Grid
    args: tuple[AnyValue, ...]
    kwargs: AnyValues
    reference: KernelReference
    name: str
    given: AnyValues
    """parameter -> what the launch gives it"""


@dataclass(frozen=True)
class PackedLaunch:
    """A launch for another process: `arguments.make` makes its arguments again."""

    reference: KernelReference
    args: list[Described]
    kwargs: dict[str, Described]
    grid: Grid
    tensors: str
    """The file that holds the tensors with their values."""


def requested(
    caller: str, kernel: Kernel, grid: Any, args: Sequence[AnyValue], kwargs: AnyValues
) -> LaunchRequest:
    """Check a launch. grid: as a launch takes it, or a number for one axis.

    kernel: or a text, "file.py:name". caller: the function that was called, for messages.
    Raises CourseError for what is no kernel or no grid, and for what the interpreter cannot run.
    """
    kernel, reference = kernel_and_reference(kernel, caller)
    function = function_of(kernel, caller)
    signature = inspect.signature(function)
    grid, kwargs = with_recorded(grid, kwargs)
    kwargs = with_choices(kernel, args, kwargs)
    known = {*signature.parameters, *compiler_options()}
    if unknown := [name for name in kwargs if name not in known]:
        raise CourseError(
            f"{unknown[0]} is neither a parameter of {function.__name__} nor an option of the "
            "compiler."
        )
    try:
        named = {name: kwargs[name] for name in kwargs if name in signature.parameters}
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise CourseError(
            f"The arguments do not fit the kernel {function.__name__}: {error}."
        ) from None
    given = dict(bound.arguments)
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if isinstance(value, str) and value.startswith(("*", "tensordesc")):
            raise CourseError(
                f"{caller} runs the kernel: {name} must be a tensor, and not the type {value!r}."
            )
        is_constant = _is_constant(signature.parameters[name])
        if isinstance(value, str) and names_a_number(value) and not is_constant:
            raise CourseError(
                f"{caller} runs the kernel: {name} must be a number, and not the type {value!r}."
            )
        if problem := _no_argument(value, signature.parameters[name]):
            raise CourseError(f"{name} is {problem}.")
    if callable(grid) and not _takes_one(grid):
        raise CourseError(
            "A grid that is a function takes the launch's arguments by their names, as lambda "
            "meta: (triton.cdiv(n, meta['BLOCK']),); this one takes none, or more."
        )
    try:
        sizes = grid(dict(bound.arguments)) if callable(grid) else grid
    except KeyError as error:
        names = ", ".join(bound.arguments)
        raise CourseError(
            f"The grid asks for {error.args[0]!r}, and this launch gives {names}."
        ) from error
    return LaunchRequest(
        kernel, _checked_grid(sizes), tuple(args), kwargs, reference, function.__name__, given
    )


def _takes_one(grid: Function) -> bool:
    """Whether a grid's function can be called with the launch's arguments, in one mapping."""
    try:
        inspect.signature(grid).bind({})
    except TypeError:
        return False
    except ValueError:  # Python knows no signature of some that are written in C
        return True
    return True


def refuse_clusters(caller: str, programs: AnyValue) -> None:
    """Raise CourseError for a launch in clusters of several programs.

    programs: what `num_ctas` is. caller: as in `requested`.
    """
    if isinstance(programs, int) and programs > 1:
        raise CourseError(
            f"{caller} follows programs that run by themselves, and num_ctas={programs} joins "
            "them: leave it out."
        )


def _no_argument(value: AnyValue, parameter: inspect.Parameter) -> str:
    """What a value is that the compiler does not take for a parameter; empty if it may."""
    if _is_constant(parameter):
        return ""
    if isinstance(value, list):
        return "a list: give a tensor, or a tuple where the kernel takes one"
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return f"{value}, and a number of a kernel has 64 bits at most"
    return ""


def _is_constant(parameter: inspect.Parameter) -> bool:
    return "constexpr" in str(parameter.annotation)


def whole_numbers(value: Any) -> tuple[int, ...] | None:
    """A whole number, or a tuple or list of them, as a tuple; None for anything else."""
    numbers = value if isinstance(value, (tuple, list)) else (value,)
    if any(isinstance(each, bool) for each in numbers):
        return None
    try:
        return tuple(map(operator.index, numbers))
    except TypeError:
        return None


def _checked_grid(grid: Any) -> Grid:
    sizes = whole_numbers(grid)
    if not sizes or len(sizes) > 3:
        raise CourseError(
            f"The grid must be one to three whole numbers, as (4,); it is {grid!r:.60}."
        )
    if min(sizes) < 0 or any(size > most for size, most in zip(sizes, MOST_GRID, strict=False)):
        raise CourseError(
            f"The grid {sizes} cannot be launched: its sizes go from 1 to {MOST_GRID}."
        )
    if 0 in sizes:
        raise CourseError(f"The grid {sizes} holds no program: nothing runs.")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


@contextlib.contextmanager
def packed(launch: LaunchRequest, most_bytes: int | None = None) -> Iterator[PackedLaunch]:
    """A launch for another process, as long as its tensors lie in their file.

    Raises CourseError if they are too large, or cannot be written.
    """
    tensors: list[torch.Tensor] = []
    args = [describe(value, tensors) for value in launch.args]
    kwargs = {name: describe(value, tensors) for name, value in launch.kwargs.items()}
    storages = [tensor.untyped_storage() for tensor in tensors if not tensor.is_meta]
    size = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    most_bytes = MOST_BYTES if most_bytes is None else most_bytes
    if size > most_bytes:
        raise CourseError(
            f"The tensors hold {size / 2**30:.1f} GiB, and are copied to be traced, up to "
            f"{most_bytes / 2**30:.0f} GiB: take smaller ones, or empty ones on the device 'meta' "
            "where their values do not matter."
        )
    with tempfile.TemporaryDirectory(prefix="course-trace-") as folder:
        path = Path(folder) / "tensors.pt"
        try:
            torch.save(tensors, path)
        except (OSError, RuntimeError) as error:
            raise CourseError(
                f"The tensors could not be copied to {folder}, {size / 2**20:.0f} MiB: {error}."
            ) from error
        yield PackedLaunch(launch.reference, args, kwargs, launch.grid, str(path))


def value_of(ended: Ended[T]) -> T:
    """What a tracing child has returned. Raises CourseError if it raised one, or was ended."""
    if ended.error is not None:
        raise ended.error
    if ended.value is None:
        what_to_do = (
            "try again if this machine is busy" if ended.stopped else "your session goes on"
        )
        sentence = ended.sentence("the interpreter's process")
        raise CourseError(f"The kernel could not be traced: {sentence}; {what_to_do}.")
    return ended.value


def runs_here(launch: LaunchRequest, gpu: Gpu) -> bool:
    """Whether this machine's GPU is the one that is asked for, and holds the tensors."""
    if not MODE.gpu or torch.cuda.get_device_name() not in gpu.device_names:
        return False
    tensors: list[torch.Tensor] = []
    for value in [*launch.args, *launch.kwargs.values()]:
        describe(value, tensors)
    return all(tensor.is_cuda for tensor in tensors)


def measured_us(launch: LaunchRequest, gpu: Gpu) -> float | None:
    """The median time of a launch in microseconds, the L2 cache emptied before each.

    None if this machine's GPU is another one, or a tensor lies elsewhere.
    """
    if not runs_here(launch, gpu):
        return None
    copies = Copies()
    args = [copies.of(value) for value in launch.args]
    kwargs = {name: copies.of(value) for name, value in launch.kwargs.items()}
    kernel = inner_kernel(launch.kernel)  # all is chosen
    again = lambda: kernel[launch.grid](*args, **kwargs)  # noqa: E731
    return 1000 * float(triton.testing.do_bench(again, return_mode="median"))
