"""What a launch touches: counted for every load and store, and noted for every element."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from course.lowering.call_sites import CallPath
from course.lowering.memory_requests import SECTOR_BYTES, Requests
from course.triton_internals.interpreter import Access, Launch, Program
from course.triton_internals.operation_counts import Operations

from .accesses import may_hold_pointers, stop_outside, storages_of
from .address_map import Argument, Arguments
from .sites import Listing, Site

LANES = 32
FIRST_REQUESTS = 4
"""How many requests of the first program are kept to be drawn."""


@dataclass
class Count:
    """What one tl.load, tl.store or atomic did, over all programs."""

    kind: str
    tensor: int | None
    """The number of the tensor that it goes to; None for memory that is none of the arguments'."""
    lanes: int = 0
    """That touch memory."""
    masked: int = 0
    """That a mask keeps out."""
    bytes: int = 0
    requests: int = 0
    """Instructions of one warp that touch memory."""
    sectors: int = 0
    """Of 32 bytes that the requests touch, each counted in each request."""
    least: int = 0
    """Sectors that the same bytes would take, request by request, side by side and aligned."""
    by_descriptor: bool = False
    guessed: bool = False
    """Whether no compiled kernel said which lanes ask together: 32 neighbours of a block were taken."""
    first: list[list[int]] = field(default_factory=list)
    """The sectors of the first program's first requests, counted from the one that the tensor begins in."""


MOST_MAPPED = 2**28
"""Elements of a tensor for which it is noted who touched each."""
MOST_MARKS = 2**29
"""Places of a storage that are marked one by one; of a larger one sectors are."""


class TensorMap:
    """For every element of a tensor, who touched it. Programs are numbered from 1 in the order in which they ran; 0 is none."""

    def __init__(self, elements: int) -> None:
        elements = elements if elements <= MOST_MAPPED else 0
        self.reader = np.zeros(elements, dtype=np.int32)
        """The first program that read it."""
        self.writer = np.zeros(elements, dtype=np.int32)
        """The last program that wrote it, …"""
        self.twice = np.zeros(elements, dtype=bool)
        """… and whether another had before, not atomically."""
        self.read_by_several = np.zeros(elements, dtype=bool)
        self.outside = {"load": 0, "store": 0, "update": 0}
        """Lanes that touched the tensor's storage beside its elements."""

    @property
    def unwritten_reads(self) -> np.ndarray:
        """The elements that a program read and no program wrote, of a tensor that programs write."""
        read = np.flatnonzero(self.reader)
        return read[self.writer[read] == 0] if self.writer.any() else read[:0]


class Touched:
    """Which bytes of one storage were loaded and stored, each counted once."""

    def __init__(self, start: int, size: int, arguments: list[Argument]) -> None:
        """arguments: the tensors that lie in it."""
        self.start, self.size = start, size
        self.grain = min((each.itemsize for each in arguments), default=1)
        if size // self.grain > MOST_MARKS:
            self.grain = SECTOR_BYTES
        self.most_bytes = sum(each.elements * each.itemsize for each in arguments)
        """What a kernel that keeps to the tensors can touch."""
        self.most_sectors = sum((each.end - each.address) // SECTOR_BYTES + 1 for each in arguments)
        self._marks = {
            kind: np.zeros(size // self.grain + 1, dtype=bool) for kind in ("load", "store")
        }
        self._new: list[
            tuple[np.ndarray, np.ndarray]
        ] = []  # of the running program: marks, and the places it was first at

    def mark(self, access: Access) -> None:
        within = access.addresses[
            (access.addresses >= self.start) & (access.addresses < self.start + self.size)
        ]
        for byte in range(0, max(access.itemsize, 1), self.grain):
            places = (
                (within - np.uint64(self.start) + np.uint64(byte)) // np.uint64(self.grain)
            ).astype(np.int64)
            for kind, marks in self._marks.items():
                if access.kind in (kind, "update"):
                    self._new.append((marks, places[~marks[places]]))
                    marks[places] = True

    def next_program(self) -> None:
        self._new.clear()

    def forget_program(self) -> None:
        """Take back what the running program has marked."""
        for marks, places in self._new:
            marks[places] = False

    def to_json(self) -> dict[str, int]:
        found = {"most_bytes": self.most_bytes, "most_sectors": self.most_sectors}
        for kind, name in (("load", "loaded"), ("store", "stored")):
            places = np.flatnonzero(self._marks[kind]) * self.grain + self.start
            found[f"bytes_{name}"] = places.size * self.grain
            found[f"sectors_{name}"] = int(np.unique(places // SECTOR_BYTES).size)
        return found


class Survey:
    """An observer of the interpreter."""

    def __init__(
        self, listing: Listing, requests: Sequence[Requests], operations: Operations | None = None
    ) -> None:
        self.listing = listing
        self._requests = requests
        self._operations = operations or Operations()
        self._numbers: dict[tuple[int, int], np.ndarray] = {}
        self._chosen: dict[tuple[CallPath, str, tuple[int, ...]], Requests | None] = {}
        self.counts: dict[tuple[Site, str, int | None], Count] = {}
        self.programs: list[Program] = []
        self.launched: Launch | None = None

    def launch(self, launch: Launch) -> None:
        self.launched = launch
        self.programs, self.counts = [], {}
        self.arguments = Arguments(launch)
        self.maps = [TensorMap(each.elements) for each in self.arguments.all]
        self._storages, self._may_hold_pointers = storages_of(launch), may_hold_pointers(launch)
        self.touched = {
            start: Touched(
                start,
                size,
                [each for each in self.arguments.all if start <= each.address < start + size],
            )
            for start, size in self._storages
            if size
        }

    def program(self, program: Program) -> None:
        self.programs.append(program)
        self._before = {key: replace(count) for key, count in self.counts.items()}
        self._operations_before = {
            name: counted.copy() for name, counted in vars(self._operations).items()
        }
        for touched in self.touched.values():
            touched.next_program()

    def forget_unfinished(self) -> None:
        """Take the running program out of all that is counted, unless it is the first: there would be nothing left."""
        if len(self.programs) > 1:
            self.counts = self._before
            vars(self._operations).update(self._operations_before)
            for touched in self.touched.values():
                touched.forget_program()

    def access(self, access: Access) -> None:
        if not self._may_hold_pointers:
            stop_outside(access, self._storages)
        site = self.listing.site()
        tensor = self.arguments.at(access.addresses, site.names)
        count = self.counts.setdefault((site, access.kind, tensor), Count(access.kind, tensor))
        self._count(count, site, access)
        if tensor is not None:
            self._note(tensor, access)
        for touched in self.touched.values():
            touched.mark(access)

    def last_writer(self, address: int) -> tuple[Argument, int, Program] | None:
        """The tensor and the number of the element that lies at an address, and the program that wrote it last."""
        place = np.array([address], dtype=np.uint64)
        for argument, noted in zip(self.arguments.all, self.maps, strict=True):
            number = int(argument.numbers(place)[0])
            if 0 <= number < len(noted.writer) and (writer := int(noted.writer[number])):
                return argument, number, self.programs[writer - 1]
        return None

    def _note(self, tensor: int, access: Access) -> None:
        found, program = self.maps[tensor], len(self.programs)
        numbers = self.arguments.all[tensor].numbers(access.addresses)
        found.outside[access.kind] += int((numbers < 0).sum())
        numbers = numbers[(numbers >= 0) & (numbers < len(found.reader))]
        if access.kind != "store":
            before = found.reader[numbers]
            found.read_by_several[numbers] |= (before > 0) & (before != program)
            found.reader[numbers] = np.where(before > 0, before, program)
        if access.kind != "load":
            before = found.writer[numbers]
            if access.kind == "store":
                found.twice[numbers] |= (before > 0) & (before != program)
            found.writer[numbers] = program

    def _count(self, count: Count, site: Site, access: Access) -> None:
        active = access.active.ravel()
        count.lanes += int(active.sum())
        count.masked += int(active.size - active.sum())
        count.bytes += int(active.sum()) * access.itemsize
        requests = self._asked(site, access)
        count.guessed |= requests is None
        count.by_descriptor |= requests is not None and requests.by_descriptor
        numbers = self._lanes(requests, access)
        asked = np.where(
            (numbers >= 0) & active[numbers], access.pointers.ravel().astype(np.int64)[numbers], -1
        )
        asked.sort(axis=1)
        if requests is not None and requests.merged:
            warps = np.arange(len(asked)) * requests.num_warps // len(asked)
            asked = np.unique(np.column_stack([warps, asked]), axis=0)[:, 1:]
        sectors = np.where(asked >= 0, asked // SECTOR_BYTES, -1)
        distinct = _steps(asked).sum(axis=1)
        count.requests += int((distinct > 0).sum())
        count.sectors += int(_steps(sectors).sum())
        count.least += int((-(-distinct * access.itemsize // SECTOR_BYTES)).sum())
        if len(self.programs) == 1 and count.tensor is not None:
            begin = self.arguments.all[count.tensor].address // SECTOR_BYTES
            for row in sectors[: FIRST_REQUESTS - len(count.first)]:
                count.first.append([int(sector) - begin for sector in np.unique(row[row >= 0])])

    def _asked(self, site: Site, access: Access) -> Requests | None:
        """What this access became in the compiled kernel; None where that is not known."""
        shape = tuple(size for size in access.pointers.shape if size > 1)
        key = site.path, access.kind, shape
        if key not in self._chosen:
            fitting = [
                each
                for each in self._requests
                if each.kind == access.kind
                and (each.by_descriptor or tuple(n for n in each.shape if n > 1) == shape)
            ]
            # The whole path; else the call itself, however it was reached; else its statement.
            tries = (
                [each for each in fitting if each.path == site.path],
                [each for each in fitting if each.path[0] == site.path[0]] if site.path else [],
                [
                    each
                    for each in fitting
                    if each.path[0][0] == site.file and self._statement(each) == site.line
                ],
            )
            self._chosen[key] = next((found[0] for found in tries if found), None)
        return self._chosen[key]

    def _statement(self, requests: Requests) -> int:
        file, line, _ = requests.path[0]
        return self.listing.statement(file, line)

    def _lanes(self, requests: Requests | None, access: Access) -> np.ndarray:
        """[requests, lanes]: the place in the block that each asks for; -1 for none."""
        size = access.pointers.size
        if requests is not None and requests.by_descriptor:
            return np.arange(size).reshape(1, -1)
        key = id(requests), size
        if key not in self._numbers:
            if requests is None:
                padded = np.arange(-(-size // LANES) * LANES)
                self._numbers[key] = np.where(padded < size, padded, -1).reshape(-1, LANES)
            else:
                self._numbers[key] = requests.numbers(access.itemsize)
        return self._numbers[key]

    def to_json(self) -> dict[str, Any]:
        """The counts, and how much is distinct over the whole launch."""
        launch = self.launched
        assert launch is not None
        return {
            "kernel": launch.kernel,
            "grid": list(launch.grid),
            "programs": len(self.programs),
            "accesses": [
                {"line": site.line, "file": site.file, "called": len(site.path) > 1, **vars(count)}
                for (site, *_), count in sorted(
                    self.counts.items(), key=lambda item: (item[0][0].file, item[0][0].line)
                )
            ],
            "storages": [touched.to_json() for touched in self.touched.values()],
        }


def _steps(ordered: np.ndarray) -> np.ndarray:
    """Of rows in order, where a value other than -1 begins."""
    begins = ordered >= 0
    begins[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return begins
