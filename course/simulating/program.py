"""One program of a simulated kernel: where it stands, and what it has under way."""

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from .memory import Memory
from .partitions import Partition, Turns
from .problems import SimulationError

HERE = str(Path(__file__).parent)


class Program:
    """What the functions of Gluon ask of the program that calls them."""

    def __init__(self, number: int, programs: int, num_warps: int, turns: Turns) -> None:
        self.number, self.programs, self.num_warps = number, programs, num_warps
        self.turns = turns
        self.memory = Memory()

    def own(self, kind: str) -> list[Any]:
        """What the partition that runs has under way, of one kind, the oldest first."""
        queue: list[Any] = self.turns.current.state.setdefault(kind, [])
        return queue

    def partition(self, name: str, function: Callable[..., Any], *arguments: Any) -> Partition:
        """A partition that runs a function of the kernel, and ends what it has begun."""

        def run() -> Any:
            try:
                result = function(*arguments)
            except SimulationError as error:
                raise error.placed(_place(error)) from None
            for kind in ("products", "stores", "groups"):
                while queue := self.own(kind):
                    queue.pop(0)()
            return result

        return Partition(name, run)

    def assigned_name(self, default: str) -> str:
        """The name on the left of the kernel's line that runs."""
        match = re.match(r"\s*(\w+)\s*=[^=]", _text(kernel_frame()))
        return match[1] if match else default


def kernel_frame() -> FrameType:
    """The frame of the kernel's line that runs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    assert frame is not None
    return frame


def _text(frame: Any) -> str:
    context = inspect.getframeinfo(frame, context=1).code_context
    return context[0] if context else ""


def _place(error: BaseException) -> str:
    """The innermost line of the kernel that an error came through."""
    place, step = "", error.__traceback__
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(HERE):
            place = (
                f"In {step.tb_frame.f_code.co_name}, line {step.tb_lineno}: {_text(step).strip()}"
            )
        step = step.tb_next
    return place
