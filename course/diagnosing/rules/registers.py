"""Registers: what spilled, and what keeps one more program from a multiprocessor."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.throughput import LOCAL
from course.lowering.occupancy import REGISTER_UNIT, SM_PARTITIONS, SM_REGISTERS

from ..evidence import Evidence
from ..result import LEAST_GAIN, Finding
from ..what_if import recompiled

LOW_OCCUPANCY = 0.25
"""The part of a multiprocessor's warps below which registers are named without a trace too."""


def spilled(evidence: Evidence) -> Iterator[Finding]:
    """Values that found no register."""
    resources, work = evidence.lowered.resources, evidence.work
    if not resources.spill_bytes:
        return
    mended = None
    if work is not None:
        spilled, units = evidence.spilled, work.instructions
        mended = replace(
            work,
            l1_sectors=work.l1_sectors - spilled.l1,
            l2_sectors=work.l2_sectors - spilled.l2,
            memory_sectors=work.memory_sectors - spilled.memory,
            instructions={unit: count for unit, count in units.items() if unit != LOCAL},
        )
    yield Finding(
        cause="spills",
        what=(
            f"{resources.spill_bytes:,} bytes per thread spilled to memory, with "
            f"{resources.registers} registers per thread"
        ),
        why=(
            f"a program's blocks are too large for its {resources.num_warps} "
            f"warp{'s' if resources.num_warps > 1 else ''}: what does not fit in registers is "
            "written to memory and read again."
        ),
        change=_without_spills(evidence),
        mended=mended,
    )


def _without_spills(evidence: Evidence) -> str:
    """What to do: twice the warps where that has been seen to help, else smaller blocks."""
    resources, request = evidence.lowered.resources, evidence.lowered.request
    twice = 2 * resources.num_warps
    smaller = "take smaller blocks, or compute one after another what is kept at the same time."
    if request is None or twice > min(16, resources.most_warps):
        return smaller
    lowered = recompiled(evidence.lowered, request.with_options(num_warps=twice))
    if lowered is None or lowered.resources.spill_bytes >= resources.spill_bytes:
        return smaller
    left = lowered.resources.spill_bytes
    how = "nothing spills" if not left else f"{left:,} bytes spill"
    return f"num_warps={twice}, with which {how}, or smaller blocks."


def occupancy(evidence: Evidence) -> Iterator[Finding]:
    """Registers that keep the next program out, where one more would be of use."""
    resources, work = evidence.lowered.resources, evidence.work
    held = resources.programs_per_sm
    if resources.limit != "registers" or not held:
        return
    enough = registers_for(held + 1, resources.num_warps)
    waiting = evidence.programs / evidence.gpu.multiprocessors > held
    mended = None
    if work is None:
        if (resources.occupancy or 0) > LOW_OCCUPANCY:
            return
    else:
        mended = replace(work, slots=held + 1)
        if work.us / mended.us < LEAST_GAIN:
            return
    if not waiting or not enough:
        return
    yield Finding(
        cause="occupancy",
        what=(
            f"{resources.registers} registers per thread let a multiprocessor hold {held} "
            f"program{'s' if held > 1 else ''}; at {enough} it would hold {held + 1}"
        ),
        why=(
            f"only {resources.occupancy:.0%} of its warps are there, and while all of them wait "
            "for loads nothing else is done."
        ),
        change=_with_registers(evidence, enough),
        mended=mended,
    )


def _with_registers(evidence: Evidence, enough: int) -> str:
    """What to do for so many registers per thread; maxnreg where nothing more spills with it."""
    change = "take smaller blocks, or more warps for the same blocks"
    request, spilled = evidence.lowered.request, evidence.lowered.resources.spill_bytes
    if request is not None and evidence.target.nvidia:
        lowered = recompiled(evidence.lowered, request.with_options(maxnreg=enough))
        if lowered is not None and lowered.resources.spill_bytes <= spilled:
            more = "more " if spilled else ""
            return f"{change}, or maxnreg={enough}, with which nothing {more}spills."
    return f"{change}."


def registers_for(programs: int, num_warps: int) -> int:
    """The most registers per thread at which so many programs fit; 0 if none do."""
    warps = -(-programs * num_warps // SM_PARTITIONS)
    per_warp = SM_REGISTERS // SM_PARTITIONS // warps // REGISTER_UNIT * REGISTER_UNIT
    return per_warp // 32
