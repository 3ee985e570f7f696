"""Accesses whose places are loaded themselves, as those of a gather are, and from where."""

from collections import defaultdict

from course.lowering.call_sites import CallSite, CallSites
from course.lowering.result import Lowered
from course.lowering.ttir_values import Value, Values

KINDS = {"tt.load": "load", "tt.store": "store"}
UPDATE = "update"

Gathers = dict[tuple[CallSite, str], frozenset[CallSite]]
"""For a call that touches memory and its kind, the calls that load the blocks which its addresses
are computed from."""


def gathers_of(lowered: Lowered) -> Gathers:
    """The accesses of a kernel whose addresses are computed from blocks that it has loaded."""
    calls = CallSites(lowered.listing)
    chains = dict(lowered.lines.places("ttir"))
    sites: dict[int, tuple[CallSite, str]] = {}
    accesses = [(row, value) for row, value in Values(lowered.ttir).accesses if row in chains]
    for row, value in accesses:
        kind = KINDS.get(value.operation, UPDATE)
        sites[id(value)] = calls.path(chains[row], kind)[0], kind
    gathers: dict[tuple[CallSite, str], set[CallSite]] = defaultdict(set)
    for _, value in accesses:
        for load in _loads_behind(value.operands[0]):
            if id(load) in sites:
                gathers[sites[id(value)]].add(sites[id(load)][0])
    return {site: frozenset(loads) for site, loads in gathers.items()}


def _loads_behind(pointers: Value) -> list[Value]:
    """The loads of blocks that addresses are computed from, the nearest ones alone."""
    loads, seen, left = [], {id(pointers)}, [pointers]
    while left:
        value = left.pop()
        if value.loads_a_block:
            loads.append(value)
            continue
        for operand in value.operands:
            if id(operand) not in seen:
                seen.add(id(operand))
                left.append(operand)
    return loads
