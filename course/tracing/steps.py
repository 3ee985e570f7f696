"""Every line that a program runs, with what it has set and what it has touched."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from course.triton_internals.interpreter import Access, Program, combines_elements

from .address_map import Arguments
from .downsample import Panel
from .encode import Blob, Block, block_of, drawn, numbers_of, plain_text
from .sites import Listing

MOST_STEPS = 2000
MOST_BYTES = 8 * 2**20
"""Of the values of one program."""
NOTHING = object()


@dataclass
class Step:
    """A line that has run."""

    file: str
    line: int
    depth: int
    """0 in the kernel, 1 in a function that it calls, and so on."""
    sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The variables that it has set: see `values.drawn`."""
    touches: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    end: int = 0
    """Where in the blob what it has set and touched ends."""


@dataclass
class Recorded:
    """The steps of one program."""

    program: Program
    steps: list[Step] = field(default_factory=list)
    blob: Blob = field(default_factory=Blob)
    cut: bool = False
    """Whether it went on after the last step that is kept."""


@dataclass
class _Frame:
    """A function that is running."""

    known: dict[str, Any]
    line: int
    """Of the statement that runs, 0 before the first."""
    at: int
    """The line within that statement."""
    touches: list[dict[str, Any]]
    depth: int
    failing: bool = False
    """Whether an exception is on its way out."""


class Recorder:
    """Records the steps of one program, by Python's own tracing of lines."""

    def __init__(self, program: Program, listing: Listing, arguments: Arguments) -> None:
        self.recorded = Recorded(program)
        self._listing, self._arguments = listing, arguments
        self._frames: dict[FrameType, _Frame] = {}

    def start(self) -> None:
        sys.settrace(self._call)

    def stop(self, error: str = "") -> None:
        """The program has ended, by an error or not."""
        sys.settrace(None)
        if (
            error and self._frames
        ):  # where it failed is the innermost; the calls that led there have not ended
            self._close(max(self._frames, key=lambda frame: self._frames[frame].depth), error)
        self._frames = {}

    def _call(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        # What a reduction combines with is called for every pair of elements: it is no line that the kernel runs.
        if (
            event != "call"
            or combines_elements(frame.f_back)
            or not self._listing.holds(frame.f_code)
        ):
            return None
        # Arguments are known from the start: they are shown as set by the line of the `def`.
        self._frames[frame] = _Frame(
            {}, self._listing.statement(*_head(frame)), 0, [], len(self._frames)
        )
        return self._line

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        state = self._frames.get(frame)
        if state is None:
            return self._line
        if event == "line":
            line = self._listing.statement(frame.f_code.co_filename, frame.f_lineno)
            # A statement over several lines is one step; the same line again is the next turn of a loop.
            if line != state.line or frame.f_lineno == state.at:
                self._close(frame)
                state.line = line
            state.at, state.failing = frame.f_lineno, False
        elif event == "exception":
            state.failing = True
        elif event == "return" and not state.failing:  # what an error ends, `stop` closes
            self._close(frame)
            del self._frames[frame]
        return self._line

    def _close(self, frame: FrameType, error: str = "") -> None:
        """The statement that ran in a frame has ended."""
        state, recorded = self._frames[frame], self.recorded
        if len(recorded.steps) >= MOST_STEPS or len(recorded.blob.content) > MOST_BYTES:
            recorded.cut = True
            if not error:
                return
        step = Step(
            frame.f_code.co_filename, state.line, state.depth, touches=state.touches, error=error
        )
        state.touches = []
        now = dict(frame.f_locals)
        for name, value in now.items():
            if value is not state.known.get(name, NOTHING) and _shown(name, value):
                step.sets[name] = self._described(name, value, step)
        state.known = now
        for touch in step.touches:
            touch.pop("active")
        step.end = len(recorded.blob.content)
        recorded.steps.append(step)

    def _described(self, name: str, value: Any, step: Step) -> dict[str, Any]:
        """A variable that a step has set; with the mask of the load that it is the result of."""
        masks = [touch["active"] for touch in step.touches if touch["kind"] == "load"]
        if self._listing.loaded.get((step.file, step.line)) != name:
            masks = []
        block = block_of(value, self._arguments, name)
        if block is None:
            return {"text": plain_text(value)}
        return drawn(block, self.recorded.blob, masks[0] if len(masks) == 1 else None)

    def access(self, access: Access) -> None:
        """A statement of this program is about to touch memory."""
        if not self._frames or self.recorded.cut:
            return
        innermost = max(self._frames.values(), key=lambda state: state.depth)
        tensor = self._arguments.at(access.addresses, self._listing.site().names)
        touch: dict[str, Any] = {
            "kind": access.kind, "lanes": int(access.addresses.size), "masked": int(access.active.size - access.addresses.size),
            "active": access.active, "tensor": tensor,
        }  # fmt: skip
        if tensor is not None:
            argument = self._arguments.all[tensor]
            numbers = argument.numbers(access.addresses)
            inside = numbers[numbers >= 0]
            touch["outside"] = int((numbers < 0).sum())
            if inside.size:
                touch |= {
                    "first": argument.place(int(inside[0])),
                    "last": argument.place(int(inside[-1])),
                }
            touched = Panel(argument.shape).touched(inside)
            touch["cells"] = self.recorded.blob.add(np.packbits(touched, bitorder="little"))
        if access.values is not None:
            block = Block(access.dtype, numbers_of(access.values, access.dtype))
            touch["value"] = drawn(block, self.recorded.blob, access.active)
        innermost.touches.append(touch)


def _head(frame: FrameType) -> tuple[str, int]:
    return frame.f_code.co_filename, frame.f_code.co_firstlineno


def _shown(name: str, value: Any) -> bool:
    return not name.startswith("__") and (
        not callable(value) or hasattr(value, "value")
    )  # a constexpr can be called
