"""What each warp of the attention kernels for compute capability 9.0 does when, as recorded.

The times are cycles of a multiprocessor's own clock, read by the warps themselves.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from course.errors import CourseError
from course.gpus.recorded import Recorded

from .result import FOLDER
from .timed_code import has_changed

FILE = FOLDER / "observed" / "attention_timeline.json"

OTHER = "other"
"""What a warp does between two states: loop counters, releases of slots, P rounded to 16 bits."""
ENDED = "has ended"
"""A warp has left its last state, and others of its program have not."""
START, WAIT, SOFTMAX = "start a product", "wait for a product", "softmax"
WARP_GROUP = 4
OPERATIONS_PER_CYCLE = 4096
"""Additions and multiplications that the tensor cores of one multiprocessor do per cycle, in
float16, on GPUs of compute capability 9.0."""

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
    """Of its warp group: "producer", "consumer", "consumer 0", "consumer 1", or "warp group" where
    one does all."""
    steps: tuple[tuple[int, int, int], ...]
    """The spans in order: the state's number, the cycles since the span before it, its own."""

    def spans(self, states: tuple[str, ...]) -> list[Span]:
        """When the warp is in which state. states: their names by number."""
        spans, now = [], 0
        for state, gap, cycles in self.steps:
            spans.append(Span(states[state], now + gap, now + gap + cycles))
            now += gap + cycles
        return spans


@dataclass(frozen=True)
class Program:
    """One program of a launch, from the first clock that any of its warps reads to the last."""

    number: int
    begins_ns: int
    """Since the first of the recorded programs of this launch began."""
    lasts_ns: int
    warps: tuple[Warp, ...]


@dataclass(frozen=True)
class Launch:
    """A launch, and some programs of it that ran on one multiprocessor."""

    head_dim: int
    length: int
    """Queries, and keys."""
    heads: int
    plain_us: float
    """Microseconds of the kernel as it is."""
    scoped_us: float
    """Microseconds of the copy whose warps read the clock and write down what they read."""
    programs: tuple[Program, ...]


@dataclass(frozen=True, repr=False)
class AttentionTimeline(Recorded):
    """Launches of attention, without a mask and in float16, by the step that was recorded.

    Prints, for each of them, the share of its time that a warp spends in each state.
    """

    source_hash: str
    """Of the kernels that were run; see `course.benching.source_hash`."""
    states: tuple[str, ...]
    launches: dict[str, Launch]

    @property
    def outdated(self) -> bool:
        return self.recorded and has_changed("attention_timeline", self.source_hash)

    def to_json(self) -> str:
        """JSON with a line for each warp."""
        text = json.dumps(self._content(), separators=(",", ":"))
        return text.replace('{"number":', '\n{"number":') + "\n"

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
    launch: Launch

    @cached_property
    def spans(self) -> dict[tuple[int, int], list[Span]]:
        """(place of the program, number of the warp) -> its spans, in cycles since the first of
        the programs began."""
        return {
            (place, warp.number): [
                Span(span.state, span.start + shift, span.end + shift)
                for span in warp.spans(self.record.states)
            ]
            for place, (program, shift) in enumerate(
                zip(self.launch.programs, self._shifts, strict=True)
            )
            for warp in program.warps
        }

    @cached_property
    def _shifts(self) -> list[int]:
        """Cycles from the beginning of the first program to that of each.

        The GPU's nanoseconds say when a program begins, and its own cycles what lies in it; how
        many cycles a nanosecond has is what the programs themselves took of both.
        """
        programs = self.launch.programs
        cycles = sum(_end(program.warps) for program in programs)
        rate = cycles / sum(program.lasts_ns for program in programs)
        return [round(program.begins_ns * rate) for program in programs]

    def extent(self, place: int) -> Interval:
        """When the program at a place began and ended."""
        start = self._shifts[place]
        return start, start + _end(self.launch.programs[place].warps)

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
        spent: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        whole: dict[str, int] = defaultdict(int)
        for program in self.launch.programs:
            length = _end(program.warps)
            for warp in program.warps:
                whole[warp.role] += length
                for state, gap, cycles in warp.steps:
                    spent[warp.role][self.record.states[state]] += cycles
                    spent[warp.role][OTHER] += gap
                spent[warp.role][ENDED] += length - _end([warp])
        return {
            role: {state: cycles / whole[role] for state, cycles in spent[role].items()}
            for role in whole
        }

    @cached_property
    def with_product(self) -> list[Interval]:
        """When any warp has a product under way: from its start until the warp has waited for it.
        At other times the tensor cores are idle."""
        return _union(
            interval for spans in self.spans.values() for interval in products_under_way(spans)
        )

    @cached_property
    def without_product(self) -> float:
        """The share of the time in which no warp has a product under way."""
        return 1 - sum(end - start for start, end in self.with_product) / self.cycles

    @cached_property
    def softmax_under_products(self) -> float:
        """The share of all warps' time in softmax that passes while a product is under way, the
        warp's own or another's. Raises ZeroDivisionError where no warp is ever in softmax."""
        softmax = [
            (span.start, span.end)
            for spans in self.spans.values()
            for span in spans
            if span.state == SOFTMAX
        ]
        under = sum(
            max(0, min(end, stop) - max(start, begin))
            for start, end in softmax
            for begin, stop in self.with_product
        )
        return under / sum(end - start for start, end in softmax)

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
    started: list[int] = []
    for span in spans:
        if span.state == START:
            started.append(span.start)
        elif span.state == WAIT and started:
            intervals.append((started.pop(0), span.end))
    return intervals


def _end(warps: Iterable[Warp]) -> int:
    """The last clock that any of these warps reads."""
    return max(sum(gap + cycles for _, gap, cycles in warp.steps) for warp in warps)


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same times in intervals that do not touch."""
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def attention_timeline() -> AttentionTimeline:
    """The recorded timeline of attention. Raises CourseError where none is recorded."""
    if not FILE.exists():
        raise CourseError(
            "No timeline of attention is recorded: `make record` records it on a GPU of compute"
            " capability 9.0."
        )
    return AttentionTimeline.from_json(FILE.read_text())
