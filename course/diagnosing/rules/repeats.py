"""The same elements several times in one block that a program loads."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import SECTOR_BYTES
from course.lowering.locations import Frame
from course.tracing.records import AccessCounts

from ..evidence import Evidence
from ..result import LEAST_GAIN, Finding

SEVERAL = 2.0
"""How often a block asks for each of its sectors, from which on it is named."""


def repeated(evidence: Evidence) -> Iterator[Finding]:
    """Loads of blocks that hold rows more than once, as `(rows // 8)[:, None]` does.

    A gather is left out: what its places are is a matter of the data.
    """
    work = evidence.work
    if work is None:
        return
    for access in evidence.accesses:
        times = _times(access)
        if times < SEVERAL or evidence.is_gather(access):
            continue
        saved = 1 - 1 / times
        line = access.file, access.line
        mended = replace(
            work,
            l1_sectors=work.l1_sectors - saved * access.sectors,
            requests=work.requests - saved * access.requests,
            instructions=_instructions(evidence, line, 1 - 1 / times),
        )
        if work.us / mended.us < LEAST_GAIN:
            continue
        yield Finding(
            cause="repeats",
            what=(
                f"load {evidence.tensor(access)}: a block of {access.block:,} elements asks for "
                f"each of its sectors {times:,.1f} times"
            ),
            why="threads ask for what another thread of the same program asks for too.",
            change=(
                "load each element once, in a block of its own shape, and repeat it in registers, "
                "by broadcasting (x[:, None, :]) and tl.reshape."
            ),
            mended=mended,
            line=access.line,
            text=evidence.text(*line),
        )


def _times(access: AccessCounts) -> float:
    """How often the requests of one execution ask for the same bytes.

    Lanes of one request that do so are served together, and cost nothing.
    """
    if access.kind != "load" or access.block < 2 or not access.touched:
        return 0
    return min(access.bytes / (access.touched * SECTOR_BYTES), access.sectors / access.touched)


def _instructions(evidence: Evidence, line: Frame, part: float) -> dict[str, float]:
    """The launch's instructions once a line has that part of its loads no more."""
    executed, work = evidence.executed, evidence.work
    assert work is not None
    if executed is None:
        return work.instructions
    return evidence.instructions_without(
        lambda each, _: each.accesses and executed.line(each) == line, part
    )
