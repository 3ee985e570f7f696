"""Poisoned and guarded memory: what was never written, and what was written outside, can be told afterwards.

Every tensor lies in a larger buffer. Before a run the buffer is filled with one bit pattern (a NaN that arithmetic
does not make); afterwards the pattern inside means "never written", and a change outside means a write out of bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

GUARD_BYTES = 2**16
"""On each side. A stray write of a whole block lands here and is seen, where else it might end the session."""

# NaNs for floating point; for integers, values that tests do not draw.
_PATTERNS = {1: 0x5A, 2: 0x7FDA, 4: 0x7FDABEAD, 8: 0x7FFABEADBEADBEAD}
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's elements as integers of the same size."""
    return tensor.view(_INTEGERS[tensor.element_size()])


def is_poison(tensor: torch.Tensor) -> torch.Tensor:
    """Where the tensor still holds the poison: a boolean tensor of its shape."""
    return bits(tensor) == _PATTERNS[tensor.element_size()]


@dataclass
class Guarded:
    """A tensor inside a poisoned buffer, with GUARD_BYTES and more on both sides."""

    tensor: torch.Tensor
    buffer: torch.Tensor
    inside: torch.Tensor
    """True for the elements of the buffer that are the tensor's own."""

    def stray_writes(self) -> list[int]:
        """Positions outside the tensor that were written, in elements from its first one; at most ten."""
        changed = (bits(self.buffer) != _PATTERNS[self.buffer.element_size()]) & ~self.inside
        start = self.tensor.storage_offset()
        return [int(i) - int(start) for i in changed.nonzero()[:10].flatten()]


def guarded(shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: Any, offset: int = 0) -> Guarded:
    """A poisoned tensor of this shape and stride (in elements) between two guards.

    Its address is divisible by 256, as a fresh allocation's would be; `offset` elements are added to it.
    """
    itemsize = torch.empty((), dtype=dtype).element_size()
    guard = GUARD_BYTES // itemsize
    span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if 0 not in shape else 0
    buffer = torch.empty(guard + offset + span + guard, dtype=dtype, device=device)
    bits(buffer).fill_(_PATTERNS[itemsize])
    tensor = buffer.as_strided(shape, stride, guard + offset)
    inside = torch.zeros(buffer.shape, dtype=torch.bool, device=device)
    inside.as_strided(shape, stride, guard + offset).fill_(True)
    return Guarded(tensor, buffer, inside)


ALLOCATORS = (
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.empty_strided.default,
    torch.ops.aten.new_empty.default,
    torch.ops.aten.new_empty_strided.default,
)


class GuardedAllocations(TorchDispatchMode):
    """While active, every tensor allocated with torch.empty and its like is poisoned and guarded. `all` lists them."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Guarded] = []

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = function(*args, **(kwargs or {}))
        if function not in ALLOCATORS or out.element_size() not in _PATTERNS or out.is_complex():
            return out
        made = guarded(tuple(out.shape), out.stride(), out.dtype, out.device)
        self.all.append(made)
        return made.tensor
