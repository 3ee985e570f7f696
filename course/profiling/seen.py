"""What a program launches, while it runs: each kernel with each kind of arguments once, and how
often. Nothing of a launch is held once it has ended but its outline."""

import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from course.lowering.recorded_grid import RecordedGrid
from course.tracing.copies import Copies, OnHost, Outlines
from course.tracing.recorder import Launch, Recorder
from course.triton_internals.jit_functions import inner_kernel
from course.triton_internals.launches_watched import WatchedLaunch
from course.type_names import AnyValue

from .row import Place, Row

NOT_THE_PROGRAM = {"course", "torch", "triton", "IPython", "ipykernel", "tornado", "traitlets"}
"""Packages whose lines are left out of the path to a launch, beside Python's own modules."""
STEADY, ONE_IN = 64, 16
"""Launches of a kernel after which only one in so many is looked at."""
ROOM = str(Path(__file__).parent)
"""Whose lines run scripts."""


class Seen(Recorder):
    """Counts launches by their kind, and keeps an outline of the first of each."""

    def __init__(
        self, data: bool, target: str | None, on_new: Callable[[Row], None], thinly: bool = False
    ) -> None:
        """data: keep the numbers of tensors too. on_new: is told of each row before its first
        launch runs. thinly: look at every 16th launch only, once a kernel has brought nothing new
        for a while: a look takes as long as half a launch does, and a GPU's profiler counts."""
        super().__init__()
        self.rows: dict[Any, Row] = {}
        self.lost = Counter[str]()
        """Why launches are in no row, and how many."""
        self._copies: type[Copies] = OnHost if data else Outlines
        self._target, self._on_new, self._lock = target, on_new, threading.Lock()
        self._thinly, self._known = thinly, Counter[int]()

    def wanted(self, launch: WatchedLaunch) -> Copies | None:
        frame = _of_the_program(sys._getframe(1))
        given = (*launch.args, *launch.kwargs, *launch.kwargs.values())
        grid = None if callable(launch.grid) else launch.grid
        line = frame and (frame.f_code, frame.f_lineno)
        key = id(launch.kernel), line, grid, *map(_kind_of, given)  # a row holds its kernel
        with self._lock:
            if (row := self.rows.get(key)) is not None:
                row.launches += 1
                return None
            self._known[id(launch.kernel)] = 0
            kernel = inner_kernel(launch.kernel)
            name = kernel.__name__
            self.rows[key] = launch.note = Row(name, _path(frame), self._target, gpu_name=name)
        if kernel.fn is None:
            launch.note.problem = "it is out of torch.compile's cache, without its source"
            return None
        return self._copies()

    def begins(self, launch: WatchedLaunch) -> bool:
        if self._thinly:
            self._known[id(launch.kernel)] += 1
            if (times := self._known[id(launch.kernel)]) > STEADY and times % ONE_IN:
                return False
        return self._harmless(super().begins, launch) or False

    def ready(self, launch: WatchedLaunch) -> None:
        self._harmless(super().ready, launch)
        self._on_new(launch.note)

    def _harmless(self, step: Callable[[WatchedLaunch], Any], launch: WatchedLaunch) -> Any:
        """Take a step. What goes wrong with recording is no reason for an error in the program."""
        try:
            return step(launch)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if launch.note is None:
                self.lost[problem] += 1
            else:
                launch.note.problem = problem
            return None

    def keep(self, launch: WatchedLaunch, recorded: Launch) -> None:
        # The grid as it was given may be a function that holds tensors.
        grid = RecordedGrid.of(recorded.grid, recorded.kwargs, tuple(recorded.grid))
        launch.note.recorded = replace(recorded, grid=grid)
        if launch.compiled is not None:
            launch.note.gpu_name = launch.compiled.metadata.name


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
    shapes = (str(getattr(value, name, "")) for name in ("shape", "block_shape"))  # descriptors
    return type(value), *shapes


LAUNCHER = "ipykernel_launcher.py"
"""The file with which a notebook's session begins: its frame is outside all cells'."""


def _of_the_program(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the program's own from here outwards."""
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        file = frame.f_code.co_filename
        ours = package in NOT_THE_PROGRAM or file.startswith(ROOM) or file.endswith(LAUNCHER)
        if not ours and package not in sys.stdlib_module_names:
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
    if "ipykernel_" in file or file.startswith("<ipython"):
        return "your cell"
    folders = (Path.cwd(), *map(Path, filter(None, sys.path)))
    path = Path(file)
    inside = (str(path.relative_to(each)) for each in folders if path.is_relative_to(each))
    return min(inside, key=len, default=file)
