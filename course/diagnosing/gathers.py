"""Accesses whose places are loaded themselves, as those of a gather are, and from where."""

from collections import defaultdict
from collections.abc import Iterator

from course.lowering.call_sites import CallSite, CallSites
from course.lowering.result import Lowered
from course.lowering.ttir_values import TtirValue, Values

KINDS = {"tt.load": "load", "tt.store": "store"}
UPDATE = "update"

Touches = dict[tuple[CallSite, str], list[TtirValue]]
"""(a call that touches memory, the kind of access) -> its operations in the TTIR."""
Gathers = dict[tuple[CallSite, str], frozenset[CallSite]]
"""(a call that touches memory, the kind of access) -> the calls that load the blocks which its
addresses are computed from."""


def touches_of(lowered: Lowered) -> Touches:
    """The operations of a kernel that touch memory, by the calls that they come from."""
    calls, chains = CallSites(lowered.listing), dict(lowered.lines.places("ttir"))
    touches: Touches = defaultdict(list)
    for row, value in Values(lowered.ttir).accesses:
        if row in chains:
            kind = KINDS.get(value.operation, UPDATE)
            touches[calls.path(chains[row], kind)[0], kind].append(value)
    return touches


def gathers_of(touches: Touches) -> Gathers:
    """The accesses whose addresses are computed from blocks that the kernel has loaded."""
    call_of = {id(value): call for (call, _), values in touches.items() for value in values}
    gathers = {}
    for site, values in touches.items():
        behind = [each for value in values for each in values_behind(value)]
        loads = frozenset(
            call_of[id(each)] for each in behind if each.loads_a_block and id(each) in call_of
        )
        if loads:
            gathers[site] = loads
    return gathers


def values_behind(access: TtirValue, beyond_loads: bool = False) -> Iterator[TtirValue]:
    """The values that an access computes its addresses from.

    beyond_loads: whether to go on to what the addresses of blocks are computed from that it loads.
    """
    seen, left = set[int](), [access.operands[0]]
    while left:
        value = left.pop()
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            if beyond_loads or not value.loads_a_block:
                left += value.operands
