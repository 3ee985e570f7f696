"""Shared memory of a simulated program, and who still reads or writes it.

What is asynchronous takes effect as late as it may: a copy when somebody waits for its barrier, a
product when it is waited for. So what was not waited for is not there, and the kernel that reads it
is stopped, where a GPU may give the right answer by luck.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .problems import HazardError
from .values import Block, plain, rounded

Use = Literal["copied into", "multiplied", "copied out"]


@dataclass(eq=False)
class Pending:
    """Something asynchronous that still uses a piece of shared memory."""

    use: Use
    view: np.ndarray
    what: str
    """What would end it, in words."""


@dataclass
class Memory:
    """What goes on in the shared memory of a program."""

    pending: list[Pending] = field(default_factory=list)
    unfenced: list[np.ndarray] = field(default_factory=list)
    """What threads have written and no fence has made visible to copies and products."""

    def begin(self, use: Use, buffer: "Buffer", what: str) -> Pending:
        """Note something asynchronous. Raises HazardError where another use forbids it."""
        if use == "copied into":
            self.refuse(buffer, ("copied into", "multiplied", "copied out"), "is copied into")
        else:
            self.refuse(buffer, ("copied into",), f"is {use}")
            buffer.refuse_unwritten(use)
            if any(np.shares_memory(view, buffer.array) for view in self.unfenced):
                raise HazardError(
                    f"{buffer.name} was written by store and is {use} with no fence_async_shared "
                    "in between."
                )
        self.pending.append(begun := Pending(use, buffer.array, what))
        return begun

    def end(self, pending: Pending) -> None:
        self.pending.remove(pending)

    def refuse(self, buffer: "Buffer", uses: tuple[Use, ...], act: str) -> None:
        """Raise HazardError if one of these uses of the same memory has not ended."""
        for other in self.pending:
            if other.use in uses and np.shares_memory(other.view, buffer.array):
                raise HazardError(
                    f"{buffer.name} {act} while it is still {other.use}: {other.what}."
                )


@dataclass
class Buffer:
    """A piece of shared memory, as shared_memory_descriptor."""

    memory: Memory
    array: np.ndarray
    dtype: Any
    layout: Any
    name: str
    written: np.ndarray
    """Of the shape of `array`: what holds a value."""

    @property
    def shape(self) -> list[int]:
        return list(self.array.shape)

    def index(self, number: Any) -> "Buffer":
        number = int(plain(number))
        if not 0 <= number < len(self.array):
            raise HazardError(f"{self.name} has {len(self.array)} buffers, and no number {number}.")
        return self._view(lambda array: array[number], f"{self.name}[{number}]")

    def slice(self, start: int, length: int, dim: int = 0) -> "Buffer":
        keys = [slice(None)] * self.array.ndim
        keys[dim] = slice(start, start + length)
        return self._view(lambda array: array[tuple(keys)])

    def permute(self, order: Any) -> "Buffer":
        return self._view(lambda array: array.transpose(tuple(order)))

    def reshape(self, shape: Any) -> "Buffer":
        return self._view(lambda array: array.reshape(tuple(map(plain, shape)), copy=False))

    def load(self, layout: Any = None) -> Block:
        """Read into registers."""
        self.memory.refuse(self, ("copied into",), "is read")
        self.refuse_unwritten("read")
        return Block(self.array.copy(), self.dtype, layout)

    def store(self, value: Block) -> None:
        """Write from registers."""
        self.memory.refuse(self, ("copied into", "multiplied", "copied out"), "is written")
        self.fill(rounded(value.values(), self.dtype))
        self.memory.unfenced.append(self.array)

    def fill(self, array: np.ndarray) -> None:
        """Values arrive."""
        self.array[...] = array
        self.written[...] = True

    def refuse_unwritten(self, use: str) -> None:
        if not self.written.all():
            raise HazardError(f"{self.name} is {use} before anything was written to it.")

    def _view(self, part: Callable[[np.ndarray], np.ndarray], name: str = "") -> "Buffer":
        array, written = part(self.array), part(self.written)
        return Buffer(self.memory, array, self.dtype, self.layout, name or self.name, written)


Land = Callable[[], None]
"""Makes an asynchronous copy's data arrive."""
