"""The same elements several times in one block that a program loads."""

from collections.abc import Iterator
from dataclasses import replace

from course.lowering.memory_requests import SECTOR_BYTES
from course.tracing.records import AccessCounts

from ..evidence import Evidence
from ..result import Finding
from ..time_model import Work

SEVERAL = 2.0
"""How often a block asks for each of its sectors, from which on it is named."""


def repeated(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """Loads of blocks that hold rows more than once, as `(rows // 8)[:, None]` does.

    A gather is left out: what its places are is a matter of the data.
    """
    for access in evidence.accesses:
        times = _times(access)
        if times >= SEVERAL and not evidence.is_gather(access):
            yield _finding(evidence, work, access, times)


def _finding(evidence: Evidence, work: Work, access: AccessCounts, times: float) -> Finding:
    saved = 1 - 1 / times
    line = access.file, access.line
    instructions = evidence.instructions_without(
        lambda run: run.instruction.accesses and run.line == line, saved
    )
    less = work.less(l1_sectors=saved * access.sectors, requests=saved * access.requests)
    return Finding(
        "repeats",
        f"load {evidence.tensor(access)}: a block of {access.block:,} elements asks for each of "
        f"its sectors {times:,.1f} times",
        "threads ask for what another thread of the same program asks for too.",
        "load each element once, in a block of its own shape, and repeat it in registers, by "
        "broadcasting (x[:, None, :]) and tl.reshape.",
        mended=replace(less, instructions=instructions),
        place=evidence.place(access),
    )


def _times(access: AccessCounts) -> float:
    """How often the requests of one execution ask for the same bytes.

    Lanes of one request that do so are served together, and cost nothing.
    """
    if access.kind != "load" or access.block < 2 or not access.touched:
        return 0
    return min(access.bytes / (access.touched * SECTOR_BYTES), access.sectors / access.touched)
