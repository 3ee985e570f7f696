"""The memory requests of a launch: which lanes of a warp ask together, and for how many sectors."""

import math
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from course.gpus.limits import LINE_BYTES, SECTOR_BYTES, WIDEST_BYTES
from course.lowering.call_sites import CallPath
from course.lowering.memory_requests import Requests
from course.triton_internals.interpreter import Access, Launch, Program
from course.triton_internals.operation_counts import Operations

from .address_map import Argument, Arguments
from .bounds import FoundError, Problem, Storages
from .kernel_text import KernelText, Site
from .records import ADDED, AccessCounts, LaunchCounts, TensorPanel, joined
from .sample import weights
from .touched_memory import ElementMap, StorageMarks
from .updated_lines import UpdatedLines

LANES = 32

Counts = dict[tuple[Site, str, int | None], AccessCounts]
"""call, kind of access and number of the tensor -> what was counted"""


class LaunchCounter:
    """An observer of one launch that counts what it touches, and notes who touched which element.

    requests: what each access became in the compiled kernel, as far as that is known.
    operations: what is counted meanwhile. maps: whether to note who touched which element.
    copied: whether the launch has copies of its tensors, so that an address in one leads nowhere.
    """

    def __init__(
        self,
        launch: Launch,
        text: KernelText,
        requests: Sequence[Requests],
        operations: Operations | None = None,
        maps: bool = True,
        copied: bool = False,
    ) -> None:
        self.launch, self.text = launch, text
        self._requests = CompiledRequests(requests, text)
        self._operations = operations or Operations()
        self.programs: list[Program] = []
        self._each: list[Counts] = []
        """What each of them has touched, …"""
        self._places: dict[tuple[Site, str, int | None], int] = {}
        """Where each call of the running program went last: a hash of its addresses."""
        self._operations_before: list[Operations] = []
        """… and what had been computed before it."""
        self.arguments = Arguments(launch)
        self.maps = [ElementMap(argument, maps) for argument in self.arguments.all]
        self.doubted: Problem | None = None
        """The first promise to the compiler that does not hold."""
        self._storages = Storages(launch, copied)
        self._updated, self._part = UpdatedLines(), 0.0
        self._marks = {
            start: StorageMarks(start, size, self.arguments.within(start, size))
            for start, size in self._storages.places
            if size
        }

    def program(self, program: Program) -> None:
        self.programs.append(program)
        self._each.append({})
        self._places.clear()
        self._operations_before.append(deepcopy(self._operations))
        (x, y, _), (i, j, k) = self.launch.grid, program
        self._part = (i + x * (j + y * k)) / math.prod(self.launch.grid)
        for marks in self._marks.values():
            marks.next_program(self._part)

    def forget_unfinished(self) -> None:
        """Take the running program out of the counts; the first one stays, or nothing would."""
        if len(self.programs) > 1:
            for marks in self._marks.values():
                marks.forget_program()

    def access(self, access: Access) -> None:
        self._storages.stop_outside(access)
        site = self.text.site()
        tensor = self.arguments.at(access.addresses, site.names)
        call = site.path[0] if site.path else ("", 0, 0)
        new = AccessCounts(
            site.file, site.line, access.kind, tensor, call=call, itemsize=access.itemsize
        )
        key = site, access.kind, tensor
        counts = self._each[-1].setdefault(key, new)
        self._count(counts, site, access)
        places = hash(access.addresses.tobytes())
        counts.again += self._places.get(key) == places
        self._places[key] = places
        if tensor is not None:
            self.maps[tensor].note(access, len(self.programs))
        for marks in self._marks.values():
            marks.mark(access)

    def last_writer(self, address: int) -> tuple[Argument, int, Program] | None:
        """The tensor and the element at an address, and the program that wrote it last."""
        place = np.array([address], dtype=np.uint64)
        for tensor in self.maps:
            number = int(tensor.argument.numbers(place)[0])
            if 0 <= number < len(tensor.writer) and (writer := int(tensor.writer[number])):
                return tensor.argument, number, self.programs[writer - 1]
        return None

    def _count(self, counts: AccessCounts, site: Site, access: Access) -> None:
        active = access.active.ravel()
        lanes = int(active.sum())
        counts.masked += 0 if access.by_sign else active.size - lanes
        counts.by_sign = access.by_sign
        counts.bytes += lanes * access.itemsize
        requests = self._requests.of(site, access, counts.executions)
        counts.guessed |= requests is None
        counts.by_descriptor |= requests is not None and requests.by_descriptor
        asking = self._requests.lanes(requests, access)
        pointers = access.pointers.ravel().astype(np.int64)
        if self.doubted and requests is not None and not requests.by_descriptor:
            vectors = asking.reshape(-1, requests.vector(access.itemsize))
            if _go_elsewhere(pointers[vectors], active[vectors], access.itemsize):
                text = f"{self.doubted.text} The compiled kernel touches other elements by it."
                raise FoundError(replace(self.doubted, text=text))
        addresses = np.where((asking >= 0) & active[asking], pointers[asking], -1)
        if len(self.programs) == 1 and counts.tensor is not None and not counts.lanes:
            begin = self.arguments.all[counts.tensor].address
            counts.lanes = _lanes(requests, addresses, begin, access.itemsize)
        addresses.sort(axis=1)
        if requests is not None and requests.merged:
            warps = np.arange(len(addresses)) * requests.num_warps // len(addresses)
            addresses = np.unique(np.column_stack([warps, addresses]), axis=0)[:, 1:]
        sectors = np.where(addresses >= 0, addresses // SECTOR_BYTES, -1)
        lines = np.where(addresses >= 0, addresses // LINE_BYTES, -1)
        asked_for = lines[_beginnings(lines)]
        counts.lines += asked_for.size
        if access.kind == "update" and counts.tensor is not None:
            self._updated.note(counts.tensor, self._part, asked_for)
        distinct = _beginnings(addresses).sum(axis=1)
        counts.requests += int((distinct > 0).sum())
        counts.sectors += int(_beginnings(sectors).sum())
        counts.least += int((-(-distinct * access.itemsize // SECTOR_BYTES)).sum())
        counts.aligned += _aligned_sectors(addresses, access.itemsize)
        counts.executions += 1
        counts.block = max(counts.block, active.size)
        width = requests.bytes_per_thread if requests is not None else 0
        counts.bytes_per_thread = min(counts.bytes_per_thread or width, width)
        block = np.sort(pointers[active])  # faster than np.unique
        block = block[_beginnings(block[None])[0]]
        counts.touched += int(_beginnings(block[None] // SECTOR_BYTES).sum())
        once = -(-block.size * access.itemsize // SECTOR_BYTES)
        counts.needed += once if block.size > 1 else int((distinct > 0).sum())
        together, begin_wide = _bytes_together(block, access.itemsize)
        counts.together += together
        counts.begin_wide += begin_wide

    def panels(self) -> list[TensorPanel]:
        return [tensor.panel() for tensor in self.maps]

    def counts(self, stopped: str = "", sizes: np.ndarray | None = None) -> LaunchCounts:
        """All that was counted, for the whole grid where it was a part of it.

        stopped: why the last program did not come to its end, if so. sizes: as `weights` takes it.
        """
        x, y, z = self.launch.grid
        ended = len(self.programs) - bool(stopped)
        stand_for = np.ones(1)  # if no program has ended, what the first one had done
        if ended:
            numbers = [i + x * (j + y * k) for i, j, k in self.programs[:ended]]
            stand_for = weights(sizes, numbers, x * y * z)
        each = _with_homes(self._each[: len(stand_for)])
        keys = dict.fromkeys(key for counts in each for key in counts)
        accesses = [joined([counts.get(key) for counts in each], stand_for) for key in keys]
        loaded, stored = (_growth(each, stand_for, kind) for kind in ("load", "store"))
        return LaunchCounts(
            kernel=self.launch.kernel,
            programs=ended,
            all_programs=math.prod(self.launch.grid),
            accesses=sorted(accesses, key=lambda counts: (counts.file, counts.line)),
            storages=[marks.counts(loaded, stored) for marks in self._marks.values()],
            tensors=self.panels(),
            simple=self._computed("simple", stand_for),
            special=self._computed("special", stand_for),
            dot=self._computed("dot", stand_for),
            tiles=self._computed("tiles", stand_for),
            stopped=stopped,
            most_updated={
                self.arguments.all[tensor].name: updates
                for tensor, updates in self._updated.most(stand_for.sum() / len(stand_for)).items()
            },
            false_promise=self.doubted.reason if self.doubted else "",
        )

    def _computed(self, kind: str, stand_for: np.ndarray) -> dict[str, int]:
        """Operations of one kind, by type. stand_for: how many programs each one stands for."""
        states = [*self._operations_before, self._operations]
        counters: list[Counter[str]] = [getattr(state, kind) for state in states]
        totals = {
            name: sum(
                weight * (after[name] - before[name])
                for weight, before, after in zip(stand_for, counters, counters[1:], strict=False)
            )
            for name in counters[-1]
        }
        return {name: round(total) for name, total in totals.items() if round(total)}


def _with_homes(each: list[Counts]) -> list[Counts]:
    """The counts of each program, where what a call did with all lanes masked, which leads nowhere,
    counts to the first tensor that it goes to otherwise."""
    homes: dict[tuple[Site, str], tuple[Site, str, int | None]] = {}
    for key in (key for counts in each for key in counts if key[2] is not None):
        homes.setdefault(key[:2], key)
    moved: list[Counts] = [{} for _ in each]
    for counts, new in zip(each, moved, strict=True):
        for key, count in counts.items():
            home = homes.get(key[:2], key) if key[2] is None and not count.bytes else key
            before = new.get(home, AccessCounts(count.file, count.line, count.kind, home[2]))
            added = {name: getattr(before, name) + getattr(count, name) for name in ADDED}
            like = before if before.bytes else count
            new[home] = replace(like, **added, tensor=home[2], lanes=before.lanes or count.lanes)
    return moved


def _growth(each: list[Counts], stand_for: np.ndarray, kind: str) -> float:
    """How many times the bytes of some programs their whole grid moves. kind: load or store; an
    atomic update is both."""
    moved = [
        sum(counts.bytes for counts in program.values() if counts.kind in (kind, "update"))
        for program in each
    ]
    return float(np.dot(moved, stand_for)) / max(1, sum(moved))


class CompiledRequests:
    """The requests of a compiled kernel, by the accesses that the interpreter makes."""

    def __init__(self, requests: Sequence[Requests], text: KernelText) -> None:
        self._all, self._text = requests, text
        self._chosen: dict[tuple[CallPath, str, tuple[int, ...]], list[Requests]] = {}
        self._lanes: dict[tuple[int, int], np.ndarray] = {}

    def of(self, site: Site, access: Access, before: int) -> Requests | None:
        """What an access became in the compiled kernel; None if that is not known.

        before: how often the program has made it before. An unrolled loop has copies of a call,
        which come in turns.
        """
        shape = tuple(size for size in access.pointers.shape if size > 1)
        key = site.path, access.kind, shape
        if key not in self._chosen:
            self._chosen[key] = self._matching(site, access.kind, shape)
        copies = self._chosen[key]
        return copies[before % len(copies)] if copies else None

    def _matching(self, site: Site, kind: str, shape: tuple[int, ...]) -> list[Requests]:
        """The whole path is the same; else the call, however it was reached; else its statement."""
        fitting = [
            requests
            for requests in self._all
            if requests.kind == kind
            and (requests.by_descriptor or tuple(n for n in requests.shape if n > 1) == shape)
        ]
        statement = site.file, site.line
        same_path = [requests for requests in fitting if requests.path == site.path]
        same_call = [requests for requests in fitting if requests.path[:1] == site.path[:1]]
        same_line = [requests for requests in fitting if self._statement(requests) == statement]
        return same_path or same_call[:1] or same_line[:1]

    def _statement(self, requests: Requests) -> tuple[str, int]:
        file, line, _ = requests.path[0]
        return file, self._text.statement(file, line)

    def lanes(self, requests: Requests | None, access: Access) -> np.ndarray:
        """[requests, lanes]: the place in the block that each asks for; -1 for none."""
        size = access.pointers.size
        if requests is not None and requests.by_descriptor:
            return np.arange(size).reshape(1, -1)
        key = id(requests), size
        if key not in self._lanes:
            if requests is None:
                padded = np.arange(-(-size // LANES) * LANES)
                self._lanes[key] = np.where(padded < size, padded, -1).reshape(-1, LANES)
            else:
                self._lanes[key] = requests.numbers(access.itemsize)
        return self._lanes[key]


def _go_elsewhere(pointers: np.ndarray, active: np.ndarray, itemsize: int) -> bool:
    """Whether an instruction of a thread touches other places than its lanes do in the interpreter.

    pointers, active: [vectors, lanes] the addresses that one instruction stands for, and whether a
    mask lets them pass. It touches what follows its first address, if its first lane passes.
    """
    size = pointers.shape[1]
    followed = pointers[:, :1] + itemsize * np.arange(size)
    elsewhere = (pointers != followed) | (pointers[:, :1] % (size * itemsize) != 0)
    return size > 1 and bool(((elsewhere & active) | (active != active[:, :1])).any())


def _lanes(
    requests: Requests | None, addresses: np.ndarray, begin: int, itemsize: int
) -> list[tuple[int, int]]:
    """What each lane touches in the first request that touches anything: see AccessCounts.lanes.

    addresses: [requests, lanes x elements], -1 for none. begin: where the tensor begins.
    """
    asking = addresses[(addresses >= 0).any(axis=1)]
    if not len(asking) or (requests is not None and requests.by_descriptor):
        return []
    first = asking[0]
    if first.size == 1:  # a scalar: every lane loads it, and one lane stores it
        first = np.repeat(first, LANES if requests and requests.kind == "load" else 1)
    count = 2 ** len(requests.bases["lane"]) if requests and requests.bases else len(first)
    pieces = [piece[piece >= 0] - begin for piece in first.reshape(count, -1)]
    return [
        (int(piece.min()), int(piece.max()) + itemsize) if len(piece) else (0, 0)
        for piece in pieces
    ]


def _bytes_together(addresses: np.ndarray, itemsize: int) -> tuple[int, int]:
    """The bytes of these elements that lie in whole pieces of 16 of a run without a gap; those of
    them whose run begins at a multiple of 16.

    addresses: in order, each once.
    """
    if not len(addresses):
        return 0, 0
    ends = np.flatnonzero(np.diff(addresses) != itemsize) + 1
    lengths = np.diff(np.concatenate([[0], ends, [len(addresses)]])) * itemsize
    whole = lengths // WIDEST_BYTES * WIDEST_BYTES
    begins = addresses[np.concatenate([[0], ends])] % WIDEST_BYTES == 0
    return int(whole.sum()), int(whole[begins].sum())


def _aligned_sectors(ordered: np.ndarray, itemsize: int) -> int:
    """The sectors that the runs of ordered addresses in each row would take, if each run began with
    a sector; -1 is no address."""
    there = ordered >= 0
    first, last = there.copy(), there.copy()
    apart = (ordered[:, 1:] - ordered[:, :-1] > itemsize) | ~there[:, :-1]
    first[:, 1:] &= apart
    last[:, :-1] &= apart
    lengths = ordered[last] - ordered[first] + itemsize
    return int((-(-lengths // SECTOR_BYTES)).sum())


def _beginnings(ordered: np.ndarray) -> np.ndarray:
    """Where a new value begins in each ordered row; -1 is no value."""
    begins = ordered >= 0
    begins[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return begins
