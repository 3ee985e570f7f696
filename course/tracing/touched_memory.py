"""Which memory a launch touches: for each element by which program, and each byte counted once."""

import numpy as np

from course.gpus.limits import SECTOR_BYTES
from course.triton_internals.interpreter import Access

from .address_map import Argument
from .downsample import Panel, packed
from .records import Distinct, StorageCounts, TensorPanel

MOST_MAPPED = 2**28
"""Elements of a tensor for which it is noted who touched each."""
MOST_MARKS = 2**29
"""Places of a storage that are marked one by one; of a larger one sectors are."""
REGIONS = 16
"""Parts of a grid, one behind the other: for each place it is known which of them touched it. A
sample has a cluster of neighbors in each."""
COMMON = 4
"""Regions that touch what all programs share: of such places no further ones are expected in what
was not followed, since a sample that misses one finds few of the others so often."""


class ElementMap:
    """For every element of a tensor, who touched it.

    Programs are numbered from 1 in the order in which they ran; 0 is none. Nothing is noted where
    nobody wants to know.
    """

    def __init__(self, argument: Argument, wanted: bool = True) -> None:
        self.argument = argument
        mapped = argument.elements if wanted and argument.elements <= MOST_MAPPED else 0
        self.reader = np.zeros(mapped, dtype=np.int32)
        """The first program that read it."""
        self.writer = np.zeros(mapped, dtype=np.int32)
        """The last program that wrote it, …"""
        self.twice = np.zeros(mapped, dtype=bool)
        """… and whether another had before, not atomically."""
        self.shared = np.zeros(mapped, dtype=bool)
        """Whether several programs read it."""

    def note(self, access: Access, program: int) -> None:
        if not len(self.reader):
            return
        elements = self.argument.numbers(access.addresses)
        elements = elements[(elements >= 0) & (elements < len(self.reader))]
        if access.kind != "store":
            reader = self.reader[elements]
            self.shared[elements] |= (reader > 0) & (reader != program)
            self.reader[elements] = np.where(reader > 0, reader, program)
        if access.kind != "load":
            writer = self.writer[elements]
            if access.kind == "store":
                self.twice[elements] |= (writer > 0) & (writer != program)
            self.writer[elements] = program

    def panel(self) -> TensorPanel:
        argument, panel = self.argument, Panel(self.argument.shape)

        def programs(noted: np.ndarray) -> bytes:
            elements = np.flatnonzero(noted)
            return packed(panel.first(elements, noted[elements], 0))

        def marked(elements: np.ndarray) -> bytes:
            return packed(np.flatnonzero(panel.touched(elements)))

        twice, unwritten = np.flatnonzero(self.twice), self._unwritten()
        return TensorPanel(
            argument.name,
            argument.dtype,
            argument.shape,
            cells=panel.cells,
            patch=panel.patch,
            reader=programs(self.reader),
            writer=programs(self.writer),
            twice=marked(twice),
            shared=marked(np.flatnonzero(self.shared)),
            unwritten=marked(unwritten),
            twice_elements=twice.size,
            unwritten_elements=unwritten.size,
        )

    def _unwritten(self) -> np.ndarray:
        """The elements that were read and not written, if the tensor was written at all."""
        read = np.flatnonzero(self.reader)
        return read[self.writer[read] == 0] if self.writer.any() else read[:0]


class StorageMarks:
    """Which bytes of one storage were loaded and stored.

    start, size: its address and its bytes. arguments: the tensors that lie in it.
    """

    def __init__(self, start: int, size: int, arguments: list[Argument]) -> None:
        self._start, self._size = start, size
        grain = min((argument.itemsize for argument in arguments), default=1)
        self._grain = grain if size // grain <= MOST_MARKS else SECTOR_BYTES
        self._most = Distinct(  # what a kernel that keeps to the tensors can touch
            sum(argument.elements * argument.itemsize for argument in arguments),
            sum((argument.end - argument.address) // SECTOR_BYTES + 1 for argument in arguments),
        )
        count = size // self._grain + 1
        self._regions = REGIONS if count <= MOST_MARKS // 2 else 1  # for want of memory
        kind = np.uint16 if self._regions > 1 else np.uint8
        self._loaded, self._stored = np.zeros(count, dtype=kind), np.zeros(count, dtype=kind)
        self._bit = 1
        """What marks a place: the bit of the running program's region."""
        self._new: list[tuple[np.ndarray, np.ndarray]] = []
        """Marks that the running program was the first of its region to make, and where."""

    def mark(self, access: Access) -> None:
        addresses = access.addresses
        inside = (addresses >= self._start) & (addresses < self._start + self._size)
        first_bytes = addresses[inside] - np.uint64(self._start)
        for byte in range(0, max(access.itemsize, 1), self._grain):
            places = (first_bytes + np.uint64(byte)) // np.uint64(self._grain)
            if access.kind != "store":
                self._mark(self._loaded, places.astype(np.int64))
            if access.kind != "load":
                self._mark(self._stored, places.astype(np.int64))

    def _mark(self, marks: np.ndarray, places: np.ndarray) -> None:
        before = marks[places]
        self._new.append((marks, places[before & self._bit == 0]))
        marks[places] = before | self._bit

    def next_program(self, part: float) -> None:
        """part: where in the grid the program stands, from 0 to 1."""
        self._new.clear()
        self._bit = 1 << int(part * self._regions)

    def forget_program(self) -> None:
        """Take back what the running program has marked."""
        for marks, places in self._new:
            marks[places] ^= self._bit

    def counts(self, loaded: float = 1, stored: float = 1) -> StorageCounts:
        """What was touched. loaded, stored: how many times as much the whole launch moves.

        Programs may touch what others do: of no storage is more touched than its tensors have, or
        than lies between what the first programs and the last have touched, and what programs all
        over the grid have touched is there once.
        """
        return StorageCounts(
            self._distinct(self._loaded, loaded), self._distinct(self._stored, stored)
        )

    def _distinct(self, marks: np.ndarray, times: float) -> Distinct:
        places = np.flatnonzero(marks != 0)  # NumPy finds True far faster than numbers
        addresses = places * self._grain + self._start
        touched = Distinct(addresses.size * self._grain, _sectors(addresses))
        if times == 1:
            return touched
        regions, most = marks[places], self._most
        if (regions >> (self._regions - 1)).any():
            reach = int(addresses[-1]) + self._grain - int(addresses[0])
            most = Distinct(min(most.bytes, reach), min(most.sectors, reach // SECTOR_BYTES + 1))
        shared = addresses[np.bitwise_count(regions) >= COMMON]
        once = Distinct(shared.size * self._grain, _sectors(shared))
        return Distinct(
            min(_grown(touched.bytes, once.bytes, times), max(touched.bytes, most.bytes)),
            min(_grown(touched.sectors, once.sectors, times), max(touched.sectors, most.sectors)),
        )


def _sectors(addresses: np.ndarray) -> int:
    """How many sectors these addresses lie in, which are in order."""
    sectors = addresses // SECTOR_BYTES
    return min(sectors.size, 1) + int(np.count_nonzero(sectors[1:] != sectors[:-1]))


def _grown(touched: int, once: int, times: float) -> int:
    """What grows with the programs, and what does not: `once` of what was touched."""
    return round(times * (touched - once)) + once
