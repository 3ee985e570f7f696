"""Which of the kernel's variables a value of the TTGIR is, and on which line it was made."""

from collections.abc import Set
from dataclasses import dataclass

from course.triton_internals.ir import LaidOutValue

from .locations import Frame, printed_frames


@dataclass(frozen=True)
class Value:
    """A value of the TTGIR that has a layout."""

    operation: str
    name: str
    """The variable that it is, in the kernel or in a function that it calls; or nothing."""
    callers: tuple[str, ...]
    """The variables that the calls which led to that function were assigned to."""
    line: int
    """The kernel's line that it comes from; 0 if it comes from none."""
    order: int
    """Its place among all values."""

    @classmethod
    def of(cls, value: LaidOutValue, order: int, own: Set[Frame], returns: Set[Frame]) -> "Value":
        """own: the reader's own lines. returns: those of `return` statements, whose values are the
        caller's."""
        lines = [line for (file, line), _ in printed_frames(value.location) if (file, line) in own]
        names = [(frame, name) for frame, name in printed_frames(value.named) if frame in own]
        while names and not names[0][1] and names[0][0] in returns:
            names.pop(0)
        if names and not names[0][1]:  # as what a call of tl.store makes on its way
            names = []
        name, *callers = [name for _, name in names] or [""]
        line = lines[0] if lines else 0
        return cls(value.operation, name, tuple(filter(None, callers)), line, order)
