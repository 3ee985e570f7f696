"""The line in which a program's first NaN comes up: what a NaN in the result goes back to."""

import sys
from types import FrameType
from typing import Any

import numpy as np

from course.tracing.likely_causes import Cause
from course.tracing.own_line import OwnLine, is_own
from course.triton_internals.interpreted_values import numbers_of
from course.triton_internals.interpreter import Program, interpreted_array
from course.type_names import AnyValue, Function

from .inputs import Case
from .reruns import rerun


def first_nan(function: Function, case: Case, program: Program) -> Cause:
    """Where the first NaN of a program comes up, if a variable holds it."""
    search = _Search()
    before = sys.gettrace()
    sys.settrace(search.call)
    try:
        rerun(function, case, sample=lambda grid: [program])
    finally:
        sys.settrace(before)
    if not search.name:
        return "", None
    return f"The first NaN comes up in that line, in {search.name}.", search.line


class _Search:
    """Looks at the variables of the reader's functions, by Python's own tracing of lines."""

    def __init__(self) -> None:
        self.name = ""
        self.line: OwnLine | None = None
        self._running: dict[FrameType, int] = {}

    def call(self, frame: FrameType, event: str, _: Any) -> Function | None:
        if self.name or not is_own(frame.f_code.co_filename):
            return None
        self._running[frame] = frame.f_lineno
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Function:
        if event in ("line", "return") and not self.name:
            file, line = frame.f_code.co_filename, self._running[frame]
            self.name = next((n for n, value in frame.f_locals.items() if _has_nan(value)), "")
            self.line = OwnLine(file, line) if self.name else None
            self._running[frame] = frame.f_lineno
        return self._step


def _has_nan(value: AnyValue) -> bool:
    """Whether it is a block or number of a kernel, and holds a NaN."""
    data = interpreted_array(value)
    if data is None or not value.dtype.is_floating():
        return False
    return bool(np.isnan(numbers_of(data, str(value.dtype))).any())
