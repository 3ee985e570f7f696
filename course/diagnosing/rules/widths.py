"""Loads and stores that move fewer bytes of a thread than they could, and the argument to blame."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from course.gpus.limits import LINE_SECTORS, SECTOR_BYTES, WIDEST_BYTES
from course.lowering.call_sites import CallSite
from course.lowering.result import Lowered
from course.tracing.records import AccessCounts

from ..evidence import Evidence, l2_sectors
from ..result import Finding
from ..time_model import Work
from ..what_if import not_divisible, widths, with_divisible

TOGETHER = 0.9
"""The part of a block's bytes that lie in runs of 16 or more from which on it could be wide."""
STRAY = 1.5
"""Sectors over those that narrow pieces explain, up to which the pieces are to blame."""
MOST_TRIED = 8
"""Arguments that are tried one by one; of more, all together."""
LEAST_COPIED = 4
"""Bytes that an asynchronous copy to shared memory moves for a thread at least."""


def possible_bytes(evidence: Evidence, access: AccessCounts) -> int:
    """The bytes of a thread that an instruction could move: 16, or the thread's share of a block.

    A power of two.
    """
    share = max(access.itemsize, access.block * access.itemsize // evidence.threads)
    return min(WIDEST_BYTES, 1 << (share.bit_length() - 1))


def is_narrow(evidence: Evidence, access: AccessCounts) -> bool:
    """Whether its block lies together in memory and is still moved in narrow pieces."""
    if access.by_descriptor or not access.bytes_per_thread or access.kind == "update":
        return False
    # What several lanes ask for alike lies there once.
    distinct_bytes = min(access.bytes, access.needed * SECTOR_BYTES)
    together = access.together >= TOGETHER * distinct_bytes
    times = possible_bytes(evidence, access) / access.bytes_per_thread
    # In narrow pieces each lane skips what it loads next; if a warp asks for still more sectors,
    # its lanes are no neighbors, which a wider load would not mend.
    return together and times > 1 and access.sectors <= STRAY * times * access.least


def narrow(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """Accesses that are narrower than their type and their block allow."""
    accesses = [access for access in evidence.accesses if is_narrow(evidence, access)]
    if not accesses:
        return
    suspects = not_divisible(evidence.lowered)
    culprits = _culprits(evidence.lowered, tuple(suspects))
    blamed: dict[tuple[str, ...], list[AccessCounts]] = {}
    for access in accesses:
        blamed.setdefault(culprits(access), []).append(access)
    # A gather's places may lie together in these data, and nobody can promise that they always do.
    # Where lanes ask for the same, neighbors of one thread may be the same too.
    own = [
        access
        for access in blamed.pop((), [])
        if not evidence.is_gather(access) and access.together >= TOGETHER * access.bytes
    ]
    if blamed:  # loads of one loop are wide together or not at all, so they are mended together
        kinds = {name: suspects[name] for names in blamed for name in names}
        together = [access for group in blamed.values() for access in group]
        yield _finding(evidence, work, together, _blaming(kinds))
    unseen = [access for access in own if access.begin_wide >= TOGETHER * access.together]
    shifted = [access for access in own if access not in unseen]
    not_wide = UNSEEN_BESIDE_DOT if evidence.dot_instruction else UNSEEN
    for group, reason in ((unseen, not_wide), (shifted, SHIFTED)):
        if group:
            yield _finding(evidence, work, group, reason)


UNSEEN = (
    "the compiler cannot see from the offsets, or from the mask, that neighbors lie together, "
    "although they do.",
    "say what you know by tl.multiple_of and tl.max_contiguous on the offsets, or mask by whole "
    "groups of elements.",
)
"""Why an access is narrow that could be wide, and the change to try."""
UNSEEN_BESIDE_DOT = (
    "either the compiler cannot see from the offsets, or from the mask, that neighbors lie "
    "together, although they do; or the layout that tl.dot wants has them in different threads.",
    f"{UNSEEN[1].removesuffix('.')}; where that changes nothing, let neighbors of an operand lie "
    "along the axis that tl.dot adds up, as operands of 8 and 32 bits must on Hopper.",
)
"""The same in a kernel with tl.dot, which may decide the layouts of what it is given."""
SHIFTED = (
    "what lies together begins at no multiple of 16 bytes, as in a window that is shifted by one "
    "element, and a wide access begins there alone.",
    "let the shift go along another axis than the one along which neighbors lie, by storing the "
    "tensor the other way around, or pad what is before it.",
)
"""The same where no promise would be true."""


def _culprits(
    lowered: Lowered, suspects: tuple[str, ...]
) -> Callable[[AccessCounts], tuple[str, ...]]:
    """What tells the fewest arguments with which an access is wider; none if all together do not
    help. For that the kernel is compiled as if arguments were divisible by 16, each set once."""

    @cache
    def widths_with(names: tuple[str, ...]) -> dict[tuple[CallSite, str], int]:
        wider = with_divisible(lowered, names)
        return widths(wider) if wider else {}

    def culprits(access: AccessCounts) -> tuple[str, ...]:
        def width(names: tuple[str, ...]) -> int:
            own = {(access.call, access.kind): access.bytes_per_thread}
            return (widths_with(names) if names else own).get((access.call, access.kind), 0)

        names, best = suspects, width(suspects)
        if best <= access.bytes_per_thread:
            return ()
        for name in suspects if len(suspects) <= MOST_TRIED else ():
            fewer = tuple(each for each in names if each != name)
            if width(fewer) >= best:
                names = fewer
        return names

    return culprits


def _finding(
    evidence: Evidence, work: Work, accesses: list[AccessCounts], reason: tuple[str, str]
) -> Finding:
    """The finding for accesses that are mended together.

    reason: why they are narrow, and the change to try.
    """
    first = max(accesses, key=lambda access: access.bytes)
    fewer_requests = fewer_sectors = fewer_l2 = 0.0
    for access in accesses:
        times = possible_bytes(evidence, access) / access.bytes_per_thread
        fewer_requests += access.requests * (1 - 1 / times)
        fewer_sectors += max(0, access.sectors - access.touched)
        wide = replace(access, lines=min(access.lines, -(-access.touched // LINE_SECTORS)))
        fewer_l2 += l2_sectors(access) - l2_sectors(wide)
    less = work.less(requests=fewer_requests, l1_sectors=fewer_sectors, l2_sectors=fewer_l2)
    calls = dict.fromkeys(f"{access.kind} {evidence.tensor(access)}" for access in accesses)
    return Finding(
        "narrow",
        f"{', '.join(calls)}: {first.bytes_per_thread} bytes of a thread in one instruction, "
        f"{possible_bytes(evidence, first)} possible",
        *reason,
        mended=replace(less, rounds=_rounds_once_wide(evidence, accesses)),
        place=evidence.place(first),
        always=True,
    )


def _blaming(kinds: dict[str, str]) -> tuple[str, str]:
    """Why accesses are narrow, and the change to try, where arguments are to blame.

    kinds: argument -> its type.
    """
    names = " and ".join(kinds)
    pointers = " and ".join(name for name, kind in kinds.items() if kind.startswith("*"))
    numbers = " and ".join(name for name, kind in kinds.items() if not kind.startswith("*"))
    changes = []
    if pointers:
        changes.append(
            f"pass tensors for {pointers} that begin at a multiple of 16 bytes, as views often do "
            "not"
        )
    if numbers:
        # A launch promises what is a multiple of 16, so a number without a promise is not one.
        changes.append(f"make {numbers} a multiple of 16 by padding the tensor")
    return (
        f"the compiler does not know that {names} {'is' if len(kinds) == 1 else 'are'} divisible "
        "by 16; compiled as if so, the accesses are wider.",
        "; ".join(changes) + ".",
    )


def _rounds_once_wide(evidence: Evidence, accesses: list[AccessCounts]) -> float:
    """The rounds of loads once these are wide enough for asynchronous copies."""
    sites = {access.call for access in accesses if access.bytes_per_thread < LEAST_COPIED}
    depths = [evidence.ahead(loop) for loop in evidence.loops if sites & {*loop.plain}]
    return max(1, evidence.rounds / max(depths, default=1))
