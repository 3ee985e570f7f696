"""Find what the interpreter lets pass: accesses outside a kernel's tensors, and programs that get in each other's way."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Region:
    """A tensor of which it is known where its elements lie."""

    name: str
    """As a sentence uses it: "input 0"."""
    length: int
    first: int
    """The address of its first element."""
    start: int
    """The address where its storage begins."""
    itemsize: int
    inside: torch.Tensor
    """For each element of the storage, whether it is the tensor's own."""

    @property
    def end(self) -> int:
        return self.start + self.inside.numel() * self.itemsize

    def position(self, address: int) -> str:
        return f"[{(address - self.first) // self.itemsize:,}]"


class OutsideError(Exception):
    """A kernel was about to touch memory that belongs to none of its arguments. The message is a sentence."""


class AccessLog:
    """An observer of the interpreter that keeps the first problem it sees, as a sentence.

    regions: called at each launch for the tensors that are known; accesses to others are only held to their storage.
    An access outside every storage among the arguments is stopped before it is made, with OutsideError, unless an
    argument may hold addresses itself (a tensor of 64-bit integers).
    """

    VERBS = {"load": "read", "store": "wrote", "update": "updated"}  # noqa: RUF012

    def __init__(self, regions: Callable[[], list[Region]]) -> None:
        self._all_regions = regions
        self._regions: list[Region] = []
        self._storages: list[tuple[int, int]] = []
        self._may_hold_pointers = False
        self._loads: list[tuple[np.ndarray, int]] = []
        self._stores: list[tuple[np.ndarray, int, np.ndarray]] = []
        self._programs: dict[tuple[int, int, int], int] = {}
        self._atomics = False
        self.problem = ""

    def launch(self, storages: list[tuple[int, int]], may_hold_pointers: bool) -> None:
        self.finish()
        self._regions = self._all_regions()
        self._storages, self._may_hold_pointers = storages, may_hold_pointers

    def access(
        self, kind: str, addresses: np.ndarray, itemsize: int, program: tuple[int, int, int], values: np.ndarray | None
    ) -> None:
        known = np.zeros(addresses.shape, dtype=bool)
        for start, size in self._storages:
            known |= (addresses >= start) & (addresses + np.uint64(itemsize) <= start + size)
        if not known.all() and not self._may_hold_pointers:
            raise OutsideError(f"{self._who(program)} {self.VERBS[kind]} memory that is none of the kernel's arguments.")
        if not self.problem:
            self.problem = self._outside(kind, addresses, program)
        number = self._programs.setdefault(program, len(self._programs))
        self._atomics |= kind == "update"
        if kind == "load":
            self._loads.append((addresses, number))
        elif kind == "store" and values is not None:
            self._stores.append((addresses, number, values.astype(np.uint64)))

    def finish(self) -> None:
        """The launch has ended: look for races between its programs."""
        if not self.problem and self._stores and not self._atomics:  # with atomics, programs can order one another
            self.problem = self._race()
        self._loads, self._stores, self._programs, self._atomics = [], [], {}, False

    def _outside(self, kind: str, addresses: np.ndarray, program: tuple[int, int, int]) -> str:
        for region in self._regions:
            here = addresses[(addresses >= region.start) & (addresses < region.end)]
            elements = torch.from_numpy(((here - np.uint64(region.start)) // np.uint64(region.itemsize)).astype(np.int64))
            stray = here[(~region.inside[elements]).numpy()]
            if stray.size:
                where = f"whose length is {region.length:,}: at {region.position(int(stray[0]))}"
                return f"{self._who(program)} {self.VERBS[kind]} outside {region.name}, {where}."
        return ""

    def _race(self) -> str:
        addresses = np.concatenate([stored for stored, _, _ in self._stores])
        if not addresses.size:  # every lane was masked
            return ""
        programs = np.concatenate([np.full(stored.shape, number) for stored, number, _ in self._stores])
        values = np.concatenate([stored for _, _, stored in self._stores])
        places, which = np.unique(addresses, return_inverse=True)
        first, last = _least_and_most(which, programs, len(places))
        low, high = _least_and_most(which, values, len(places))
        different = np.flatnonzero((first != last) & (low != high))
        if different.size:
            i = different[0]
            both = f"{self._name(first[i])} and {self._name(last[i])}"
            return f"Programs {both} wrote different values to {self._place(places[i])}."
        for loaded, number in self._loads:
            found = np.searchsorted(places, loaded)
            found[found == len(places)] = 0
            clash = np.flatnonzero((places[found] == loaded) & ((first[found] != number) | (last[found] != number)))
            if clash.size:
                i = found[clash[0]]
                writer = first[i] if first[i] != number else last[i]
                return (
                    f"Program {self._name(number)} read {self._place(places[i])}, which program {self._name(writer)} "
                    "wrote in the same launch: nothing orders the two."
                )
        return ""

    def _place(self, address: np.uint64) -> str:
        for region in self._regions:
            if region.start <= address < region.end:
                return f"{region.position(int(address))} of {region.name}"
        return "the same place"

    def _name(self, number: int) -> str:
        return _program_name(next(program for program, each in self._programs.items() if each == number))

    @staticmethod
    def _who(program: tuple[int, int, int]) -> str:
        return f"Program {_program_name(program)}"


def _program_name(program: tuple[int, int, int]) -> str:
    """0 for (0, 0, 0), (1, 2) for (1, 2, 0)."""
    used = program[: max((axis + 1 for axis in range(3) if program[axis]), default=1)]
    return str(used[0]) if len(used) == 1 else str(used)


def _least_and_most(group: np.ndarray, values: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each group."""
    least, most = np.full(groups, values.max(), values.dtype), np.full(groups, values.min(), values.dtype)
    np.minimum.at(least, group, values)
    np.maximum.at(most, group, values)
    return least, most
