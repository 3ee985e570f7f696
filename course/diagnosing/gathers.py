"""Accesses whose places are loaded themselves, as those of a gather are, and from where."""

import re
from collections import defaultdict
from collections.abc import Iterator

from course.lowering.call_sites import CallSite, CallSites
from course.lowering.result import Lowered
from course.lowering.ttir_values import TtirValue, Values

KINDS = {"tt.load": "load", "tt.store": "store"}
UPDATE = "update"
MASKS = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}
"""Operation -> which of its operands is a mask, if it has one."""

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


def deciding_loads(lowered: Lowered) -> set[CallSite]:
    """The calls that load what decides which memory a kernel touches: by an address, by a mask, or
    by how often a loop runs."""
    calls, chains = CallSites(lowered.listing), dict(lowered.lines.places("ttir"))
    read = Values(lowered.ttir)
    decide = [bound for loop in read.loops for bound in loop.bounds]
    for _, access in read.accesses:
        decide += access.operands[:1]
        # A maximum of floats is two updates, which the sign of what is stored masks.
        if access.operation in MASKS and not re.match(r"\s*u?(max|min)\b", access.text):
            decide += access.operands[MASKS[access.operation] :][:1]
    behind = {id(value) for value in values_behind(decide, beyond_loads=True)}
    return {
        calls.path(chains[row], "load")[0]
        for row, value in read.accesses
        if value.operation == "tt.load" and id(value) in behind and row in chains
    }


def gathers_of(touches: Touches) -> Gathers:
    """The accesses whose addresses are computed from blocks that the kernel has loaded."""
    call_of = {id(value): call for (call, _), values in touches.items() for value in values}
    gathers = {}
    for site, values in touches.items():
        behind = [each for value in values for each in values_behind(value.operands[:1])]
        loads = frozenset(
            call_of[id(each)] for each in behind if each.loads_a_block and id(each) in call_of
        )
        if loads:
            gathers[site] = loads
    return gathers


def values_behind(values: list[TtirValue], beyond_loads: bool = False) -> Iterator[TtirValue]:
    """These values, and what they are computed from.

    beyond_loads: whether to go on to what the addresses of loaded blocks are computed from.
    """
    seen, left = set[int](), list(values)
    while left:
        value = left.pop()
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            if beyond_loads or not value.loads_a_block:
                left += value.operands
