"""The rules: one file for each family of causes. A rule takes evidence and yields findings."""

from collections.abc import Callable, Iterator

from ..evidence import Evidence
from ..executed import Run
from ..result import Finding
from ..time_model import Work
from . import (
    atomics,
    facts,
    grid,
    hidden_tiles,
    instructions,
    pipelining,
    registers,
    repeats,
    sectors,
    tensor_cores,
    widths,
)

COUNTED: tuple[Callable[[Evidence, Work], Iterator[Finding]], ...] = (
    sectors.wasted,
    widths.narrow,
    repeats.shared_reads,
    repeats.small_tiles,
    repeats.repeated,
    atomics.locks,
    atomics.contended,
    hidden_tiles.hidden,
    grid.ragged,
    grid.uneven,
    grid.too_small,
)
"""Rules over what programs touch, of launches that were followed. They are given its work too."""
EXECUTED: tuple[Callable[[Evidence, Work, list[Run]], Iterator[Finding]], ...] = (
    instructions.float64,
    instructions.reductions,
    instructions.many,
    atomics.fences,
)
"""Rules over the instructions that a warp runs, where the machine code was read too."""
COMPILED: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    registers.spilled,
    registers.occupancy,
    pipelining.unpipelined,
    tensor_cores.no_tensor_core,
    tensor_cores.older_instruction,
    grid.too_few,
    grid.small_as_compiled,
)
"""Rules over what the compiler has made of the kernel, whether the launch was followed or not."""


def findings_of(evidence: Evidence) -> Iterator[Finding]:
    """The findings of all rules, not yet ranked."""
    work, executed = evidence.work, evidence.executed
    if work is not None:
        for counted in COUNTED:
            yield from counted(evidence, work)
        for over_instructions in EXECUTED if executed else ():
            yield from over_instructions(evidence, work, executed)
    for compiled in COMPILED:
        yield from compiled(evidence)


FACTS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    facts.divisions,
    facts.float64,
    facts.l2,
    facts.masked,
    facts.by_sign,
    facts.updates,
    facts.widths,
    facts.banks,
    facts.launch,
)
"""Functions that yield sentences worth knowing about a launch, which claim no gain."""
