"""Sectors asked for over sectors needed, by line."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import LINE_SECTORS, WIDEST_BYTES
from course.tracing.records import AccessCounts

from ..evidence import Evidence, l2_sectors, sectors_of
from ..result import Finding
from ..time_model import Work
from .atomics import ADD_UP_GATHERED, SEVERAL_REQUESTS
from .widths import is_narrow

WASTEFUL = 1.2
"""Sectors over the least from which on a line is named."""
APART = 1.5
"""Sectors of a whole block over the least from which on its addresses lie apart."""
ONE_OF_TWO = 2.2
"""Sectors of a whole block over the least up to which it may take one element of each pair."""

MISALIGNED = (
    "what a warp asks for lies together but begins in the middle of a sector of 32 bytes, so that "
    "it ends in the middle of one more.",
    "align the tensor, or pad its rows: let it begin at a multiple of 32 bytes, as views such as "
    "x[1:] do not, and let each row be a multiple of 32 bytes long.",
)
"""Why a line asks for more sectors than it needs, and the change to try."""
LYING_APART = (
    "neighbors in the block lie apart in memory, so that each sector of 32 bytes serves few of "
    "them."
)
APART_CHANGE = (
    "let the last index of the block go along the axis whose stride is 1, or store the tensor so "
    "that what is read together lies together."
)
MOVE_PAIRS = (
    "where these are one of each pair of neighbors, move both in one block, and take them apart by "
    "tl.split or put them together by tl.join; or store the tensor so that what is read together "
    "lies together."
)
NO_NEIGHBORS = (
    "the block lies together in memory, but the threads of one warp do not get neighbors of it.",
    "swap the axes of the block, load it along the axis whose stride is 1 and use tl.trans, or "
    "pass that stride as a constant so that the compiler sees it.",
)


def wasted(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """Lines whose warps ask for more sectors than the bytes that they move take."""
    for access in evidence.accesses:
        if access.by_descriptor or access.by_sign or access.block < 2 or not access.bytes:
            continue
        needed = _needed(evidence, access)
        sectors = max(access.sectors, access.touched)
        if reason := _reason(evidence, access, needed):
            yield Finding(
                "sectors",
                f"{access.kind} {evidence.tensor(access)}: {sectors:,} sectors asked for, "
                f"{needed:,} needed, {sectors / needed:.1f} times as many",
                *reason,
                mended=_mended(evidence, work, access, needed),
                place=evidence.place(access),
                always=True,
            )


def _needed(evidence: Evidence, access: AccessCounts) -> int:
    """The sectors that an access would ask for once it is mended: where it is only misaligned,
    each request goes on to ask for its own."""
    misaligned = not evidence.is_gather(access) and is_misaligned(evidence, access)
    return access.aligned if misaligned else access.needed


def _reason(evidence: Evidence, access: AccessCounts, needed: int) -> tuple[str, str] | None:
    """Why an access asks for more sectors than it needs, and the change to try; None if it does
    not."""
    wasteful = access.sectors >= WASTEFUL * access.least
    if evidence.is_gather(access):
        # What lies together by chance would be no better with other code.
        apart = access.touched >= APART * needed or (wasteful and access.kind == "update")
        requests = evidence.contended.get(evidence.tensor(access), 0)
        queued = access.kind == "update" and requests >= SEVERAL_REQUESTS  # a cause of its own
        return _of_gather(evidence, access) if apart and not queued else None
    if is_misaligned(evidence, access):
        return MISALIGNED
    if access.touched >= APART * needed:
        pairs = access.touched / needed < ONE_OF_TWO
        return LYING_APART, MOVE_PAIRS if pairs else APART_CHANGE
    if (
        wasteful
        # Lanes of one request that ask for the same are served by the same sector.
        and access.sectors > sectors_of(access.bytes)
        # Of what a thread takes by several instructions as wide as can be, each skips the rest.
        and 0 < access.bytes_per_thread < WIDEST_BYTES
        and not is_narrow(evidence, access)
    ):
        return NO_NEIGHBORS
    return None


def _of_gather(evidence: Evidence, access: AccessCounts) -> tuple[str, str]:
    """Why an access to places that were loaded asks for many sectors, and the change to try."""
    calls = evidence.gathers[access.call, access.kind]
    lines = sorted({each.line for each in evidence.accesses if each.call in calls})
    where = f"line{'s' if len(lines) > 1 else ''} {' and '.join(map(str, lines))}"
    why = f"the places are those that {where} loaded"
    if access.kind == "update":
        return f"{why}, so that a program updates one place again and again.", ADD_UP_GATHERED
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


def _mended(evidence: Evidence, work: Work, access: AccessCounts, needed: int) -> Work:
    """The launch's work once an access asks for no more sectors than it needs."""
    apart = [each.touched - each.needed for each in evidence.accesses]
    # A single element is needed by every warp, and lies nowhere apart.
    share = (access.touched - access.needed) / max(1, sum(each for each in apart if each > 0))
    lines = -(-needed // LINE_SECTORS)
    once = replace(access, sectors=needed, touched=access.needed, lines=lines)
    return work.less(
        l1_sectors=max(access.sectors, access.touched) - needed,
        l2_sectors=max(0, l2_sectors(access) - l2_sectors(once)),
        memory_sectors=min(1, share) * evidence.unused_sectors,
    )
