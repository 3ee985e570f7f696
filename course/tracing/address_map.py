"""A launch's tensors: from an address to the element that lies there."""

from collections.abc import Collection, Sequence
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
        for axis in self._from_the_largest_stride:
            index = left // self.strides[axis]
            left = left - index * self.strides[axis]
            inside &= index < self.shape[axis]
            numbers += index * int(np.prod(self.shape[axis + 1 :], dtype=np.int64))
        return np.where(inside & (left == 0), numbers, -1)

    @property
    def _from_the_largest_stride(self) -> list[int]:
        """The axes in the order in which an offset is taken apart, like the digits of a number;
        that is right unless elements overlap."""
        # A broadcast axis lies in one place: its first element stands for all.
        axes = [axis for axis, size in enumerate(self.shape) if size > 1 and self.strides[axis]]
        return sorted(axes, key=lambda axis: -self.strides[axis])

    def index(self, number: int) -> tuple[int, ...]:
        """The index of an element by its number."""
        return tuple(int(i) for i in np.unravel_index(number, self.shape)) if self.shape else ()

    def place(self, number: int) -> str:
        """An element in a sentence: "out_ptr[3, 17]"."""
        index = self.index(number)
        return self.name + indexed(index)

    def past(self, before: np.ndarray, now: np.ndarray) -> str:
        """Where a block of addresses begins, as "[0, 128]", if that is past the end of an axis;
        before: where it was an iteration ago. Empty if it is not past, or began elsewhere."""
        number = int(self.numbers(before.ravel()[:1])[0])
        left = (int(now.flat[0]) - int(before.flat[0])) // self.itemsize
        if number < 0 or left < 0:
            return ""
        index = list(self.index(number))
        for axis, lanes in enumerate(before.shape):
            apart = np.diff(before.astype(np.int64), axis=axis) // self.itemsize
            # Beside where it was: the same address may also be the beginning of the next row.
            if (
                left
                and lanes > 1
                and left == lanes * apart.flat[0]
                and apart.flat[0] in self.strides
            ):
                index[self.strides.index(int(apart.flat[0]))] += lanes
                left = 0
        for axis in self._from_the_largest_stride:
            steps, left = divmod(left, self.strides[axis])
            index[axis] += steps
        is_past = any(i >= size for i, size in zip(index, self.shape, strict=True))
        return indexed(index) if is_past else ""

    def beside(self, address: int) -> str:
        """Where an address lies that is no element's, after "Program 0 read": "outside out_ptr, …"
        or "between x_ptr[0] and x_ptr[1], …"."""
        offset = (address - self.address) // self.itemsize
        if offset < 0:
            return f"outside {self._in_words}: at [{offset}]"
        index, left, axis, step = [0] * len(self.shape), offset, -1, 1
        for axis in self._from_the_largest_stride:
            step = self.strides[axis]
            index[axis], left = divmod(left, step)
        if step == 1 and index:
            index[axis] += left  # of a tensor of one element nothing has been taken off
        elif left and all(i < size for i, size in zip(index, self.shape, strict=True)):
            after = list(index)
            after[axis] += 1
            between = f"between {self.name}{indexed(index)} and {self.name}{indexed(after)}"
            return (
                f"{between}: {self.name} has gaps, its elements are {step} apart. Multiply the "
                "offsets by its stride, or give the kernel a contiguous copy"
            )
        return f"outside {self._in_words}: at {indexed(index)}"

    @property
    def _in_words(self) -> str:
        """Its name and its size."""
        if len(self.shape) == 1:
            return f"{self.name}, whose length is {self.elements:,}"
        if not self.shape:
            return f"{self.name}, which is one number"
        shape = " x ".join(f"{size:,}" for size in self.shape)
        contiguous = self.end == self.address + self.elements * self.itemsize
        strides = "" if contiguous else f" with strides {self.strides}"
        return f"{self.name}, which is {shape}{strides}"


def indexed(index: Sequence[int]) -> str:
    """An index in a sentence, as one types it: "[3, 1024]"; empty for that of a single number."""
    return f"[{', '.join(map(str, index))}]" if index else ""


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
