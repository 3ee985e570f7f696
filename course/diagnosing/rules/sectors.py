"""Sectors asked for over sectors needed, by line."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import WIDEST_BYTES
from course.tracing.records import AccessCounts

from ..evidence import LINE_SECTORS, Evidence, l2_sectors, sectors_of
from ..result import Finding
from .widths import is_narrow

WASTEFUL = 1.2
"""Sectors over the least from which on a line is named."""
APART = 1.5
"""Sectors of a whole block over the least from which on its addresses lie apart."""


ONE_OF_TWO = 2.2
"""Sectors of a whole block over the least up to which it may take one element of each pair."""
APART_CHANGE = (
    "let the last index of the block go along the axis whose stride is 1, or store the tensor so "
    "that what is read together lies together."
)
MOVE_PAIRS = (
    "where these are one of each pair of neighbors, move both in one block, and take them apart by "
    "tl.split or put them together by tl.join; or store the tensor so that what is read together "
    "lies together."
)


def wasted(evidence: Evidence) -> Iterator[Finding]:
    """Lines whose warps ask for more sectors than the bytes that they move take."""
    for access in evidence.accesses:
        if access.by_descriptor or access.block < 2 or not access.bytes:
            continue
        needed = max(sectors_of(access.bytes), access.executions)
        wasteful = access.sectors >= WASTEFUL * access.least
        if evidence.is_gather(access):
            # What lies together by chance would be no better with other code.
            if access.touched >= APART * needed or (wasteful and access.kind == "update"):
                yield _finding(evidence, access, needed, *_of_gather(evidence, access))
        elif is_misaligned(evidence, access):
            yield _finding(
                evidence,
                access,
                needed,
                "what a warp asks for lies together but begins in the middle of a sector of 32 "
                "bytes, so that it ends in the middle of one more.",
                "align the tensor, or pad its rows: let it begin at a multiple of 32 bytes, as "
                "views such as x[1:] do not, and let each row be a multiple of 32 bytes long.",
            )
        elif access.touched >= APART * needed:
            yield _finding(
                evidence,
                access,
                needed,
                "neighbors in the block lie apart in memory, so that each sector of 32 bytes "
                "serves few of them.",
                MOVE_PAIRS if access.touched / needed < ONE_OF_TWO else APART_CHANGE,
            )
        elif (
            wasteful
            # Lanes of one request that ask for the same are served by the same sector.
            and access.sectors > needed
            # Of what a thread takes by several instructions as wide as can be, each skips the rest.
            and 0 < access.bytes_per_thread < WIDEST_BYTES
            and not is_narrow(evidence, access)
        ):
            yield _finding(
                evidence,
                access,
                needed,
                "the block lies together in memory, but the threads of one warp do not get "
                "neighbors of it.",
                "swap the axes of the block, load it along the axis whose stride is 1 and "
                "use tl.trans, or pass that stride as a constant so that the compiler sees it.",
            )


def _of_gather(evidence: Evidence, access: AccessCounts) -> tuple[str, str]:
    """Why an access to places that were loaded asks for many sectors, and the change to try."""
    calls = evidence.gathers[access.call, access.kind]
    lines = sorted({each.line for each in evidence.accesses if each.call in calls})
    where = f"line{'s' if len(lines) > 1 else ''} {' and '.join(map(str, lines))}"
    why = f"the places are those that {where} loaded"
    if access.kind == "update":
        return f"{why}, so that a program updates one place again and again.", (
            "add up inside the program what goes to one place, as tl.histogram does, and update "
            "each place once."
        )
    return f"{why}, and they lie apart in memory.", (
        "sort the indices, or take whole rows by one index each, so that what is asked for "
        "together lies together; indices in any order cost this."
    )


def is_misaligned(evidence: Evidence, access: AccessCounts) -> bool:
    """Whether a line asks for more sectors only because of where in a sector its bytes begin."""
    return (
        access.bytes_per_thread > 0
        and access.sectors >= WASTEFUL * access.aligned
        and access.aligned < WASTEFUL * access.least
        and not is_narrow(evidence, access)
    )


def _finding(
    evidence: Evidence, access: AccessCounts, needed: int, why: str, change: str
) -> Finding:
    work = evidence.work
    assert work is not None
    sectors = max(access.sectors, access.touched)
    apart = [(each.touched - sectors_of(each.bytes)) for each in evidence.accesses]
    share = (access.touched - needed) / max(1, sum(number for number in apart if number > 0))
    once = replace(access, sectors=needed, touched=needed, lines=-(-needed // LINE_SECTORS))
    mended = replace(
        work,
        l1_sectors=work.l1_sectors - (sectors - needed),
        l2_sectors=work.l2_sectors - max(0, l2_sectors(access) - l2_sectors(once)),
        memory_sectors=work.memory_sectors - min(1, share) * evidence.unused_sectors,
    )
    return Finding(
        cause="sectors",
        what=(
            f"{access.kind} {evidence.tensor(access)}: {sectors:,} sectors asked "
            f"for, {needed:,} needed, {sectors / needed:.1f} times as many"
        ),
        why=why,
        change=change,
        mended=mended,
        line=access.line,
        text=evidence.text(access.file, access.line),
    )
