"""launches: what a running program launches through Triton, to be given to the tools."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton

from course.lowering.kernel_reference import function_of
from course.lowering.recorded_grid import RecordedGrid
from course.table import columns
from course.triton_internals.choices import config_text
from course.triton_internals.launches_watched import WatchedLaunch, launches_watched
from course.type_names import AnyValue, AnyValues, Kernel

from .copies import Copies
from .repeat_file import write_repeat

MOST_LAUNCHES = 100
"""Launches that are kept: their tensors are copied."""
MOST_SHOWN = 100
"""Characters of a launch's arguments in the table."""


@dataclass(frozen=True, repr=False)
class Launch:
    """A launch with its arguments as they were before it: cost(*launch) and the like take it.

    Goes through as kernel, grid, then the arguments by place; those by name travel with the grid.
    """

    kernel: Kernel
    """With what stands above `@triton.jit`."""
    grid: RecordedGrid
    """Programs along each axis."""
    args: tuple[AnyValue, ...]
    """Tensors are copies, with the same strides; those that shared memory do so again."""
    kwargs: AnyValues
    """The arguments by name, and as `config` what `@triton.autotune` has chosen."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.kernel, self.grid, *self.args))

    @property
    def name(self) -> str:
        """The kernel's name."""
        return function_of(self.kernel, "launches").__name__

    def copied(self, copies: Copies) -> "Launch":
        """The same with other copies of its tensors."""
        kwargs = {name: copies.of(value) for name, value in self.kwargs.items()}
        grid = RecordedGrid.of(self.grid, kwargs, self.grid.given)
        return Launch(self.kernel, grid, tuple(map(copies.of, self.args)), kwargs)

    def to_file(self, path: str | Path, seed: int | None = None) -> Path:
        """Write a file that repeats this launch alone, on a GPU or in the interpreter; returns its
        path.

        The file needs PyTorch and Triton, and a package that the kernel's helpers are imported
        from. The tensors' values lie beside it, as NAME.pt.
        seed: make the values anew from this seed instead: floating-point numbers of a normal
            distribution, and integers between the smallest and the largest recorded one; up to 64
            integers stand in the file as they were, since they may be where sequences begin.

        Raises CourseError where something that the kernel uses cannot go along, and for a file that
        is there and holds something else.
        """
        return write_repeat(Path(path), self.kernel, self.grid, self.args, self.kwargs, seed)

    def row(self) -> tuple[str, str, str]:
        """The kernel, the grid and the arguments, in short."""
        given = [*map(_short, self.args)]
        given += [f"{name}={_short(value)}" for name, value in self.kwargs.items()]
        arguments = ", ".join(given)
        if len(arguments) > MOST_SHOWN:
            arguments = f"{arguments[: MOST_SHOWN - 1]}…"
        return self.name, " x ".join(map(str, self.grid)), arguments

    def __repr__(self) -> str:
        return columns([self.row()])


def _short(value: AnyValue) -> str:
    if isinstance(value, triton.Config):
        return f"({config_text(value)})"
    if not isinstance(value, torch.Tensor):
        return repr(value) if isinstance(value, (str, int, float)) else f"{value!s:.40}"
    sizes = " x ".join(map(str, value.shape))
    strided = "" if value.is_contiguous() else f" strides {value.stride()}"
    return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]{strided}"


class Launches(list[Launch]):
    """What `launches` has recorded, in order. Prints as a table."""

    left_out = 0
    """Launches after the last one that was kept."""

    def __repr__(self) -> str:
        if not self:
            return "No launch was recorded."
        rows = [(str(number), *launch.row()) for number, launch in enumerate(self)]
        lines = [columns([("", "kernel", "grid", "arguments"), *rows])]
        if self.left_out:
            lines.append(f"{self.left_out:,} more were not kept.")
        return "\n".join(lines)


class Recorder:
    """Makes a `Launch` of each launch that it wants."""

    def __init__(self) -> None:
        self._under_way: dict[int, tuple[Copies, Launch | None]] = {}

    def wanted(self, launch: WatchedLaunch) -> Copies | None:
        """What copies the launch's arguments; None if it is not recorded."""
        raise NotImplementedError

    def keep(self, launch: WatchedLaunch, recorded: Launch) -> None:
        """A launch that was recorded has ended, or has failed."""
        raise NotImplementedError

    def begins(self, launch: WatchedLaunch) -> bool:
        """As `launches_watched` tells it, as the others do."""
        copies = self.wanted(launch)
        if copies is not None:
            for value in (*launch.args, *launch.kwargs.values()):
                copies.of(value)
            self._under_way[id(launch)] = copies, None
        return copies is not None

    def ready(self, launch: WatchedLaunch) -> None:
        copies, _ = self._under_way[id(launch)]
        # A configuration may change a descriptor's block, so that it is copied only here.
        kwargs = {name: copies.of(value) for name, value in launch.kwargs.items()}
        grid = RecordedGrid.of(launch.sizes, kwargs, launch.grid)
        recorded = Launch(launch.kernel, grid, tuple(map(copies.of, launch.args)), kwargs)
        self._under_way[id(launch)] = copies, recorded

    def ended(self, launch: WatchedLaunch) -> None:
        _, recorded = self._under_way.pop(id(launch))
        if recorded:
            self.keep(launch, recorded)


class _First(Recorder):
    """Keeps the first launches."""

    def __init__(self, launches: Launches, most: int) -> None:
        super().__init__()
        self._launches, self._most = launches, most

    def wanted(self, launch: WatchedLaunch) -> Copies | None:
        if len(self._launches) + len(self._under_way) < self._most:
            return Copies()
        self._launches.left_out += 1
        return None

    def keep(self, launch: WatchedLaunch, recorded: Launch) -> None:
        self._launches.append(recorded)


@contextlib.contextmanager
def launches(run: bool = True, most: int = MOST_LAUNCHES) -> Iterator[Launches]:
    """Record what runs through Triton within a `with`: kernel[grid](...), tuned or not.

        with course.launches() as seen:
            package_function(x, y)
        cost(*seen[0])

    Tensors are copied before their launch. `cost`, `replay`, `diagnose`, `draw.access`, `lower`,
    `explore`, `configs` and `simulate` take a launch so, with other arguments by name behind it.

    run: whether the kernels run. With run=False nothing is computed, so that also kernels can be
        recorded that this machine cannot run; their results stay as they were allocated.
    most: how many launches are kept, the first ones.
    """
    seen = Launches()
    with launches_watched(_First(seen, most), run):
        yield seen
