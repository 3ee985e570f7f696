"""A launch's tensors and descriptors as a simulated kernel sees them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias

import numpy as np
import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as HostDescriptor
from triton.language import block_type

from course.errors import CourseError

from .constants import SharedLayout
from .faults import HazardError, OnlyKnown, SimulationError, UnsupportedError
from .global_memory import NOBODY, Storage
from .values import TORCH, Block, Pointer

if TYPE_CHECKING:
    from .kernel_values import Argument, Value


Key: TypeAlias = tuple[int, torch.dtype]
"""The address of a storage, and the type that it is seen as."""


class Storages:
    """The memory behind the tensors of a launch, written back at the end."""

    def __init__(self) -> None:
        self._storages: dict[Key, tuple[torch.Tensor, Storage]] = {}
        self._sums: dict[Key, Sums] = {}
        """storage -> what is added to it atomically. Nothing orders that and what reads the place,
        so it arrives when all programs have ended."""

    def begin(self, program: int) -> None:
        """The program of this number runs from now on."""
        for _, storage in self._storages.values():
            storage.program = program

    def add_sums(self) -> None:
        """Let what was added arrive. Raises HazardError where a place was written as well."""
        for key, sums in self._sums.items():
            storage = self._storages[key][1]
            both = np.flatnonzero(sums.added & (storage.writers != NOBODY))
            if both.size:
                raise HazardError(
                    f"{storage.place(both[0])} is written and added to in one launch: nothing "
                    "orders the two."
                )
            storage.array += sums.values.astype(storage.array.dtype)

    def of(self, tensor: torch.Tensor, name: str) -> Storage:
        """A tensor's storage. name: the argument's."""
        if tensor.device.type == "meta":
            raise CourseError("simulate computes: give it tensors that have memory.")
        if tensor.layout != torch.strided:
            raise CourseError(f"simulate takes dense tensors, and {name} is sparse.")
        key = (tensor.untyped_storage().data_ptr(), tensor.dtype)
        others = {dtype for address, dtype in self._storages if address == key[0] != 0}
        if others - {tensor.dtype}:
            raise UnsupportedError(
                f"simulate cannot keep the same memory as two types, of which one is {key[1]}: "
                "copy one of the tensors."
            )
        if key not in self._storages:
            count = tensor.untyped_storage().nbytes() // tensor.element_size()
            flat = torch.as_strided(tensor.detach(), (count,), (1,), 0)
            values = flat.float() if tensor.dtype == torch.bfloat16 else flat
            array = values.cpu().numpy().copy()
            self._storages[key] = flat, Storage(array, name, int(tensor.storage_offset()))
        return self._storages[key][1]

    def equal(self, other: "Storages") -> bool:
        """Whether the same bits are in both."""
        pairs = zip(self._storages.values(), other._storages.values(), strict=True)
        return all(mine.array.tobytes() == its.array.tobytes() for (_, mine), (_, its) in pairs)

    def write_back(self) -> None:
        for flat, storage in self._storages.values():
            flat.copy_(torch.from_numpy(storage.array).to(flat.dtype))

    def argument(self, name: str, value: "Argument") -> "Value":
        """An argument of a launch as the kernel sees it. name: also of a part of it, as "x[0]"."""
        if isinstance(value, tuple):
            parts = (self.argument(f"{name}[{i}]", part) for i, part in enumerate(value))
            make: Callable[[Iterable[Value]], Value] = getattr(value, "_make", tuple)
            return make(parts)
        if isinstance(value, torch.Tensor):
            dtype = _dtype(name, value)
            steps = zip(value.shape, value.stride(), strict=True)
            extent = sum(int((size - 1) * step) for size, step in steps) + 1 if value.numel() else 0
            return Pointer(self.of(value, name), dtype, name, int(value.storage_offset()), extent)
        if isinstance(value, HostDescriptor):
            first = int(value.base.storage_offset())
            steps = zip(value.shape, value.strides, strict=True)
            last = first + sum((size - 1) * step for size, step in steps)
            storage = self.of(value.base, name)
            key = (value.base.untyped_storage().data_ptr(), value.base.dtype)
            sums = self._sums.setdefault(key, Sums.of(storage.array))
            if last >= storage.array.size:
                raise CourseError(f"{name} describes more than its tensor's memory: see its shape.")
            return Descriptor(
                name, storage, sums, _dtype(name, value.base), first,
                [*value.shape], [*value.strides], [*value.block_shape], value.layout,
                np.nan if value.padding == "nan" else 0,
            )  # fmt: skip
        if isinstance(value, int) and not isinstance(value, bool):
            return Block(value, gl.int32 if -(2**31) <= value < 2**31 else gl.int64)
        return Block(np.float32(value), gl.float32) if isinstance(value, float) else value


def _dtype(name: str, tensor: torch.Tensor) -> gl.dtype:
    if tensor.dtype not in TORCH:
        known = ", ".join(str(each) for each in TORCH)
        raise UnsupportedError(
            f"simulate does not know the type of {name}, {tensor.dtype}. It knows {known}."
        )
    return TORCH[tensor.dtype]


@dataclass(frozen=True)
class Sums:
    """What is added to a storage, and the places to which anything is."""

    values: np.ndarray
    added: np.ndarray

    @classmethod
    def of(cls, storage: np.ndarray) -> "Sums":
        """Nothing yet."""
        return cls(np.zeros(storage.shape), np.zeros(storage.shape, bool))

    def add(self, places: np.ndarray, values: np.ndarray) -> None:
        self.values[places] += values
        self.added[places] = True


@dataclass(frozen=True)
class Descriptor(OnlyKnown):
    """A tensor descriptor."""

    name: str
    storage: Storage
    sums: "Sums"
    dtype: gl.dtype
    first: int
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    layout: SharedLayout
    padding: float = 0
    """What elements outside the tensor become: 0 or NaN."""

    @property
    def block_type(self) -> block_type:
        return block_type(self.dtype, self.block_shape)

    @property
    def type(self) -> SimpleNamespace:
        return SimpleNamespace(block_type=self.block_type, layout=self.layout)

    @property
    def nbytes_per_cta(self) -> int:
        bits: int = self.dtype.primitive_bitwidth
        return math.prod(self.block_shape) * bits // 8

    def places(self, coordinates: Sequence[SupportsIndex]) -> tuple[np.ndarray, np.ndarray]:
        """Where the elements of a block lie in memory, and which of them are inside the tensor."""
        if len(coordinates) != len(self.block_shape):
            raise SimulationError(
                f"{self.name} has {len(self.block_shape)} axes, and is asked for a block by "
                f"{len(coordinates)} coordinates."
            )
        places, inside = np.asarray(self.first), np.asarray(True)
        for axis, first in enumerate(coordinates):
            shape = [1] * len(self.block_shape)
            shape[axis] = -1
            index = (int(first) + np.arange(self.block_shape[axis])).reshape(shape)
            places = places + index * self.strides[axis]
            inside = inside & (index >= 0) & (index < self.shape[axis])
        block = tuple(self.block_shape)
        return np.broadcast_to(places, block), np.broadcast_to(inside, block)
