"""The rules: one file for each family of causes. A rule takes evidence and yields findings."""

from collections.abc import Callable, Iterator

from ..evidence import Evidence
from ..result import Finding
from . import (
    atomics,
    facts,
    grid,
    instructions,
    pipelining,
    registers,
    repeats,
    sectors,
    sharing,
    tensor_cores,
    widths,
)

Rule = Callable[[Evidence], Iterator[Finding]]

RANKED: tuple[Rule, ...] = (
    sectors.wasted,
    widths.narrow,
    registers.spilled,
    registers.occupancy,
    pipelining.unpipelined,
    tensor_cores.no_tensor_core,
    tensor_cores.older_instruction,
    instructions.float64,
    instructions.reductions,
    instructions.many,
    sharing.shared_reads,
    sharing.small_tiles,
    repeats.repeated,
    atomics.fences,
    atomics.locks,
    grid.too_few,
    grid.ragged,
    grid.uneven,
    grid.too_small,
)
"""Causes with exact counts, whose findings are ranked by what mending them is estimated to gain."""

Fact = Callable[[Evidence], Iterator[str]]

FACTS: tuple[Fact, ...] = (
    facts.divisions,
    facts.float64,
    facts.l2,
    facts.masked,
    facts.updates,
    facts.widths,
    facts.banks,
    facts.launch,
)
"""What is worth knowing of a launch and claims no gain: sentences."""
