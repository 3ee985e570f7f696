"""What each warp of the attention kernels for compute capability 9.0 does when, as recorded.

The times are cycles of a multiprocessor's own clock, read by the warps themselves.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from course.errors import CourseError
from course.gpus.recorded import Recorded

from .outdated import has_changed
from .result import observation

OTHER = "other"
"""What a warp does between two states: loop counters, releases of slots, P rounded to 16 bits."""
ENDED = "has ended"
"""A warp has left its last state, and others of its program have not."""
START, WAIT, SOFTMAX = "start a product", "wait for a product", "softmax"
WARP_GROUP = 4

Interval = tuple[int, int]
"""Begin and end in cycles."""


@dataclass(frozen=True)
class Span:
    """A warp is in one state from `start` to `end`, in cycles since its program began."""

    state: str
    start: int
    end: int


@dataclass(frozen=True)
class Warp:
    """One warp of a program."""

    number: int
    role: str
    """What its warp group does: "producer", "consumer", "consumer 0", "consumer 1", or "warp group"
    where one does all."""
    steps: tuple[tuple[int, int, int], ...]
    """The spans in order: the state's number, the cycles since the span before it, its own."""

    def spans(self, states: tuple[str, ...], begin: int = 0) -> list[Span]:
        """When the warp is in which state. states: their names by number. begin: when its program
        began."""
        spans, now = [], begin
        for state, gap, cycles in self.steps:
            spans.append(Span(states[state], now + gap, now + gap + cycles))
            now += gap + cycles
        return spans

    @property
    def end(self) -> int:
        """The last clock that the warp reads."""
        return sum(gap + cycles for _, gap, cycles in self.steps)


@dataclass(frozen=True)
class TracedProgram:
    """One program of a launch, from the first clock that any of its warps reads to the last."""

    number: int
    begins_ns: int
    """Nanoseconds since the first of the recorded programs of this launch began."""
    lasts_ns: int
    warps: tuple[Warp, ...]

    @property
    def end(self) -> int:
        """The last clock that any of its warps reads."""
        return max(warp.end for warp in self.warps)


@dataclass(frozen=True)
class TracedLaunch:
    """A launch, and some programs of it that ran on one multiprocessor."""

    head_dim: int
    length: int
    """Queries, and keys."""
    heads: int
    plain_us: float
    """Microseconds of the kernel as it is."""
    scoped_us: float
    """Microseconds of the copy whose warps read the clock and write down what they read."""
    programs: tuple[TracedProgram, ...]


@dataclass(frozen=True, repr=False)
class AttentionTimeline(Recorded):
    """Launches of attention, without a mask and in float16, by the step that was recorded.

    Prints, for each of them, the share of its time that a warp spends in each state.
    """

    source_hash: str
    """The hash of the kernels that were run; see `course.benching.source_hash`."""
    states: tuple[str, ...]
    launches: dict[str, TracedLaunch]

    @property
    def outdated(self) -> bool:
        return self.recorded and has_changed("attention_timeline", self.source_hash)

    def of(self, name: str) -> "LaunchTimeline":
        """One launch. Raises CourseError, naming all, where there is no such one."""
        if name not in self.launches:
            names = ", ".join(map(repr, self.launches))
            raise CourseError(f"No timeline of {name!r} is recorded: there are {names}.")
        return LaunchTimeline(self, name, self.launches[name])

    def __str__(self) -> str:
        return "\n\n".join([*(str(self.of(name)) for name in self.launches), self.source])


@dataclass(frozen=True, repr=False)
class LaunchTimeline:
    """One launch of an AttentionTimeline: a picture's data, and what can be counted of it."""

    record: AttentionTimeline
    name: str
    launch: TracedLaunch

    @cached_property
    def spans(self) -> dict[tuple[int, int], list[Span]]:
        """(place of the program, number of the warp) -> its spans, in cycles since the first of
        the programs began."""
        return {
            (place, warp.number): warp.spans(self.record.states, self.extent(place)[0])
            for place, program in enumerate(self.launch.programs)
            for warp in program.warps
        }

    def extent(self, place: int) -> Interval:
        """When the program at a place began and ended.

        The GPU's nanoseconds say when a program begins, and its own cycles what lies in it; how
        many cycles a nanosecond has is what the programs themselves took of both.
        """
        programs = self.launch.programs
        rate = sum(each.end for each in programs) / sum(each.lasts_ns for each in programs)
        start = round(programs[place].begins_ns * rate)
        return start, start + programs[place].end

    @property
    def side_by_side(self) -> bool:
        """Whether any two programs run at the same time."""
        extents = [self.extent(place) for place in range(len(self.launch.programs))]
        return any(after[0] < before[1] for before, after in pairwise(extents))

    @cached_property
    def cycles(self) -> int:
        """From the beginning of the first program to the end of the last."""
        return max(spans[-1].end for spans in self.spans.values())

    @cached_property
    def shares(self) -> dict[str, dict[str, float]]:
        """Role -> state, OTHER and ENDED -> the share of the time that its warps are in it, from
        the beginning of their program to its end."""
        spent: dict[str, Counter[str]] = {}
        for program in self.launch.programs:
            for warp in program.warps:
                cycles = spent.setdefault(warp.role, Counter())
                for state, gap, own in warp.steps:
                    cycles[self.record.states[state]] += own
                    cycles[OTHER] += gap
                cycles[ENDED] += program.end - warp.end
        return {
            role: {state: count / cycles.total() for state, count in cycles.items()}
            for role, cycles in spent.items()
        }

    @cached_property
    def _in_product(self) -> npt.NDArray[np.bool_]:
        """Whether any warp has a product under way, cycle by cycle."""
        under_way = np.zeros(self.cycles, dtype=bool)
        for spans in self.spans.values():
            for start, end in products_under_way(spans):
                under_way[start:end] = True
        return under_way

    @property
    def with_product(self) -> list[Interval]:
        """When any warp has a product under way: from its start until the warp has waited for it.
        At other times the tensor cores are idle."""
        changes = np.flatnonzero(np.diff(self._in_product, prepend=False, append=False)).tolist()
        return list(zip(changes[::2], changes[1::2], strict=True))

    @property
    def without_product(self) -> float:
        """The share of the time in which no warp has a product under way."""
        return 1 - float(self._in_product.mean())

    @property
    def softmax_under_products(self) -> float:
        """The share of all warps' time in softmax that passes while a product is under way, the
        warp's own or another's. Raises ZeroDivisionError where no warp is ever in softmax."""
        softmax = [each for spans in self.spans.values() for each in spans if each.state == SOFTMAX]
        under = sum(int(self._in_product[each.start : each.end].sum()) for each in softmax)
        return under / sum(each.end - each.start for each in softmax)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        launch, roles = self.launch, list(self.shares)
        width = max(len(role) for role in roles) + 2
        rows = [f"{self.name}: D = {launch.head_dim}, {launch.heads} heads of {launch.length}"]
        rows.append(f"{'share of the time':24}" + "".join(f"{role:>{width}}" for role in roles))
        for state in [*self.record.states, OTHER, ENDED]:
            shares = [self.shares[role].get(state, 0) for role in roles]
            if any(share > 0 for share in shares):
                rows.append(f"{state:24}" + "".join(f"{share:{width}.0%}" for share in shares))
        rows.append(f"No warp has a product under way for {self.without_product:.0%} of the time.")
        rows.append(f"{self.softmax_under_products:.0%} of the softmax runs under a product.")
        clocks = f"{launch.scoped_us:.1f} us where its warps read clocks"
        rows.append(f"The kernel takes {launch.plain_us:.1f} us, and {clocks}.")
        if self.record.outdated:
            rows.append(self.record.source)
        return "\n".join(rows)


def products_under_way(spans: Iterable[Span]) -> list[Interval]:
    """When a warp has a product under way. Each wait of the kernels' ends the oldest of them."""
    intervals: list[Interval] = []
    started: deque[int] = deque()
    for span in spans:
        if span.state == START:
            started.append(span.start)
        elif span.state == WAIT and started:
            intervals.append((started.popleft(), span.end))
    return intervals


def attention_timeline() -> AttentionTimeline:
    """The recorded timeline of attention. Raises CourseError where none is recorded."""
    return observation(AttentionTimeline, "attention_timeline")
