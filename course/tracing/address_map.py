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
    """Of its first element."""
    itemsize: int

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def end(self) -> int:
        """The address after its last byte."""
        if not self.elements:
            return self.address
        last = sum(
            (size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)
        )
        return self.address + (last + 1) * self.itemsize

    def numbers(self, addresses: np.ndarray) -> np.ndarray:
        """The number of the element at each address, counted along the rows as in `.flatten()`; -1 where there is none."""
        offsets = addresses.astype(np.int64) - self.address
        inside = (offsets >= 0) & (offsets < self.end - self.address)
        left = offsets // self.itemsize
        numbers = np.zeros(addresses.shape, dtype=np.int64)
        # The largest stride first, as digits of a number: right for every tensor whose elements do not overlap.
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            size, stride = self.shape[axis], self.strides[axis]
            if size == 1 or stride == 0:
                continue  # the elements of a broadcast axis lie in one place: the first stands for them
            index = left // stride
            left = left - index * stride
            inside &= index < size
            numbers += index * int(np.prod(self.shape[axis + 1 :], dtype=np.int64))
        return np.where(inside & (left == 0), numbers, -1)

    def index(self, number: int) -> tuple[int, ...]:
        """The index of an element by its number."""
        return tuple(int(i) for i in np.unravel_index(number, self.shape)) if self.shape else ()

    def place(self, number: int) -> str:
        """An element as a sentence names it: "out_ptr[3, 17]"."""
        index = self.index(number)
        return f"{self.name}[{', '.join(map(str, index))}]" if index else self.name


class Arguments:
    """All tensors of a launch."""

    def __init__(self, launch: Launch) -> None:
        self.all = [_argument(name, tensor) for name, tensor in launch.named_tensors()]

    def at(self, addresses: np.ndarray, names: Collection[str] = ()) -> int | None:
        """The number of the tensor that an access is to; None for memory that none of them is near.

        names: what stands in the pointer: of several tensors that hold addresses, one that is named there is meant. Else the
            one that holds most, else the last that starts before the lowest.
        """
        if not addresses.size or not self.all:
            return None
        lowest, highest = int(addresses.min()), int(addresses.max())
        near = [
            number
            for number, each in enumerate(self.all)
            if each.address <= highest and lowest < each.end
        ]
        named = [number for number in near if self.all[number].name in names]
        if len(named or near) > 1:
            return max(named or near, key=lambda number: self._held(number, addresses))
        if near:
            return (named or near)[0]
        before = [number for number, each in enumerate(self.all) if each.address <= lowest]
        return max(before, key=lambda number: self.all[number].address, default=None)

    def _held(self, number: int, addresses: np.ndarray) -> int:
        """How many of the addresses lie in a tensor."""
        argument = self.all[number]
        return int(((addresses >= argument.address) & (addresses < argument.end)).sum())


def _argument(name: str, tensor: torch.Tensor) -> Argument:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Argument(
        name,
        dtype,
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.data_ptr(),
        tensor.element_size(),
    )
