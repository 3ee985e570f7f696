"""Registers: what spilled, and what keeps one more program from a multiprocessor."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.throughput import LOCAL
from course.lowering.occupancy import REGISTER_UNIT, SM_PARTITIONS, SM_REGISTERS

from ..evidence import Evidence
from ..result import LEAST_GAIN, Finding
from ..what_if import with_options

LOW_OCCUPANCY = 0.25
"""The part of a multiprocessor's warps below which registers are named without a trace too."""


def spilled(evidence: Evidence) -> Iterator[Finding]:
    """Values that found no register."""
    resources, work, mended = evidence.lowered.resources, evidence.work, None
    if not resources.spill_bytes:
        return
    if work is not None:
        kept = {unit: count for unit, count in work.instructions.items() if unit != LOCAL}
        mended = replace(work.less(**evidence.spilled), instructions=kept)
    yield Finding(
        "spills",
        f"{resources.spill_bytes:,} bytes per thread spilled to memory, with "
        f"{resources.registers} registers per thread",
        f"a program's blocks are too large for its {resources.num_warps} "
        f"warp{'s' if resources.num_warps > 1 else ''}: what does not fit in registers is written "
        "to memory and read again.",
        _without_spills(evidence),
        mended=mended,
        always=True,
    )


def _without_spills(evidence: Evidence) -> str:
    """The change to try: twice the warps if fewer bytes spill with them, else smaller blocks."""
    resources = evidence.lowered.resources
    twice = 2 * resources.num_warps
    if twice <= min(16, resources.most_warps):
        lowered = with_options(evidence.lowered, num_warps=twice)
        if lowered and (left := lowered.resources.spill_bytes) < resources.spill_bytes:
            how = f"{left:,} bytes spill" if left else "nothing spills"
            return f"num_warps={twice}, with which {how}, or smaller blocks."
    return "take smaller blocks, or compute one after another what is kept at the same time."


def occupancy(evidence: Evidence) -> Iterator[Finding]:
    """Registers that keep the next program out, where one more would be of use."""
    resources, work = evidence.lowered.resources, evidence.work
    held = resources.programs_per_sm
    if resources.limit != "registers" or not held:
        return
    enough = registers_for(held + 1, resources.num_warps)
    waiting = evidence.programs / evidence.gpu.multiprocessors > held
    mended = replace(work, slots=held + 1) if work else None
    if work and mended:
        helps = work.us / mended.us >= LEAST_GAIN
    else:
        helps = (resources.occupancy or 0) <= LOW_OCCUPANCY
    if not (waiting and enough and helps):
        return
    yield Finding(
        "occupancy",
        f"{resources.registers} registers per thread let a multiprocessor hold {held} "
        f"program{'s' if held > 1 else ''}; at {enough} it would hold {held + 1}",
        f"only {resources.occupancy:.0%} of its warps are there, and while all of them wait for "
        "loads nothing else is done.",
        _with_registers(evidence, enough),
        mended=mended,
    )


def _with_registers(evidence: Evidence, enough: int) -> str:
    """The change to try for so many registers per thread; maxnreg if no more spills with it."""
    change = "take smaller blocks, or more warps for the same blocks"
    spilled = evidence.lowered.resources.spill_bytes
    if evidence.target.nvidia:
        lowered = with_options(evidence.lowered, maxnreg=enough)
        if lowered is not None and lowered.resources.spill_bytes <= spilled:
            more = "more " if spilled else ""
            return f"{change}, or maxnreg={enough}, with which nothing {more}spills."
    return f"{change}."


def registers_for(programs: int, num_warps: int) -> int:
    """The most registers per thread at which so many programs fit; 0 if they do not fit at all."""
    warps = -(-programs * num_warps // SM_PARTITIONS)
    per_warp = SM_REGISTERS // SM_PARTITIONS // warps // REGISTER_UNIT * REGISTER_UNIT
    return per_warp // 32
