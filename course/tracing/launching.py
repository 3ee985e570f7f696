"""Run a kernel's launch in a child that interprets, on copies of its tensors."""

import inspect
import operator
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course.errors import CourseError
from course.gpus.limits import MOST_GRID
from course.isolate.ended import Ended
from course.isolate.pool import call
from course.lowering.arguments import describe
from course.lowering.kernel_reference import Reference, reference_of
from course.triton_internals.jit_functions import (
    chosen_by_heuristics,
    compiler_options,
    plain_function,
)

MOST_BYTES = 2**30
"""Of the tensors of a launch that is traced: they are copied into the child."""
TRACE_S = 20
"""After so many seconds of computing a trace ends with what it has."""
MORE_S = 40
"""For packing up."""


@dataclass(frozen=True)
class Asked:
    """A launch as it was asked for."""

    kernel: Any
    grid: tuple[int, int, int]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reference: Reference

    @property
    def name(self) -> str:
        function = plain_function(self.kernel)
        assert function is not None
        return function.__name__


def asked(asker: str, kernel: Any, grid: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Asked:
    """Check a launch. grid: as a launch takes it, or a number for one axis.

    Raises CourseError for what is no kernel, no grid, or cannot be run in the interpreter.
    """
    reference = reference_of(kernel, asker)
    function = plain_function(kernel)
    assert function is not None
    parameters = inspect.signature(function).parameters
    if unknown := [
        name for name in kwargs if name not in parameters and name not in compiler_options()
    ]:
        raise CourseError(
            f"{unknown[0]} is neither a parameter of {function.__name__} nor an option of the compiler."
        )
    try:
        kwargs = kwargs | chosen_by_heuristics(kernel, list(parameters), args, kwargs)
        bound = inspect.signature(function).bind(
            *args, **{name: kwargs[name] for name in kwargs if name in parameters}
        )
    except TypeError as error:
        chosen = (
            " What @triton.autotune would choose must be given by name."
            if hasattr(kernel, "configs")
            else ""
        )
        raise CourseError(
            f"The arguments do not fit the kernel {function.__name__}: {error}.{chosen}"
        ) from None
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if isinstance(value, str) and value.startswith(("*", "tensordesc")):
            raise CourseError(
                f"{asker} runs the kernel: {name} must be a tensor, and not the type {value!r}."
            )
    return Asked(kernel, _grid(grid, dict(bound.arguments)), tuple(args), kwargs, reference)


def _grid(grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
    found = grid(bound) if callable(grid) else grid
    given = found if isinstance(found, (tuple, list)) else (found,)
    try:
        sizes = tuple(operator.index(size) for size in given if not isinstance(size, bool))
    except TypeError:
        sizes = ()
    if not 1 <= len(sizes) <= 3 or len(sizes) != len(given):
        raise CourseError(
            f"The grid must be one to three whole numbers, as (4,); it is {found!r:.60}."
        )
    if min(sizes) < 0 or any(size > most for size, most in zip(sizes, MOST_GRID, strict=False)):
        raise CourseError(
            f"The grid {sizes} is none that can be launched: sizes go from 1 to {MOST_GRID}."
        )
    if 0 in sizes:
        raise CourseError(f"The grid {sizes} holds no program: nothing runs.")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def run(function: Callable[..., Any], launch: Asked, *more: Any) -> Any:
    """What `function(reference, args, kwargs, grid, file, *more)` returns in a child that interprets.

    file: where the tensors lie; the child changes its own copies. Raises CourseError where the child does not come to its end.
    """
    kept: list[torch.Tensor] = []
    args = [describe(value, kept) for value in launch.args]
    kwargs = {name: describe(value, kept) for name, value in launch.kwargs.items()}
    sizes = {
        each.untyped_storage().data_ptr(): each.untyped_storage().nbytes()
        for each in kept
        if not each.is_meta
    }
    if (size := sum(sizes.values())) > MOST_BYTES:
        raise CourseError(
            f"The tensors hold {size / 2**30:.1f} GiB, and are copied to be traced, up to {MOST_BYTES / 2**30:.0f} GiB: "
            "take smaller ones, or empty ones on the device 'meta' where their values do not matter."
        )
    with tempfile.TemporaryDirectory(prefix="course-trace-") as folder:
        path = Path(folder) / "tensors.pt"
        try:
            torch.save(kept, path)
        except (OSError, RuntimeError) as error:
            raise CourseError(
                f"The tensors could not be copied to {folder}, {size / 2**20:.0f} MiB: {error}."
            ) from error
        ended = call(
            function,
            launch.reference,
            args,
            kwargs,
            launch.grid,
            str(path),
            *more,
            kind="interpret",
            timeout_s=TRACE_S + MORE_S,
        )
    return value_of(ended)


def value_of(ended: Ended) -> Any:
    """What a tracing child has returned. Raises CourseError where it did not come to its end, or says why it could not."""
    if ended.how == "finished":
        if isinstance(ended.value, dict) and "problem" in ended.value:
            raise CourseError(ended.value["problem"])
        return ended.value
    if ended.how == "crashed":
        raise CourseError(
            f"The kernel was killed by {ended.signal} in the interpreter. Your session is untouched."
        )
    if ended.stopped:
        raise CourseError(
            f"The kernel could not be traced: it was stopped {ended.stopped}; try again if this machine is busy."
        )
    raise CourseError(
        f"The kernel could not be traced: {ended.exception or f'it left with exit code {ended.code}'}."
    )
