"""Programs that get in each other's way, and launches of far too many."""

import ctypes
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from course.triton_internals.errors import CannotInterpretError
from course.triton_internals.interpreter import Access, Launch, Program

from .bounds import (
    FoundError,
    OutsideError,
    Problem,
    Region,
    Storages,
    false_promise,
    may_go_elsewhere,
    refuse_promise,
    stray,
)
from .likely_causes import Followed
from .own_line import OwnLine, running_line
from .records import program_text

FREE_PROGRAMS = 256
"""Programs that a call may start however little there is to do: a grid may be of a fixed size."""
FEW_COPIES = 8
"""Programs along an axis that no program asks for, which are let be."""
WAITING = "a program that waits for a later one"
"""What the interpreter cannot run, since it runs one program after the other."""
MOST_REPEATED = 10_000
"""How often in a row a program may look at one place, and find it as it was."""
LEAST_ELEMENTS = 8
"""Elements for each program of a call that starts more."""


@dataclass
class Activity:
    """What kernels did, over all launches."""

    launches: int = 0
    programs: int = 0
    """Programs that were started."""
    bytes_moved: int = 0
    """Loaded and stored, without masked lanes; an atomic update counts twice."""
    idle_programs: int = 0
    """Programs of which no lane touches memory, in the launch with most of them."""
    busy_programs: int = 0
    """The other programs of that launch."""
    shared_elements: int = 0
    """Elements that several programs of one launch wrote, with the same value, in all launches."""
    back_and_forth: bool = False
    """Whether a program's stores begin now at a larger address and now at a smaller one than its
    store before."""
    reach: int = 0
    """Elements that a launch can write: its programs times the lanes that one stores, at most."""
    reach_of_loads: int = 0
    """The same of the lanes that one loads."""
    storages_stored: dict[int, OwnLine | None] = field(default_factory=dict)
    """The address of each storage that was stored to, with the first line that did."""
    accesses: int = 0
    """Loads, stores and atomics, each of a whole block."""


@dataclass(frozen=True)
class Remark:
    """A tensor to which something was done that may be right or wrong."""

    name: str
    """Of the tensor, or of the element, in a sentence."""
    line: OwnLine | None
    """The line of the reader's code that did it first, if one is known."""
    updates: bool = False
    """Whether an atomic did it that computes with what is there."""


class AccessLog:
    """An observer of the interpreter that keeps the first problem it finds, and counts.

    regions: called with each launch at its start for the tensors that are known; accesses to others
        are only held to their storage. An access outside every storage among the arguments is
        stopped before it is made, with OutsideError, unless an argument may hold addresses itself
        (a tensor of 64-bit integers).
    strict: whether a promise to the compiler that does not hold stops a launch also where no access
        goes elsewhere by it.
    elements, block: what there is to do, and how much of it one program may well do. Far more
        programs are stopped before they run, with FoundError. By default any number may run.

    A program that waits for a later one is stopped with CannotInterpretError, since the interpreter
    runs one after the other.
    """

    def __init__(
        self,
        regions: Callable[[Launch], list[Region]],
        elements: int = 0,
        block: int | None = None,
        strict: bool = False,
    ) -> None:
        self._strict = strict
        self.doubted: Problem | None = None
        """The first promise to the compiler that does not hold."""
        self._all_regions = regions
        self._elements, self._block = elements, block
        self._regions: list[Region] = []
        self._launch: Launch | None = None
        self.followed: Followed | None = None
        """The launch that has ended last."""
        self._storages: Storages | None = None
        self._accesses: list[Access] = []
        self._lines: list[OwnLine | None] = []
        """The line of the reader's code that makes each access."""
        self._numbers: dict[Program, int] = {}
        """The programs' numbers, in the order of arrival."""
        self._lanes_stored: Counter[Program] = Counter()
        self._lanes_loaded: Counter[Program] = Counter()
        self.problem: Problem | None = None
        self.activity = Activity()
        self.undefined: Remark | None = None
        """A load that left masked lanes without a value."""
        self.unwritten: Remark | None = None
        """A load or an atomic of what nothing had written before."""
        self.contended: Remark | None = None
        """An atomic of what another program of the same launch updates as well."""
        self.unordered: Problem | None = None
        """A race in a launch with atomics, by which programs may have ordered one another."""
        self.storages: set[int] = set()
        """The addresses of the storages that launches were given."""
        self._seen: tuple[object, ...] = ()
        """The program, the place and what was there, where one lane of a program looked last."""
        self._repeated = 0

    def launch(self, launch: Launch) -> None:
        self.finish()
        self._launch = launch
        self.activity.launches += 1
        self.activity.programs += math.prod(launch.grid)
        self._stop_too_many_programs(launch)
        self._storages = Storages(launch)
        self._regions = self._all_regions(launch)
        self.storages.update(start for start, _ in self._storages.places)

    def program(self, program: Program) -> None:
        self._numbers[program] = len(self._numbers)
        if self._block is not None and len(self._numbers) == 2:  # one has run to its end
            self._stop_superfluous_axes()

    def doubt(self, program: Program, promise: str) -> None:
        """A program promises the compiler what does not hold: see `promises_held`."""
        # Which lanes a mask lets pass, only the compiler joins.
        if self._strict or "max_constancy" in promise:
            refuse_promise(program, promise)
        self.doubted = self.doubted or false_promise(program, promise)

    def access(self, access: Access) -> None:
        if self.doubted and may_go_elsewhere(access):
            raise FoundError(self.doubted)
        assert self._storages is not None and self._launch is not None
        self.activity.accesses += 1
        try:
            self._storages.stop_outside(access)
        except OutsideError:  # one that was no farther off may come first, and tells more
            begins = access.addresses[0]  # by which the tensor is meant, and not another behind it
            near = [each for each in self._regions if each.start <= begins < each.end]
            launch, before = self._launch, self._accesses
            first = before and stray(launch, before, self._lines, self._regions)
            both = [*before, access], [*self._lines, running_line()]
            if first := first or stray(launch, *both, near):
                raise FoundError(replace(first, launch=self.activity.launches - 1)) from None
            raise
        addresses, times = access.addresses, 2 if access.kind == "update" else 1
        self.activity.bytes_moved += times * addresses.size * access.itemsize
        self._accesses.append(access)
        self._lines.append(running_line())
        self._remark(access)
        self._stop_waiting(access)
        if access.kind == "load":
            self._lanes_loaded[access.program] += access.active.size
        else:
            if addresses.size:
                for start, size in self._storages.places:
                    if start <= addresses[0] < start + size:
                        self.activity.storages_stored.setdefault(start, self._lines[-1])
            self._lanes_stored[access.program] += access.active.size

    def _stop_waiting(self, access: Access) -> None:
        """Stop a program that goes on looking at one place, and finds the same."""
        seen: tuple[object, ...] = ()
        if access.kind != "store" and access.addresses.size == 1:
            address = int(access.addresses[0])
            seen = access.program, address, ctypes.string_at(address, access.itemsize)
        self._repeated = self._repeated + 1 if seen and seen == self._seen else 0
        self._seen = seen
        if self._repeated > MOST_REPEATED:
            raise CannotInterpretError(WAITING)

    def _remark(self, access: Access) -> None:
        """Note what may be right or wrong, the first time."""
        line = self._lines[-1]
        if not self.undefined and access.undefined and not access.active.all():
            self.undefined = Remark("", line)
        if not self.unwritten and access.kind != "store":
            regions = (each for each in self._regions if each.any_unwritten(access.addresses))
            if region := next(regions, None):
                updates = access.kind == "update" and not access.exchanges
                self.unwritten = Remark(region.argument.name, line, updates)

    def finish(self) -> None:
        """The launch has ended: look at all that its programs did."""
        programs, activity = len(self._numbers), self.activity
        busy = len({access.program for access in self._accesses if access.addresses.size})
        if programs - busy > activity.idle_programs:
            activity.idle_programs, activity.busy_programs = programs - busy, busy
        activity.back_and_forth |= self._goes_back_and_forth()
        stored = programs * max(self._lanes_stored.values(), default=0)
        loaded = programs * max(self._lanes_loaded.values(), default=0)
        activity.reach = max(activity.reach, stored)
        activity.reach_of_loads = max(activity.reach_of_loads, loaded)
        if self._launch and self._accesses and not self.problem:
            problem = stray(self._launch, self._accesses, self._lines, self._regions)
            race, number = None if problem else self._race(), activity.launches - 1
            race = race and replace(race, launch=number)
            # With atomics, programs can order one another.
            if any(access.kind == "update" for access in self._accesses):
                self.contended = self.contended or self._contended()
                self.unordered, race = self.unordered or race, None
            self.problem = replace(problem, launch=number) if problem else race
        if self._launch:
            self.followed = Followed(self._launch, self._accesses, self._lines)
        self._launch = None
        self._accesses, self._lines, self._numbers = [], [], {}
        self._lanes_stored, self._lanes_loaded = Counter(), Counter()

    def _goes_back_and_forth(self) -> bool:
        starts: dict[Program, list[int]] = {}
        for access in self._accesses:
            if access.kind == "store" and access.addresses.size:
                starts.setdefault(access.program, []).append(int(access.addresses[0]))
        return any(
            each not in (sorted(each), sorted(each, reverse=True)) for each in starts.values()
        )

    def _stop_too_many_programs(self, launch: Launch) -> None:
        """Stop a call that starts very many programs: they would only take long."""
        most = max(FREE_PROGRAMS, self._elements // LEAST_ELEMENTS)
        launches, programs = self.activity.launches, self.activity.programs
        if self._block is None or programs <= most:
            return
        blocks = max(1, math.ceil(self._elements / self._block))
        in_launches = f" in {launches:,} launches" if launches > 1 else ""
        grid = " x ".join(f"{size:,}" for size in launch.grid if size > 1) or "1"
        enough = f"{blocks:,} block{'s' if blocks > 1 else ''} of {self._block:,} elements"
        text = (
            f"It starts {programs:,} programs{in_launches} where {enough} would do: "
            f"look at the grid, which is {grid}, and the block size."
        )
        if self.problem is None:  # kept, since the launcher may catch what is raised
            self.problem = Problem("wrong", text, launch=launches - 1, what=f"{programs} programs")
        raise FoundError(self.problem)

    def _stop_superfluous_axes(self) -> None:
        """Stop a launch with an axis that no program asks for, so that all of them do the same.

        With atomics, programs may take their turn from memory.
        """
        assert self._launch is not None
        takes_turns = any(access.kind == "update" for access in self._accesses)
        for axis, size in enumerate(self._launch.grid):
            if size > FEW_COPIES and axis not in self._launch.asked and not takes_turns:
                text = (
                    f"The grid has {size:,} programs along axis {axis}, and none asks for "
                    f"tl.program_id({axis}): each element is done {size:,} times."
                )
                self.problem = self.problem or Problem("wrong", text, what=f"axis {axis}")
                raise FoundError(self.problem)

    def _contended(self) -> Remark | None:
        """An update of a place that several programs update."""
        updates = [i for i, access in enumerate(self._accesses) if access.kind == "update"]
        addresses = [self._accesses[i].addresses for i in updates]
        places, number = np.concatenate(addresses), np.repeat(updates, [*map(len, addresses)])
        programs = np.array([self._numbers[access.program] for access in self._accesses])[number]
        order = np.argsort(places, kind="stable")
        is_same = places[order][1:] == places[order][:-1]
        both = np.flatnonzero(is_same & (programs[order][1:] != programs[order][:-1]))
        if not both.size:
            return None
        second = order[both[0] + 1]
        return Remark(self._place(places[second]), self._lines[number[second]])

    def _race(self) -> Problem | None:
        stores = [
            access for access in self._accesses if access.kind == "store" and access.addresses.size
        ]
        if not stores:
            return None
        for store in stores:
            if problem := self._clash_of_lanes(store):
                return problem
        written = np.concatenate([store.addresses for store in stores])
        places, which = np.unique(written, return_inverse=True)
        numbers = [np.full(store.addresses.shape, self._numbers[store.program]) for store in stores]
        values = [store.stored.astype(np.uint64) for store in stores if store.stored is not None]
        first, last = _least_and_most(which, np.concatenate(numbers), len(places))
        low, high = _least_and_most(which, np.concatenate(values), len(places))
        self.activity.shared_elements += int((first != last).sum())
        names = list(self._numbers)
        clashes = np.flatnonzero((first != last) & (low != high))
        if clashes.size:
            i = clashes[0]
            both = self._named(names[first[i]], names[last[i]])
            along = self._differ_along(names[first[i]], names[last[i]])
            text = (
                f"Programs {both} wrote different values to {self._place(places[i])}. Each needs "
                f"elements of its own{along}, or tl.atomic_add if these are to be added up."
            )
            line = self._store_to(places[i])
            return Problem("race", text, names[last[i]], line=line, what="stores")
        for load, line in zip(self._accesses, self._lines, strict=True):
            if load.kind != "load":
                continue
            near = np.minimum(np.searchsorted(places, load.addresses), len(places) - 1)
            number = self._numbers[load.program]
            by_others = (first[near] != number) | (last[near] != number)
            clashes = near[(places[near] == load.addresses) & by_others]
            if clashes.size:
                i = clashes[0]
                writer = names[first[i] if first[i] != number else last[i]]
                text = (
                    f"Program {self._named(load.program)} read {self._place(places[i])}, which "
                    f"program {self._named(writer)} wrote in the same launch: "
                    "nothing orders the two."
                )
                return Problem("race", text, load.program, line=line, what="load")
        return None

    def _named(self, *programs: Program) -> str:
        assert self._launch
        return program_text(*programs, grid=self._launch.grid)

    def _differ_along(self, one: Program, other: Program) -> str:
        """Which axis of a grid of several two programs that clash differ along, if it is one."""
        assert self._launch
        axes = [axis for axis in range(3) if one[axis] != other[axis]]
        if len(axes) > 1 or sum(size > 1 for size in self._launch.grid) < 2:
            return ""
        return f" (is tl.program_id({axes[0]}) left out there, or multiplied by too little?)"

    def _clash_of_lanes(self, store: Access) -> Problem | None:
        """Two lanes of one store that write different values to one place."""
        assert store.stored is not None
        order = np.argsort(store.addresses, kind="stable")
        addresses, values = store.addresses[order], store.stored[order]
        clashes = np.flatnonzero((addresses[1:] == addresses[:-1]) & (values[1:] != values[:-1]))
        if not clashes.size:
            return None
        program, place = self._named(store.program), self._place(addresses[clashes[0]])
        text = f"Two lanes of program {program} wrote different values to {place}."
        if store.pointers.ndim > 1:
            text += " Rows of a tile lie a stride apart: is it left out, or another one?"
        line = self._store_to(addresses[clashes[0]])
        return Problem("race", text, store.program, line=line, what="lanes")

    def _store_to(self, address: np.uint64) -> OwnLine | None:
        """The line of the first store to an address."""
        for access, line in zip(self._accesses, self._lines, strict=True):
            if access.kind == "store" and (access.addresses == address).any():
                return line
        return None

    def _place(self, address: np.uint64) -> str:
        for region in self._regions:
            if region.start <= address < region.end:
                (number,) = region.argument.numbers(np.array([address]))
                return region.argument.place(int(number)) if number >= 0 else region.argument.name
        return "the same place"


def _least_and_most(
    group: np.ndarray, values: np.ndarray, groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each group."""
    least = np.full(groups, values.max(), values.dtype)
    most = np.full(groups, values.min(), values.dtype)
    np.minimum.at(least, group, values)
    np.maximum.at(most, group, values)
    return least, most
