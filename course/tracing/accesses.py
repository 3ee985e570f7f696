"""Find what the interpreter lets pass: accesses outside a kernel's tensors, and programs that get in each other's way."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from course.triton_internals.interpreter import Access, Launch, Program


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
    program: Program | None = None
    """The program that did it, where one is to blame, …"""
    launch: int = 0
    """… and the number of its launch."""
    index: tuple[int, ...] | None = None
    """The first wrong element of the result, where values are wrong."""


class FoundError(Exception):
    """A launch is stopped by a problem that was found in it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


class OutsideError(FoundError):
    """A kernel was about to touch memory that belongs to none of its arguments."""


def refuse_promise(program: Program, promise: str) -> None:
    """Stop a launch where a program promises the compiler what does not hold: see `promises_held`."""
    text = f"Program {name_of(program)} promises {promise}: promise only what always holds."
    raise FoundError(Problem("wrong", text, program))


FREE_PROGRAMS = 256
"""Programs that a call may start however little there is to do: a grid may be of a fixed size."""
LEAST_ELEMENTS = 8
"""Elements for each program of a call that starts more."""
LEAST_ADDRESS = 2**40
"""What 64-bit systems map lies above; numbers of elements, tokens and rows do not come so far."""
VERBS = {"load": "read", "store": "wrote", "update": "updated"}


def _outside(access: Access, text: str) -> Problem:
    return Problem(
        "reads outside" if access.kind == "load" else "writes outside", text, access.program
    )


def stop_outside(access: Access, storages: list[tuple[int, int]]) -> None:
    """Raise OutsideError where an access goes outside every storage, given as address and size in bytes."""
    known = np.zeros(access.addresses.shape, dtype=bool)
    for start, size in storages:
        known |= (access.addresses >= start) & (
            access.addresses + np.uint64(access.itemsize) <= start + size
        )
    if not known.all():
        text = f"Program {name_of(access.program)} {VERBS[access.kind]} memory that is none of the kernel's arguments."
        raise OutsideError(_outside(access, text))


def storages_of(launch: Launch) -> list[tuple[int, int]]:
    """The address and the size in bytes of each storage among a launch's arguments."""
    storages = [tensor.untyped_storage() for tensor in launch.tensors]
    return [(storage.data_ptr(), storage.nbytes()) for storage in storages]


def may_hold_pointers(launch: Launch) -> bool:
    """Whether an argument holds addresses itself: 64-bit integers as large as only addresses are."""
    found = [
        tensor.view(torch.int64)
        for tensor in launch.tensors
        if tensor.dtype in (torch.int64, torch.uint64)
    ]
    return any(bool((tensor >= LEAST_ADDRESS).any()) for tensor in found)


class AccessLog:
    """An observer of the interpreter that keeps the first problem it finds, and counts.

    regions: called at the start of each launch for the tensors that are known; accesses to others are only held to their
    storage. An access outside every storage among the arguments is stopped before it is made, with OutsideError, unless
    an argument may hold addresses itself (a tensor of 64-bit integers).
    elements, block: what there is to do, and how much of it one program may well do. Far more
    programs are stopped before they run, with FoundError. By default any number may run.
    """

    def __init__(
        self, regions: Callable[[], list[Region]], elements: int = 0, block: int | None = None
    ) -> None:
        self._all_regions = regions
        self._elements, self._block = elements, block
        self._regions: list[Region] = []
        self._storages: list[tuple[int, int]] = []
        self._may_hold_pointers = False
        self._accesses: list[Access] = []
        self._programs: dict[Program, int] = {}
        """By number in the order of arrival."""
        self._lanes_stored: Counter[Program] = Counter()
        self.problem: Problem | None = None
        self.launches = 0
        self.programs = 0
        """Started, over all launches."""
        self.reach = 0
        """Elements that a launch can write: its programs times the lanes that one stores, at most."""
        self.bytes_loaded = 0
        self.bytes_stored = 0
        """Of the lanes that are not masked, over all launches; an atomic update counts as both."""
        self.storages_stored: set[int] = set()
        """The addresses of the storages that were stored to."""
        self.undefined = False
        """Whether a load has left masked lanes without a value."""
        self.idle_programs = 0
        """Programs without a single lane that touches memory, in the launch with most of them, …"""
        self.busy_programs = 0
        """… and the others of that launch."""

    def launch(self, launch: Launch) -> None:
        self.finish()
        self.launches += 1
        self.programs += math.prod(launch.grid)
        self._hold_programs()
        self._storages, self._may_hold_pointers = storages_of(launch), may_hold_pointers(launch)
        self._regions = self._all_regions()

    def program(self, program: Program) -> None:
        self._programs[program] = len(self._programs)

    def access(self, access: Access) -> None:
        if not self._may_hold_pointers:
            stop_outside(access, self._storages)
        addresses, moved = access.addresses, access.addresses.size * access.itemsize
        self._accesses.append(access)
        self.undefined |= access.undefined and not access.active.all()
        if access.kind != "load":
            if addresses.size:
                self.storages_stored |= {
                    start for start, size in self._storages if start <= addresses[0] < start + size
                }
            self._lanes_stored[access.program] += access.active.size
        self.bytes_loaded += moved if access.kind != "store" else 0
        self.bytes_stored += moved if access.kind != "load" else 0

    def finish(self) -> None:
        """The launch has ended: look at all that its programs did."""
        busy = len({access.program for access in self._accesses if access.addresses.size})
        if len(self._programs) - busy > self.idle_programs:
            self.idle_programs, self.busy_programs = len(self._programs) - busy, busy
        self.reach = max(
            self.reach, len(self._programs) * max(self._lanes_stored.values(), default=0)
        )
        if self._accesses and not self.problem:
            self.problem = self._outside()
            # With atomics, programs can order one another.
            if not self.problem and all(access.kind != "update" for access in self._accesses):
                self.problem = self._race()
            self.problem = self.problem and replace(self.problem, launch=self.launches - 1)
        self._accesses, self._programs, self._lanes_stored = [], {}, Counter()

    def _hold_programs(self) -> None:
        """Stop a call that starts very many programs: they would only take long."""
        most = max(FREE_PROGRAMS, self._elements // LEAST_ELEMENTS)
        if self._block is None or self.programs <= most:
            return
        blocks = max(1, math.ceil(self._elements / self._block))
        launches = f" in {self.launches:,} launches" if self.launches > 1 else ""
        enough = f"{blocks:,} block{'s' if blocks > 1 else ''} of {self._block:,} elements"
        text = f"It starts {self.programs:,} programs{launches} where {enough} would do: look at the grid and the block size."
        if self.problem is None:  # kept, since the launcher may catch what is raised
            self.problem = Problem("wrong", text, launch=self.launches - 1)
        raise FoundError(self.problem)

    def _outside(self) -> Problem | None:
        """The first access to a known tensor's buffer that is not to the tensor itself."""
        addresses = np.concatenate([access.addresses for access in self._accesses])
        last_bytes = np.concatenate(
            [access.addresses + np.uint64(access.itemsize - 1) for access in self._accesses]
        )
        strays = []
        for region in self._regions:
            here = np.flatnonzero((addresses >= region.start) & (addresses < region.end))
            inside = region.inside.numpy()
            stray = here[
                ~(
                    inside[region.elements(addresses[here])]
                    & inside[region.elements(last_bytes[here])]
                )
            ]
            if stray.size:
                strays.append((int(stray[0]), region))
        if not strays:
            return None
        index, region = min(strays, key=lambda found: found[0])
        ends = np.cumsum([access.addresses.size for access in self._accesses])
        access = self._accesses[int(np.searchsorted(ends, index, side="right"))]
        where = f"whose length is {region.length:,}: at {region.position(int(addresses[index]))}"
        text = f"Program {name_of(access.program)} {VERBS[access.kind]} outside {region.name}, {where}."
        return _outside(access, text)

    def _race(self) -> Problem | None:
        stores = [
            access for access in self._accesses if access.kind == "store" and access.addresses.size
        ]
        if not stores:
            return None
        for access in stores:
            if problem := self._lanes_that_differ(access):
                return problem
        names = list(self._programs)
        programs = np.concatenate(
            [np.full(access.addresses.shape, self._programs[access.program]) for access in stores]
        )
        values = np.concatenate(
            [access.stored.astype(np.uint64) for access in stores if access.stored is not None]
        )
        places, which = np.unique(
            np.concatenate([access.addresses for access in stores]), return_inverse=True
        )
        first, last = _least_and_most(which, programs, len(places))
        low, high = _least_and_most(which, values, len(places))
        different = np.flatnonzero((first != last) & (low != high))
        if different.size:
            i = different[0]
            both = f"{name_of(names[first[i]])} and {name_of(names[last[i]])}"
            text = f"Programs {both} wrote different values to {self._place(places[i])}."
            return Problem("race", text, names[last[i]])
        for access in self._accesses:
            if access.kind != "load":
                continue
            found = np.minimum(np.searchsorted(places, access.addresses), len(places) - 1)
            number = self._programs[access.program]
            others = (first[found] != number) | (last[found] != number)
            clash = found[(places[found] == access.addresses) & others]
            if clash.size:
                i = clash[0]
                writer = names[first[i] if first[i] != number else last[i]]
                text = (
                    f"Program {name_of(access.program)} read {self._place(places[i])}, which program "
                    f"{name_of(writer)} wrote in the same launch: nothing orders the two."
                )
                return Problem("race", text, access.program)
        return None

    def _lanes_that_differ(self, store: Access) -> Problem | None:
        """Two lanes of one store that write different values to one place."""
        assert store.stored is not None
        order = np.argsort(store.addresses, kind="stable")
        addresses, values = store.addresses[order], store.stored[order]
        clash = np.flatnonzero((addresses[1:] == addresses[:-1]) & (values[1:] != values[:-1]))
        if not clash.size:
            return None
        where = self._place(addresses[clash[0]])
        text = f"Two lanes of program {name_of(store.program)} wrote different values to {where}."
        return Problem("race", text, store.program)

    def _place(self, address: np.uint64) -> str:
        for region in self._regions:
            if region.start <= address < region.end:
                return f"{region.position(int(address))} of {region.name}"
        return "the same place"


def name_of(program: Program) -> str:
    """0 for (0, 0, 0), (1, 2) for (1, 2, 0)."""
    used = program[: max((axis + 1 for axis in range(3) if program[axis]), default=1)]
    return str(used[0]) if len(used) == 1 else str(used)


def _least_and_most(
    group: np.ndarray, values: np.ndarray, groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each group."""
    least, most = (
        np.full(groups, values.max(), values.dtype),
        np.full(groups, values.min(), values.dtype),
    )
    np.minimum.at(least, group, values)
    np.maximum.at(most, group, values)
    return least, most
