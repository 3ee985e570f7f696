"""Sectors asked for over sectors needed, by line."""

from collections.abc import Iterator
from dataclasses import replace

from course.tracing.records import AccessCounts

from ..evidence import Evidence, l2_sectors, sectors_of
from ..result import Finding

WASTEFUL = 1.2
"""Sectors over the least from which on a line is named."""
SCATTERED = 1.5
"""Sectors of a whole block over the least from which on its addresses lie apart."""


def wasted(evidence: Evidence) -> Iterator[Finding]:
    """A line whose warps ask for more sectors than the bytes that it moves take."""
    for access in evidence.accesses:
        if access.by_descriptor or not access.least or not access.bytes:
            continue
        needed = max(sectors_of(access.bytes), access.executions)
        if access.touched >= SCATTERED * needed:
            yield _scattered(evidence, access, needed)


def _scattered(evidence: Evidence, access: AccessCounts, needed: int) -> Finding:
    scale, work = evidence.scale, evidence.work
    assert work is not None
    sectors = max(access.sectors, access.touched)
    tensor = evidence.tensor(access)
    apart = [(each.touched - sectors_of(each.bytes)) for each in evidence.accesses]
    share = (access.touched - needed) / max(1, sum(number for number in apart if number > 0))
    mended = replace(
        work,
        l1_sectors=work.l1_sectors - (sectors - needed) * scale,
        l2_sectors=work.l2_sectors - (l2_sectors(access) - needed) * scale,
        memory_sectors=work.memory_sectors - min(1, share) * evidence.unused_sectors,
    )
    return Finding(
        cause="sectors",
        what=(
            f"{access.kind} {tensor}: {round(sectors * scale):,} sectors asked for, "
            f"{round(needed * scale):,} needed, {sectors / needed:.1f} times as many"
        ),
        why="neighbors in the block lie apart in memory, so each sector of 32 bytes serves few.",
        change=(
            "let the last index of the block go along the axis whose stride is 1, or store the "
            "tensor so that what is read together lies together."
        ),
        mended=mended,
        line=access.line,
        text=evidence.text(access.file, access.line),
    )
