"""A launch's tensors: from an address to the element that lies there."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch

from course.triton_internals.interpreter import Launch


@dataclass(frozen=True)
class Argument:
    """One tensor among a launch's arguments."""

    name: str
    """The kernel's parameter."""
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    address: int
    """The address of its first element."""
    itemsize: int

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> "Argument":
        dtype, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
        address, itemsize = tensor.data_ptr(), tensor.element_size()
        return cls(name, dtype, shape, tuple(tensor.stride()), address, itemsize)

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def end(self) -> int:
        """The address after its last byte."""
        if not self.elements:
            return self.address
        axes = zip(self.shape, self.strides, strict=True)
        last = sum((size - 1) * stride for size, stride in axes)
        return self.address + (last + 1) * self.itemsize

    def numbers(self, addresses: np.ndarray) -> np.ndarray:
        """The number of the element at each address, along the rows; -1 if there is none."""
        offsets = addresses.astype(np.int64) - self.address
        inside = (offsets >= 0) & (offsets < self.end - self.address)
        left = offsets // self.itemsize
        numbers = np.zeros(addresses.shape, dtype=np.int64)
        # The largest stride first, like the digits of a number: right unless elements overlap.
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            size, stride = self.shape[axis], self.strides[axis]
            if size == 1 or stride == 0:
                continue  # a broadcast axis lies in one place: its first element stands for all
            index = left // stride
            left = left - index * stride
            inside &= index < size
            numbers += index * int(np.prod(self.shape[axis + 1 :], dtype=np.int64))
        return np.where(inside & (left == 0), numbers, -1)

    def index(self, number: int) -> tuple[int, ...]:
        """The index of an element by its number."""
        return tuple(int(i) for i in np.unravel_index(number, self.shape)) if self.shape else ()

    def place(self, number: int) -> str:
        """An element in a sentence: "out_ptr[3, 17]"."""
        index = self.index(number)
        return f"{self.name}[{', '.join(map(str, index))}]" if index else self.name


class Arguments:
    """All tensors of a launch."""

    def __init__(self, launch: Launch) -> None:
        self.all = [Argument.of(name, tensor) for name, tensor in launch.named_tensors()]

    def within(self, start: int, size: int) -> list[Argument]:
        """The tensors that begin in a storage of so many bytes."""
        return [argument for argument in self.all if start <= argument.address < start + size]

    def at(self, addresses: np.ndarray, names: Collection[str] = ()) -> int | None:
        """The number of the tensor that an access is to; None for memory that none of them is near.

        names: the names in the pointer. Of several tensors near the addresses, one that is named
            there is meant; else the one that holds most of them; else the last that starts before
            the lowest.
        """
        if not addresses.size or not self.all:
            return None
        lowest, highest = int(addresses.min()), int(addresses.max())
        near = [
            number
            for number, argument in enumerate(self.all)
            if argument.address <= highest and lowest < argument.end
        ]
        candidates = [number for number in near if self.all[number].name in names] or near
        if len(candidates) > 1:
            return max(candidates, key=lambda number: self._count(number, addresses))
        if candidates:
            return candidates[0]
        before = [i for i, argument in enumerate(self.all) if argument.address <= lowest]
        return max(before, key=lambda number: self.all[number].address, default=None)

    def _count(self, number: int, addresses: np.ndarray) -> int:
        """How many of the addresses lie in a tensor."""
        argument = self.all[number]
        return int(((addresses >= argument.address) & (addresses < argument.end)).sum())
