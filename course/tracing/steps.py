"""The steps of a program: each statement that ran, with what it has set and what it has touched, as
records that have a cell for each element or patch of them.
"""

import sys
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from course.triton_internals.interpreted_values import numbers_of, scalar_text, value_text
from course.triton_internals.interpreter import Access, Program, interpreted_array
from course.triton_internals.reductions import combines_elements
from course.type_names import AnyValue, AnyValues, Function

from .address_map import Arguments
from .downsample import Panel
from .kernel_text import KernelText
from .records import Cells, ProgramSteps, Step, Touch, Value, finite_range
from .replay_text import touch_text

MOST_CELLS_ACROSS = 32


@dataclass(frozen=True)
class HeldNumbers:
    """The numbers of an interpreted value."""

    dtype: str
    """Triton's name."""
    numbers: np.ndarray
    of: str = ""
    """The tensor whose elements they count, if they were addresses in it."""


def encoded_variable(
    value: AnyValue, arguments: Arguments, name: str, active: np.ndarray | None = None
) -> Value:
    """What a variable holds. active: the lanes that the mask of its load lets pass."""
    data = interpreted_array(value)
    if data is None:
        return Value(text=value_text(value))
    if value.dtype.is_ptr():
        block = _pointers(data, f"*{value.dtype.element_ty}", arguments, name)
    else:
        block = HeldNumbers(str(value.dtype), numbers_of(data, str(value.dtype)))
    return _value(block, active)


def encoded_touch(access: Access, arguments: Arguments, tensor: int | None) -> Touch:
    """An access as a record. tensor: the number of the argument that it goes to."""
    lanes, outside, first, last, cells = int(access.addresses.size), 0, "", "", None
    masked = int(access.active.size) - lanes
    if tensor is not None:
        argument = arguments.all[tensor]
        numbers = argument.numbers(access.addresses)
        inside = numbers[numbers >= 0]
        outside = int((numbers < 0).sum())
        if inside.size:
            first, last = argument.place(int(inside[0])), argument.place(int(inside[-1]))
        touched = Panel(argument.shape).touched(inside)
        cells = Cells.of(np.packbits(touched, bitorder="little"))
    value = None
    if access.values is not None:
        block = HeldNumbers(access.dtype, numbers_of(access.values, access.dtype))
        value = _value(block, access.active)
    text = touch_text(access.kind, lanes, masked, outside, first, last)
    return Touch(access.kind, text, tensor, outside, cells, value)


def _pointers(data: np.ndarray, dtype: str, arguments: Arguments, name: str) -> HeldNumbers:
    """Addresses as numbers of the tensor's elements, if there is a tensor."""
    addresses = data.astype(np.int64)
    tensor = arguments.at(data.ravel().astype(np.uint64), [name])
    if tensor is None:
        return HeldNumbers(dtype, addresses)
    argument = arguments.all[tensor]
    return HeldNumbers(dtype, (addresses - argument.address) // argument.itemsize, argument.name)


def _value(block: HeldNumbers, active: np.ndarray | None) -> Value:
    """A block as a record. active: the lanes that no mask keeps out, of the block's shape."""
    numbers = block.numbers
    if numbers.ndim == 0:
        return Value(text=scalar_text(numbers.item()), dtype=block.dtype, of=block.of)
    panel = Panel(numbers.shape, MOST_CELLS_ACROSS)
    mask, masked, defined = None, 0, numbers
    if active is not None and active.shape == numbers.shape and not active.all():
        mask, masked = Cells.of(panel.shown(active)), int((~active).sum())
        defined = numbers[active]  # what a masked lane holds is undefined
    least, most = finite_range(defined) if numbers.dtype != bool else (None, None)
    return Value(
        dtype=block.dtype,
        of=block.of,
        shape=numbers.shape,
        cells=panel.cells,
        patch=panel.patch,
        data=Cells.of(panel.shown(numbers)),
        least=least,
        most=most,
        nan=int(np.isnan(defined).sum()),
        inf=int(np.isinf(defined).sum()),
        mask=mask,
        masked=masked,
    )


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
                sets[name] = encoded_variable(value, self._arguments, name, mask)
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
        innermost.touches.append(encoded_touch(access, self._arguments, tensor))
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
