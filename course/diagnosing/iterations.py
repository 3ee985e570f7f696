"""How often each program runs a loop that loads, where that is known of all programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course.lowering.call_sites import CallSite
from course.tracing.program_sizes import Given, Numbers

from .loops import Loop

if TYPE_CHECKING:
    from .evidence import Evidence


@dataclass(frozen=True)
class Iterations:
    """How often programs run one loop."""

    loop: Loop
    each: Numbers
    """Iterations by program."""
    rounds: float
    """Loads that wait for one another in an iteration: below 1 where several iterations' loads are
    under way together."""

    @property
    def most(self) -> int:
        return int(self.each.max())

    @property
    def average(self) -> float:
        return float(self.each.mean())


def iterations_of(evidence: Evidence) -> list[Iterations]:
    """The loops that load, as far as it can be told for all programs how often they are run."""
    known = []
    given = Given(evidence.launch, evidence.lowered)
    loops = {loop.line.frame: loop for loop in evidence.loops if loop.line}
    for counted in given.loops:
        line = evidence.lowered.lines.back("ttir", counted.row)
        loop = loops.get(line.frame) if line else None
        if loop is None or not loop.loads:
            continue
        each = given.iterations(counted)
        if each is not None:
            known.append(Iterations(loop, each, _rounds(evidence, loop)))
    return known


def _rounds(evidence: Evidence, loop: Loop) -> float:
    """Loads that wait for one another in an iteration: those of a gather wait for their places."""

    def depth(call: CallSite, after: frozenset[CallSite]) -> int:
        places = evidence.gathers.get((call, "load"), frozenset()) & set(loop.plain) - after
        return 1 + max((depth(place, after | {place}) for place in places), default=0)

    if loop.plain:
        return max(depth(call, frozenset([call])) for call in loop.plain)
    return 1 / evidence.ahead(loop)
