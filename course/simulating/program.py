"""One program of a simulated kernel: where it stands, and what it has under way."""

import linecache
import os
import re
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from .faults import SimulationError, UnsupportedError
from .partitions import Partition, Turns, UnderWay
from .shared_memory import Memory

if TYPE_CHECKING:
    from .copy_names import Store
    from .kernel_values import Value

TraceFunction = Callable[[FrameType, str, Any], Any]
Axes = tuple[int, int, int]
"""A program's place in its grid, or the grid, along each axis."""
HERE = str(Path(__file__).parent) + os.sep
NOT_THE_KERNELS = (HERE, str(Path(np.__file__).parent) + os.sep)


class Program:
    """What the functions of Gluon ask of the program that calls them."""

    def __init__(self, place: Axes, grid: Axes, num_warps: int, turns: Turns) -> None:
        self.place, self.grid, self.num_warps = place, grid, num_warps
        self.turns = turns
        self.memory = Memory(turns)
        self.stores: list[Store] = []
        """Copies out of shared memory, which are in their tensors when the program has ended."""
        self.specialized = False
        """Whether a warp_specialize is under way."""
        self.codes: set[CodeType] = set()
        """The functions of the kernel that have run, as Python's code."""

    @property
    def under_way(self) -> UnderWay:
        """What the partition that runs has under way."""
        return self.turns.current.under_way

    def end(self) -> None:
        """The program has ended. Raises HazardError if something still uses its memory."""
        self.memory.refuse_pending()
        for store in self.stores:
            store.land()

    def partition(
        self, name: str, num_warps: int, function: "Callable[..., Value]", *arguments: "Value"
    ) -> Partition:
        """A partition that runs a function of the kernel."""

        def run() -> "Value":
            if sys.gettrace() is None:  # a debugger's, or coverage's, stays
                sys.settrace(self._traced)
            try:
                return function(*arguments)
            except SimulationError as error:
                raise error.placed(_place(error)) from None
            except Exception as error:
                words = f"simulate cannot follow a line: {type(error).__name__}: {error}."
                raise UnsupportedError(words).placed(_place(error)) from error

        return Partition(name, run, num_warps)

    def _traced(self, frame: FrameType, event: str, _: object) -> TraceFunction | None:
        """Count each line of the kernel: a loop may go on forever and touch no memory."""
        if frame.f_code not in self.codes:
            return None
        if event == "line":
            self.turns.step()
        return self._traced

    def assigned_name(self, default: str) -> str:
        """The name on the left of the kernel's statement that runs."""
        frame = kernel_frame()
        text = _text(frame.f_code, frame.f_lineno)
        *_, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
        match = re.match(r"\s*(\w+)\s*=[^=]", text[text.rfind(";", 0, column or 0) + 1 :])
        return match[1] if match else default


class ProgramNames:
    """Functions that a simulated kernel calls, which ask the program that calls them."""

    def __init__(self, program: Program) -> None:
        self._program = program


def kernel_frame() -> FrameType:
    """The frame of the kernel's line that runs."""
    frames = (frame for frame, _ in walk_stack(sys._getframe(1)))
    return next(each for each in frames if not each.f_code.co_filename.startswith(HERE))


def _text(code: CodeType, line: int) -> str:
    # inspect finds it too, and looks through all modules for each line.
    return linecache.getline(code.co_filename, line)


def _place(error: BaseException) -> str:
    """The innermost line of the kernel that an error came through."""
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(NOT_THE_KERNELS):
            place = f"In {code.co_name}, line {line}: {_text(code, line).strip()}"
    return place
