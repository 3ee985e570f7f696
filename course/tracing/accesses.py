"""Find what the interpreter lets pass: accesses outside a kernel's tensors, and programs that get in each other's way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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

    def elements(self, addresses: np.ndarray) -> np.ndarray:
        """The elements of the storage that these bytes belong to; of a byte past its end the last."""
        found = (addresses - np.uint64(self.start)) // np.uint64(self.itemsize)
        return np.minimum(found.astype(np.int64), self.inside.numel() - 1)

    def position(self, address: int) -> str:
        return f"[{(address - self.first) // self.itemsize:,}]"


@dataclass(frozen=True)
class Problem:
    """What is wrong with a function, apart from a crash."""

    kind: Literal["wrong", "raised", "race", "reads outside", "writes outside"]
    text: str
    """A sentence."""


class OutsideError(Exception):
    """A kernel was about to touch memory that belongs to none of its arguments."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


@dataclass(frozen=True)
class Access:
    """One load, store or atomic update by one program."""

    kind: str
    addresses: np.ndarray
    itemsize: int
    program: int
    """The program's number in the order of arrival."""
    values: np.ndarray | None


VERBS = {"load": "read", "store": "wrote", "update": "updated"}


def _outside(kind: str, text: str) -> Problem:
    return Problem("reads outside" if kind == "load" else "writes outside", text)


class AccessLog:
    """An observer of the interpreter that keeps the first problem it finds, and counts.

    regions: called at the start of each launch for the tensors that are known; accesses to others are only held to their
    storage. An access outside every storage among the arguments is stopped before it is made, with OutsideError, unless
    an argument may hold addresses itself (a tensor of 64-bit integers).
    """

    def __init__(self, regions: Callable[[], list[Region]]) -> None:
        self._all_regions = regions
        self._regions: list[Region] = []
        self._storages: list[tuple[int, int]] = []
        self._may_hold_pointers = False
        self._accesses: list[Access] = []
        self._programs: dict[tuple[int, int, int], int] = {}
        self.problem: Problem | None = None
        self.launches = 0
        self.bytes_loaded = 0
        self.bytes_stored = 0
        self.storages_stored: set[int] = set()
        """The addresses of the storages that were stored to."""
        self.idle_programs = 0
        """Programs without a single lane that touches memory, in the launch with most of them, …"""
        self.busy_programs = 0
        """… and the others of that launch."""
        """Of the lanes that are not masked, over all launches; an atomic update counts as both."""

    def launch(self, storages: list[tuple[int, int]], may_hold_pointers: bool) -> None:
        self.finish()
        self.launches += 1
        self._storages, self._may_hold_pointers = storages, may_hold_pointers
        self._regions = self._all_regions()

    def access(
        self, kind: str, addresses: np.ndarray, itemsize: int, program: tuple[int, int, int], values: np.ndarray | None
    ) -> None:
        if addresses.size and not self._may_hold_pointers:
            known = np.zeros(addresses.shape, dtype=bool)
            for start, size in self._storages:
                known |= (addresses >= start) & (addresses + np.uint64(itemsize) <= start + size)
            if not known.all():
                text = f"Program {_name(program)} {VERBS[kind]} memory that is none of the kernel's arguments."
                raise OutsideError(_outside(kind, text))
        number = self._programs.setdefault(program, len(self._programs))
        self._accesses.append(Access(kind, addresses, itemsize, number, values))
        if kind != "load" and addresses.size:
            self.storages_stored |= {start for start, size in self._storages if start <= addresses[0] < start + size}
        self.bytes_loaded += addresses.size * itemsize if kind != "store" else 0
        self.bytes_stored += addresses.size * itemsize if kind != "load" else 0

    def finish(self) -> None:
        """The launch has ended: look at all that its programs did."""
        busy = len({access.program for access in self._accesses if access.addresses.size})
        if len(self._programs) - busy > self.idle_programs:
            self.idle_programs, self.busy_programs = len(self._programs) - busy, busy
        if self._accesses and not self.problem:
            self.problem = self._outside()
            # With atomics, programs can order one another.
            if not self.problem and all(access.kind != "update" for access in self._accesses):
                self.problem = self._race()
        self._accesses, self._programs = [], {}

    def _outside(self) -> Problem | None:
        """The first access to a known tensor's buffer that is not to the tensor itself."""
        addresses = np.concatenate([access.addresses for access in self._accesses])
        last_bytes = np.concatenate([access.addresses + np.uint64(access.itemsize - 1) for access in self._accesses])
        strays = []
        for region in self._regions:
            here = np.flatnonzero((addresses >= region.start) & (addresses < region.end))
            inside = region.inside.numpy()
            stray = here[~(inside[region.elements(addresses[here])] & inside[region.elements(last_bytes[here])])]
            if stray.size:
                strays.append((int(stray[0]), region))
        if not strays:
            return None
        index, region = min(strays, key=lambda found: found[0])
        ends = np.cumsum([access.addresses.size for access in self._accesses])
        access = self._accesses[int(np.searchsorted(ends, index, side="right"))]
        where = f"whose length is {region.length:,}: at {region.position(int(addresses[index]))}"
        text = f"Program {self._name(access.program)} {VERBS[access.kind]} outside {region.name}, {where}."
        return _outside(access.kind, text)

    def _race(self) -> Problem | None:
        stores = [access for access in self._accesses if access.values is not None and access.addresses.size]
        if not stores:
            return None
        for access in stores:
            if problem := self._lanes_that_differ(access):
                return problem
        programs = np.concatenate([np.full(access.addresses.shape, access.program) for access in stores])
        values = np.concatenate([access.values.astype(np.uint64) for access in stores if access.values is not None])
        places, which = np.unique(np.concatenate([access.addresses for access in stores]), return_inverse=True)
        first, last = _least_and_most(which, programs, len(places))
        low, high = _least_and_most(which, values, len(places))
        different = np.flatnonzero((first != last) & (low != high))
        if different.size:
            i = different[0]
            both = f"{self._name(first[i])} and {self._name(last[i])}"
            return Problem("race", f"Programs {both} wrote different values to {self._place(places[i])}.")
        for access in self._accesses:
            if access.kind != "load":
                continue
            found = np.minimum(np.searchsorted(places, access.addresses), len(places) - 1)
            others = (first[found] != access.program) | (last[found] != access.program)
            clash = found[(places[found] == access.addresses) & others]
            if clash.size:
                i = clash[0]
                writer = first[i] if first[i] != access.program else last[i]
                text = (
                    f"Program {self._name(access.program)} read {self._place(places[i])}, which program "
                    f"{self._name(writer)} wrote in the same launch: nothing orders the two."
                )
                return Problem("race", text)
        return None

    def _lanes_that_differ(self, store: Access) -> Problem | None:
        """Two lanes of one store that write different values to one place."""
        assert store.values is not None
        order = np.argsort(store.addresses, kind="stable")
        addresses, values = store.addresses[order], store.values[order]
        clash = np.flatnonzero((addresses[1:] == addresses[:-1]) & (values[1:] != values[:-1]))
        if not clash.size:
            return None
        where = self._place(addresses[clash[0]])
        return Problem("race", f"Two lanes of program {self._name(store.program)} wrote different values to {where}.")

    def _place(self, address: np.uint64) -> str:
        for region in self._regions:
            if region.start <= address < region.end:
                return f"{region.position(int(address))} of {region.name}"
        return "the same place"

    def _name(self, number: int) -> str:
        return _name(next(program for program, each in self._programs.items() if each == number))


def _name(program: tuple[int, int, int]) -> str:
    """0 for (0, 0, 0), (1, 2) for (1, 2, 0)."""
    used = program[: max((axis + 1 for axis in range(3) if program[axis]), default=1)]
    return str(used[0]) if len(used) == 1 else str(used)


def _least_and_most(group: np.ndarray, values: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each group."""
    least, most = np.full(groups, values.max(), values.dtype), np.full(groups, values.min(), values.dtype)
    np.minimum.at(least, group, values)
    np.maximum.at(most, group, values)
    return least, most
