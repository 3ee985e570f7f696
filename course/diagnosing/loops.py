"""The loops of a kernel's TTGIR: what they load and how, what they multiply and divide."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from course.lowering.call_sites import CallSite, CallSites
from course.lowering.result import Lowered
from course.lowering.source_map import SourceLine

_LOOP = re.compile(r"\bscf\.(for|while)\b")
_PLAIN = re.compile(r"\b(?:tt\.load|amdg\.buffer_load)\b")
_AHEAD = re.compile(
    r"\bttg\.async_copy_global_to_local\b|\bttng\.async_tma_copy_global_to_local\b"
    r"|\bamdg\.(?:buffer_load_to_local|async_\w+)"
)
_DOT = re.compile(r"\b(?:tt\.dot|ttng\.warp_group_dot|ttng\.tc_gen5_mma|tt\.dot_scaled)\b(?!_)")
_END = re.compile(r"\s*\}(?! do \{)(?:.*\btt\.num_stages = (\d+))?")
_STEP = re.compile(r"\bstep %c(\d+)_")
_ONE_EXCHANGE = re.compile(r"\btt\.atomic_(?:cas|rmw exch)\b(?!.*tensor<)")
_DIVISION = re.compile(r"\barith\.(?:div|rem)[su]i %\w+, (%\w+)")
_CONSTANT = re.compile(r"^\s*(%\w+) = arith\.constant\b", re.MULTILINE)


@dataclass
class Loop:
    """One loop, without the loops inside it."""

    kind: str
    """"for" or "while"."""
    line: SourceLine | None
    """Where it stands in the kernel, if that is known."""
    plain: list[CallSite] = field(default_factory=list)
    """Calls that load when their values are wanted."""
    ahead: list[CallSite] = field(default_factory=list)
    """Calls whose values are copied to shared memory while earlier ones are computed with."""
    dots: int = 0
    stages: int | None = None
    """The depth of its own pipeline, as tl.range(…, num_stages=…) asks for; None if it does not."""
    step: int = 0
    """How far each iteration goes, where that is a constant; else 0."""
    divisions: list[SourceLine] = field(default_factory=list)
    """Lines that divide integers, or take a remainder, by what the compiler does not know: by a
    constant it multiplies and shifts."""
    exchanges: list[CallSite] = field(default_factory=list)
    """Calls that exchange one element by an atomic: in a `while`, a lock that is waited for."""

    @property
    def loads(self) -> list[CallSite]:
        """All calls that load."""
        return [*self.plain, *self.ahead]


def loops_of(lowered: Lowered) -> Iterator[Loop]:
    """The loops of a kernel, an inner one before the one around it."""
    calls = CallSites(lowered.listing)
    chains = dict(lowered.lines.places("ttgir"))
    asked = _stages_asked_for(lowered)
    constants = set(_CONSTANT.findall(lowered.ttgir))
    opened: list[tuple[int, Loop]] = []
    for number, row in enumerate(lowered.ttgir.split("\n"), start=1):
        indent = len(row) - len(row.lstrip())
        # A while closes its condition with `} do {`.
        ends = row.lstrip().startswith("}") and "do {" not in row
        while opened and ends and indent <= opened[-1][0]:
            yield opened.pop()[1]
        if match := _LOOP.search(row):
            line = lowered.lines.back("ttgir", number)
            stages = asked.get(line.frame) if line else None
            step = _STEP.search(row)
            loop = Loop(match[1], line, stages=stages, step=int(step[1]) if step else 0)
            opened.append((indent, loop))
        elif opened:
            loop = opened[-1][1]
            loop.dots += len(_DOT.findall(row))
            if number in chains and (_PLAIN.search(row) or _AHEAD.search(row)):
                site = calls.path(chains[number], "load")[0]
                (loop.plain if _PLAIN.search(row) else loop.ahead).append(site)
            if number in chains and _ONE_EXCHANGE.search(row):
                loop.exchanges.append(calls.path(chains[number], "update")[0])
            division = _DIVISION.search(row)
            if division and division[1] not in constants:
                loop.divisions += filter(None, [lowered.lines.back("ttgir", number)])


def _stages_asked_for(lowered: Lowered) -> dict[tuple[str, int], int]:
    """The line of a tl.range that asks for a pipeline -> its num_stages.

    From TTIR: once the compiler has pipelined a loop, or has not, TTGIR does not say it any more.
    """
    stages: dict[tuple[str, int], int | None] = {}
    if "ttir" not in lowered.texts:  # in Gluon loops have no pipelines
        return {}
    opened: list[int] = []
    for number, row in enumerate(lowered.ttir.split("\n"), start=1):
        indent = len(row) - len(row.lstrip())
        if _LOOP.search(row):
            opened.append(indent)
        elif opened and indent == opened[-1] and (match := _END.match(row)):
            opened.pop()
            if line := lowered.lines.back("ttir", number):
                # Unrolling leaves a loop behind the first one, which asks for 1.
                stages.setdefault(line.frame, int(match[1]) if match[1] else None)
    return {frame: number for frame, number in stages.items() if number is not None}
