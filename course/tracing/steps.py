"""The steps of a program: each statement that ran, with what it has set and what it has touched."""

import sys
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from course.triton_internals.interpreter import Access, Program
from course.triton_internals.own_combines import combines_elements
from course.type_names import AnyValue, AnyValues, Function

from . import encode
from .address_map import Arguments
from .kernel_text import KernelText
from .records import ProgramSteps, Step, Touch, Value

MOST_STEPS = 2000
MOST_BYTES = 8 * 2**20
"""Bytes of the values of one program."""
UNSET = object()


@dataclass
class _Frame:
    """A function that is running."""

    variables: AnyValues
    """Its variables when the last statement had ended."""
    statement: int
    """The first line of the statement that runs."""
    line: int
    """The line within that statement; 0 before the first."""
    touches: list[Touch]
    masks: list[np.ndarray]
    """The active lanes of each load of the statement."""
    depth: int
    failing: bool = False
    """Whether an exception is on its way out."""


class Recorder:
    """Records the steps of one program, by Python's own tracing of lines."""

    def __init__(self, program: Program, text: KernelText, arguments: Arguments) -> None:
        self.recorded = ProgramSteps(program)
        self._text, self._arguments = text, arguments
        self._frames: dict[FrameType, _Frame] = {}
        self._bytes = 0

    def start(self) -> None:
        sys.settrace(self._call)

    def stop(self, error: str = "") -> None:
        """The program has ended, by an error or not."""
        sys.settrace(None)
        if error and self._frames:
            # It failed in the innermost function; the calls that led there have not ended.
            self._close(max(self._frames, key=lambda frame: self._frames[frame].depth), error)
        self._frames = {}

    def _call(self, frame: FrameType, event: str, _: Any) -> Function | None:
        # What a reduction combines with runs for every pair of elements: these are no steps.
        is_step = event == "call" and self._text.holds(frame.f_code)
        if not is_step or combines_elements(frame.f_back):
            return None
        # Arguments are known from the start: they are shown as set by the line of the `def`.
        code = frame.f_code
        first = self._text.statement(code.co_filename, code.co_firstlineno)
        self._frames[frame] = _Frame({}, first, 0, [], [], len(self._frames))
        return self._line

    def _line(self, frame: FrameType, event: str, _: Any) -> Function:
        state = self._frames.get(frame)
        if state is None:
            return self._line
        if event == "line":
            statement = self._text.statement(frame.f_code.co_filename, frame.f_lineno)
            # A statement over several lines is one step; the same line again is a loop's next turn.
            if statement != state.statement or frame.f_lineno == state.line:
                self._close(frame)
                state.statement = statement
            state.line, state.failing = frame.f_lineno, False
        elif event == "exception":
            state.failing = True
        elif event == "return" and not state.failing:  # what an error ends, `stop` closes
            self._close(frame)
            del self._frames[frame]
        return self._line

    def _close(self, frame: FrameType, error: str = "") -> None:
        """The statement that ran in a frame has ended."""
        state, recorded = self._frames[frame], self.recorded
        if len(recorded.steps) >= MOST_STEPS or self._bytes > MOST_BYTES:
            recorded.cut = True
            if not error:
                return
        file, line = frame.f_code.co_filename, state.statement
        loaded = self._text.loaded.get((file, line))
        sets: dict[str, Value] = {}
        variables = dict(frame.f_locals)
        for name, value in variables.items():
            if value is not state.variables.get(name, UNSET) and _is_shown(name, value):
                mask = state.masks[0] if name == loaded and len(state.masks) == 1 else None
                sets[name] = encode.variable(value, self._arguments, name, mask)
        row = self._text.row(file, line)
        step = Step(
            row=row, line=line, depth=state.depth, sets=sets, touches=state.touches, error=error
        )
        recorded.steps.append(step)
        self._bytes += _bytes_of(step)
        state.variables, state.touches, state.masks = variables, [], []

    def access(self, access: Access) -> None:
        """A statement of this program is about to touch memory."""
        if not self._frames or self.recorded.cut:
            return
        innermost = max(self._frames.values(), key=lambda state: state.depth)
        tensor = self._arguments.at(access.addresses, self._text.site().names)
        innermost.touches.append(encode.touch(access, self._arguments, tensor))
        if access.kind == "load":
            innermost.masks.append(access.active)


def _bytes_of(step: Step) -> int:
    values = [*step.sets.values(), *(touch.value for touch in step.touches if touch.value)]
    arrays = [array for value in values for array in (value.data, value.mask)]
    arrays += [touch.cells for touch in step.touches]
    return sum(len(array.data) for array in arrays if array)


def _is_shown(name: str, value: AnyValue) -> bool:
    # A constexpr can be called. A function around the kernel may import modules, `tl` for one.
    hidden = name.startswith("__") or isinstance(value, ModuleType)
    return not hidden and (not callable(value) or hasattr(value, "value"))
