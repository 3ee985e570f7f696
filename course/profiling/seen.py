"""What a program launches, while it runs: each kernel with each kind of arguments once, and how
often. Nothing of a launch is held once it has ended but its outline."""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from triton import KernelInterface

from course.lowering.recorded_grid import RecordedGrid
from course.tracing.copies import Copies, OnHost, Outlines
from course.tracing.recorder import Launch, Recorder
from course.triton_internals.jit_functions import inner_kernel
from course.triton_internals.launches_watched import WatchedLaunch
from course.type_names import AnyValue

NOT_THE_PROGRAM = {"course", "torch", "triton", "IPython", "ipykernel", "tornado", "traitlets"}
"""Packages whose lines are left out of the path to a launch, beside Python's own modules."""

ROOM = str(Path(__file__).parent)


@dataclass(frozen=True)
class Place:
    """A line of the program that is on the way to a launch."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Kind:
    """The launches of one kernel from one line, with arguments of the same shapes and types."""

    name: str
    path: tuple[Place, ...]
    """From the program's outermost line to the one that launches."""
    launches: int = 1
    launch: Launch | None = None
    """The first, in outline; None while it has not ended."""
    problem: str = ""
    """Why the launch could not be recorded."""
    gpu_name: str = ""
    """What the GPU's profiler calls the kernel."""
    us: float | None = None
    """What they took together on a GPU; None if that was not measured."""
    devices: set[int] = field(default_factory=set)


class Seen(Recorder):
    """Counts launches by their kind, and keeps an outline of the first of each."""

    def __init__(self, data: bool, on_new: Callable[[Kind], None] = lambda _: None) -> None:
        """data: keep the numbers of tensors too. on_new: is told of each kind's first launch."""
        super().__init__()
        self.kinds: dict[Any, Kind] = {}
        self._copies: type[Copies] = OnHost if data else Outlines
        self._on_new, self._lock = on_new, threading.Lock()

    def wanted(self, launch: WatchedLaunch) -> Copies | None:
        frame = _of_the_program(sys._getframe(1))
        key = _key(launch, frame)
        with self._lock:
            if (kind := self.kinds.get(key)) is not None:
                kind.launches += 1
                return None
            self.kinds[key] = kind = Kind(_name(launch.kernel), _path(frame))
        launch.note = kind
        return self._copies()

    def begins(self, launch: WatchedLaunch) -> bool:
        return self._without_harm(super().begins, launch) or False

    def ready(self, launch: WatchedLaunch) -> None:
        self._without_harm(super().ready, launch)
        self._on_new(launch.note)

    def _without_harm(self, step: Callable[[WatchedLaunch], Any], launch: WatchedLaunch) -> Any:
        """Whatever a program launches, recording it is no reason for an error there."""
        try:
            return step(launch)
        except Exception as error:
            if launch.note is not None:
                launch.note.problem = f"{type(error).__name__}: {error}"
            return None

    def keep(self, launch: WatchedLaunch, recorded: Launch) -> None:
        # The grid as it was given may be a function that holds tensors.
        grid = RecordedGrid.of(recorded.grid, recorded.kwargs, tuple(recorded.grid))
        launch.note.launch = replace(recorded, grid=grid)
        compiled = getattr(launch.compiled, "metadata", None)
        launch.note.gpu_name = getattr(compiled, "name", launch.note.name)


def _name(kernel: KernelInterface) -> str:
    return str(inner_kernel(kernel).fn.__name__)


def _key(launch: WatchedLaunch, frame: FrameType | None) -> Any:
    grid = None if callable(launch.grid) else launch.grid
    line = frame and (frame.f_code, frame.f_lineno)
    given = (*launch.args, *launch.kwargs, *launch.kwargs.values())
    return id(launch.kernel), line, grid, *map(_kind_of, given)


def _kind_of(value: AnyValue) -> Any:
    """What an argument has in common with those that a kernel takes equally long for."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.stride()
    if type(value) is int:  # a place or a seed may be another one in each launch
        return value.bit_length(), value % 16 == 0
    if isinstance(value, (bool, str)) or value is None:
        return value
    if type(value) is tuple:
        return tuple(map(_kind_of, value))
    shape, block = getattr(value, "shape", None), getattr(value, "block_shape", None)  # descriptors
    return type(value), str(shape), str(block)


def _of_the_program(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the program's own from here outwards."""
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        ours = frame.f_code.co_filename.startswith(ROOM)  # which runs scripts
        if not (ours or package in NOT_THE_PROGRAM or package in sys.stdlib_module_names):
            return frame
        frame = frame.f_back
    return None


def _path(frame: FrameType | None) -> tuple[Place, ...]:
    places: list[Place] = []
    while frame is not None:
        code = frame.f_code
        places.insert(0, Place(_short(code.co_filename), frame.f_lineno, code.co_qualname))
        frame = _of_the_program(frame.f_back)
    return tuple(places)


def _short(file: str) -> str:
    """A file's path as people name it: from where packages lie, or from the current folder."""
    path = Path(file)
    if "ipykernel_" in file or file.startswith("<ipython"):
        return "your cell"
    for folder in (Path.cwd(), *map(Path, filter(None, sys.path))):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return file
