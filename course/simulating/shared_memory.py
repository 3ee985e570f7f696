"""Shared memory of a simulated program, and who still reads or writes it.

What is asynchronous takes effect as late as it may: a copy when somebody waits for its barrier, a
product when it is waited for. So what was not waited for is not there, and the kernel that reads it
is stopped, where a GPU may give the right answer by luck.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, SupportsIndex

import numpy as np
from triton.experimental.gluon import language as gl

from .constants import Layout, SharedLayout
from .faults import Fault, HazardError, OnlyKnown, SimulationError
from .layouts import check_warps
from .partitions import Turns
from .proxies import Accesses, Act
from .values import Block, Shape, rounded

Use = Literal["copied into", "multiplied", "copied out"]

UNDER_WAY: dict[Use, str] = {
    "copied into": "a copy into it",
    "multiplied": "a product of it",
    "copied out": "a copy out of it",
}
"""What uses a piece of shared memory -> what that is called."""


@dataclass(eq=False)
class Pending:
    """Something asynchronous that still uses a piece of shared memory."""

    use: Use
    name: str
    view: np.ndarray
    what: str
    """What would end it, in words."""


@dataclass
class Memory:
    """What goes on in the shared memory of a program."""

    turns: Turns
    pending: list[Pending] = field(default_factory=list)
    accesses: Accesses = field(default_factory=Accesses)

    def begin(self, use: Use, buffer: "Buffer", what: str, by_threads: bool = False) -> Pending:
        """Note something asynchronous. Raises HazardError where another use forbids it.

        by_threads: a copy of cp.async, which needs no fence after other accesses of threads.
        """
        if use == "copied into":
            uses: tuple[Use, ...] = ("copied into", "multiplied", "copied out")
            self.refuse(buffer, uses, "is copied into", "early refill")
        else:
            self.refuse(buffer, ("copied into",), f"is {use}", "early read")
            buffer.refuse_unwritten(use)
        if not by_threads:
            self.accesses.refuse(buffer.array, buffer.name, use)
        self.pending.append(begun := Pending(use, buffer.name, buffer.array, what))
        return begun

    def refuse_pending(self) -> None:
        """Raise HazardError if something still uses shared memory when the program ends."""
        for left in self.pending:
            raise HazardError(
                f"{left.name} is still {left.use} when the program ends: {left.what}.",
                "no last wait",
            )

    def noted(self, act: Act, buffer: "Buffer") -> None:
        """The partition that runs has read or written."""
        self.turns.step()
        self.accesses.note(act, buffer.array, buffer.name, self.turns.current)

    def end(self, pending: Pending) -> None:
        self.pending.remove(pending)

    def refuse(self, buffer: "Buffer", uses: tuple[Use, ...], act: str, fault: Fault) -> None:
        """Raise HazardError if one of these uses of the same memory has not ended, or if there is
        no such memory."""
        if buffer.missing:
            raise HazardError(buffer.missing)
        for other in self.pending:
            if other.use in uses and np.shares_memory(other.view, buffer.array):
                raise HazardError(
                    f"{buffer.name} {act} while {UNDER_WAY[other.use]} is still under way: "
                    f"{other.what}.",
                    fault,
                )


@dataclass
class Buffer(OnlyKnown):
    """A piece of shared memory, as shared_memory_descriptor."""

    memory: Memory
    array: np.ndarray
    dtype: gl.dtype
    layout: SharedLayout
    name: str
    written: np.ndarray
    """bool, of `array`'s shape: the elements that have been written."""
    missing: str = ""
    """Why there is no such buffer, where an index was out of range: what uses it is refused."""

    @property
    def shape(self) -> list[int]:
        return list(self.array.shape)

    @property
    def type(self) -> gl.shared_memory_descriptor_type:
        return gl.shared_memory_descriptor_type(self.dtype, self.shape, self.layout, self.shape)

    def index(self, number: SupportsIndex) -> "Buffer":
        place, count = int(number), len(self.array)
        inside = 0 <= place < count
        view = self._view(lambda array: array[place if inside else 0], f"{self.name}[{place}]")
        if not inside:
            view.missing = f"{self.name} has {count} buffers, and no number {place}."
        return view

    def slice(self, start: int, length: int, dim: int = 0) -> "Buffer":
        keys = [slice(None)] * self.array.ndim
        keys[dim] = slice(start, start + length)
        return self._view(lambda array: array[tuple(keys)])

    def permute(self, order: Sequence[SupportsIndex]) -> "Buffer":
        return self._view(lambda array: array.transpose(tuple(order)))

    def reshape(self, shape: Shape) -> "Buffer":
        sizes = tuple(map(operator.index, shape))
        return self._view(lambda array: _reshaped(array, sizes))

    def load(self, layout: Layout | None = None) -> Block:
        """Read into registers."""
        check_warps(layout, self.memory.turns.current.num_warps)
        self.memory.refuse(self, ("copied into",), "is read", "early read")
        self.refuse_unwritten("read")
        self.memory.noted("read by load", self)
        return Block(self.array.copy(), self.dtype, layout)

    def store(self, value: Block) -> None:
        """Write from registers."""
        self.check_form(value.shape, value.dtype)
        uses: tuple[Use, ...] = ("copied into", "multiplied", "copied out")
        self.memory.refuse(self, uses, "is written", "other")
        self.fill(rounded(value.values(), self.dtype))
        self.memory.noted("written by store", self)

    def check_form(self, shape: Sequence[int], dtype: gl.dtype) -> None:
        """Raises SimulationError for a block that the compiler does not put here."""
        if [*shape] != self.shape or dtype != self.dtype:
            raise SimulationError(
                f"{self.name} is {self.dtype} {self.shape}, and this block is {dtype} {[*shape]}: "
                "convert it first, or take the part of the buffer that it is for."
            )

    def fill(self, array: np.ndarray) -> None:
        """Values arrive."""
        self.array[...] = array
        self.written[...] = True

    def refuse_unwritten(self, use: str) -> None:
        if not self.written.all():
            what = "all of it was written" if self.written.any() else "anything was written to it"
            words = f"{self.name} is {use} before {what}."
            raise HazardError(words, "early read")

    def _view(self, part: Callable[[np.ndarray], np.ndarray], name: str = "") -> "Buffer":
        array, written = part(self.array), part(self.written)
        name = name or self.name
        return Buffer(self.memory, array, self.dtype, self.layout, name, written, self.missing)


def _reshaped(array: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """A view of another shape. NumPy 2.0, which some images have, cannot be told not to copy."""
    view = array.reshape(sizes)
    if not np.may_share_memory(view, array):
        raise ValueError(f"A buffer of shape {array.shape} cannot be seen as {sizes} in place.")
    return view
