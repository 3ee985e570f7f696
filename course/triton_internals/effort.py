"""What it takes to interpret a launch, counted: the same on every machine, however busy it is."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from triton.runtime.interpreter import TensorHandle

from course.type_names import AnyValue

from .patching import patched

ELEMENTS = 4096
"""Elements that NumPy computes in about the time that the interpreter takes for an operation."""


@dataclass
class Effort:
    """The interpreter's operations; one on a block counts for more, by the block's elements."""

    operations: float = 0


@contextlib.contextmanager
def effort_counted(most: float, stop: Callable[[], None]) -> Iterator[Effort]:
    """While active, count what kernels take, and call `stop` once that is more than `most`."""
    effort, own = Effort(), TensorHandle.__init__

    def made(handle: TensorHandle, data: AnyValue, *rest: AnyValue, **named: AnyValue) -> None:
        own(handle, data, *rest, **named)
        effort.operations += 1 + data.size / ELEMENTS
        if effort.operations > most:
            stop()

    with patched(TensorHandle, __init__=made):
        yield effort
