"""Poisoned and guarded memory: it tells what was never written, and what was written outside.

Every tensor lies in a larger buffer, filled with one bit pattern before a run: a NaN that
arithmetic on numbers does not make. Afterwards the pattern inside means "never written", and a
change outside means a write out of bounds.
"""

import sys
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from course.type_names import AnyValue, AnyValues, Function

GUARD_BYTES = 2**15
"""The guard on each side: there a stray write of a whole block does no harm and is seen."""
ALIGNMENT = 256
"""Bytes that divide the address of a fresh CUDA allocation. No tensor here is aligned to more: else
whether a promise of more holds would differ from run to run."""

# NaNs for floating point; for integers, large values.
_PATTERNS = {1: 0x5A, 2: 0x7FDA, 4: 0x7FDABEAD, 8: 0x7FFABEADBEADBEAD}
# Around inputs lies another: else a program that reads past an input and stores what it read past
# the output puts back the very pattern that is there. (x86 passes a NaN's bits through an addition;
# every machine does in a copy.)
_INPUT_PATTERNS = {1: 0x6B, 2: 0x7FD5, 4: 0x7FD5C0DE, 8: 0x7FFDC0DEC0DEC0DE}
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


Fill = Literal["largest", "smallest", "zero"]
"""A value of a dtype that memory may hold before anything is written to it."""


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's elements as integers of the same size."""
    return tensor.view(_INTEGERS[tensor.element_size()])


def is_poison(tensor: torch.Tensor) -> torch.Tensor:
    """Where the tensor still holds the poison: a boolean tensor of its shape."""
    return bits(tensor) == _PATTERNS[tensor.element_size()]


def filling(fill: Fill, dtype: torch.dtype) -> float:
    """A value to put in memory that nothing has written; finite."""
    if fill == "zero":
        return 0
    if dtype == torch.bool:
        return fill == "largest"
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return info.max if fill == "largest" else info.min


@dataclass
class Guarded:
    """A tensor inside a poisoned buffer, with GUARD_BYTES and more on both sides."""

    tensor: torch.Tensor
    buffer: torch.Tensor
    inside: torch.Tensor
    """True for the elements of the buffer that are the tensor's own."""
    for_reading: bool
    """An input, whose guards hold another pattern than an output's."""

    @property
    def pattern(self) -> int:
        return (_INPUT_PATTERNS if self.for_reading else _PATTERNS)[self.buffer.element_size()]

    def stray_writes(self) -> list[int]:
        """Positions written outside the tensor, in elements from its first one; at most ten."""
        changed = (bits(self.buffer) != self.pattern) & ~self.inside
        start = self.tensor.storage_offset()
        return [int(i) - int(start) for i in changed.nonzero()[:10].flatten()]

    def any_unwritten(self, addresses: np.ndarray) -> bool:
        """Whether anything at these addresses still holds an output's poison. On the CPU alone."""
        if self.for_reading:
            return False
        start, size = self.buffer.data_ptr(), self.buffer.nbytes
        here = addresses[(addresses >= start) & (addresses < start + size)]
        elements = (here - np.uint64(start)) // np.uint64(self.buffer.element_size())
        return bool((bits(self.buffer).numpy()[elements.astype(np.int64)] == self.pattern).any())


def guarded(
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device | str,
    offset: int = 0,
    for_reading: bool = False,
) -> Guarded:
    """A poisoned tensor of this shape and stride (in elements) between two guards.

    Its address is divisible by ALIGNMENT and by no more; `offset` elements are added to it.
    for_reading: an input, whose guards hold another pattern than an output's.
    """
    guard = GUARD_BYTES // dtype.itemsize
    room = 2 * ALIGNMENT // dtype.itemsize
    span = 0
    if 0 not in shape:
        span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    size = guard + room + offset + span + guard
    buffer = torch.empty(size, dtype=dtype, device=device)
    past = (buffer.data_ptr() + GUARD_BYTES) % (2 * ALIGNMENT)
    start = guard + (ALIGNMENT - past) % (2 * ALIGNMENT) // dtype.itemsize + offset
    tensor = buffer.as_strided(shape, stride, start)
    inside = torch.zeros(buffer.shape, dtype=torch.bool, device=device)
    inside.as_strided(shape, stride, start).fill_(True)
    memory = Guarded(tensor, buffer, inside, for_reading)
    bits(buffer).fill_(memory.pattern)
    return memory


_aten = torch.ops.aten
ALLOCATORS = (
    _aten.empty.memory_format,
    _aten.empty_like.default,
    _aten.empty_strided.default,
    _aten.new_empty.default,
    _aten.new_empty_strided.default,
)
FILLERS = tuple(
    getattr(_aten, name).default
    for name in (
        "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones",
        "full", "full_like", "new_full", "clone",
    )
)  # fmt: skip
"""They allocate as well, and fill: `clone` is what `.contiguous()` calls."""
MOVERS = {
    "_local_scalar_dense", "_reshape_alias", "_to_copy", "_unsafe_view", "arange",
    "copy", "detach", "fill", "lift_fresh", "set", "zero",
}  # fmt: skip
"""They move or make values, and compute none."""
READERS: dict[str, Function] = {
    name: getattr(torch.Tensor, name) for name in ("numpy", "tolist", "__array__")
}
COPIERS = ("_to_copy", "clone", "copy")


def _without_dynamo(mode: type[TorchDispatchMode]) -> None:
    """As long as nothing has loaded torch._dynamo, keep the mode from loading it.

    PyTorch keeps torch.compile away from what a mode does. It loads torch._dynamo for it at the
    first operation, which takes more than a second, though nobody compiles anything.
    """
    kept_away: Any = mode.__torch_dispatch__
    dispatch = getattr(kept_away, "__wrapped__", None)
    if dispatch is None:  # another version of PyTorch
        return

    def until_it_is_loaded(*args: AnyValue, **kwargs: AnyValue) -> Any:
        if "torch._dynamo" not in sys.modules:
            return dispatch(*args, **kwargs)
        del dispatch.__dynamo_disable
        return kept_away(*args, **kwargs)

    dispatch.__dynamo_disable = until_it_is_loaded


class OperationsWatched(TorchDispatchMode):
    """While active, `run` runs each of PyTorch's operations, and may change what comes of it."""

    supports_higher_order_operators = True
    """A launch by torch.library.wrap_triton is one; it is run as it is."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[AnyValue, ...] = (), kwargs: Any = None
    ) -> Any:
        if isinstance(function, HigherOrderOperator):
            return function(*args, **(kwargs or {}))
        name = function._schema.name.removeprefix("aten::").rstrip("_")
        return self.run(function, name, args, kwargs or {})

    def run(
        self, function: Any, name: str, args: tuple[AnyValue, ...], kwargs: AnyValues
    ) -> AnyValue:
        """What becomes of an operation. name: PyTorch's, as "add" also for `add_`."""
        raise NotImplementedError


_without_dynamo(OperationsWatched)


class GuardedAllocations(OperationsWatched):
    """While active, every tensor that is allocated lies between guards, poisoned or filled.

    fill: put this in tensors that PyTorch leaves unfilled, in place of the poison.
    """

    def __init__(self, fill: Fill | None = None) -> None:
        TorchDispatchMode.__init__(self)
        self._fill = fill
        self.all: list[Guarded] = []
        self.operations: list[str] = []
        """The PyTorch operations that computed something, by name."""
        self.copies = 0
        self.storages: set[int] = set()
        """The addresses of what PyTorch has allocated meanwhile, filled, poisoned or computed."""

    def __enter__(self) -> Any:
        # Values read in Python are noted too: no dispatch sees what a function computes of them.
        for name in READERS:
            setattr(torch.Tensor, name, self._noted(name))
        return TorchDispatchMode.__enter__(self)

    def __exit__(self, *error: Any) -> None:
        for name, plain in READERS.items():
            setattr(torch.Tensor, name, plain)
        TorchDispatchMode.__exit__(self, *error)

    def _noted(self, name: str) -> Function:
        def read(tensor: torch.Tensor, *args: AnyValue, **kwargs: AnyValue) -> Any:
            if not sys._getframe(1).f_globals.get("__name__", "").startswith("course."):
                self.operations.append(name.strip("_"))
            return READERS[name](tensor, *args, **kwargs)

        return read

    def run(
        self, function: Any, name: str, args: tuple[AnyValue, ...], kwargs: AnyValues
    ) -> AnyValue:
        out = function(*args, **kwargs)
        if isinstance(out, torch.Tensor) and not function.is_view:
            self.storages.add(out.untyped_storage().data_ptr())
        if not (function.is_view or function in ALLOCATORS + FILLERS or name in MOVERS):
            self.operations.append(name)
        self.copies += name in COPIERS
        if function not in ALLOCATORS + FILLERS or not out.numel() or out.is_complex():
            return out
        copied = function is _aten.clone.default
        memory = guarded(tuple(out.shape), out.stride(), out.dtype, out.device, for_reading=copied)
        if function in FILLERS:
            memory.tensor.copy_(out)
        elif self._fill:
            memory.tensor.fill_(filling(self._fill, out.dtype))
        self.all.append(memory)
        self.storages.add(memory.buffer.data_ptr())
        return memory.tensor
