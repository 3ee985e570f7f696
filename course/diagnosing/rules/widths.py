"""Loads and stores that move fewer bytes of a thread than they could, and the argument to blame."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import WIDEST_BYTES
from course.lowering.call_sites import CallSite
from course.tracing.records import AccessCounts

from ..evidence import LINE_SECTORS, Evidence, l2_sectors
from ..result import Finding
from ..what_if import not_divisible, recompiled, widths, with_divisible

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
    together = access.together >= TOGETHER * access.bytes
    times = possible_bytes(evidence, access) / access.bytes_per_thread
    # In narrow pieces each lane skips what it loads next; if a warp asks for still more sectors,
    # its lanes are no neighbors, which a wider load would not mend.
    return together and times > 1 and access.sectors <= STRAY * times * access.least


def narrow(evidence: Evidence) -> Iterator[Finding]:
    """Accesses that are narrower than their type and their block allow."""
    accesses = [access for access in evidence.accesses if is_narrow(evidence, access)]
    if not accesses:
        return
    blamed: dict[tuple[str, ...], list[AccessCounts]] = {}
    trial = _Trial(evidence)
    for access in accesses:
        blamed.setdefault(trial.culprits(access), []).append(access)
    # A gather's places may lie together in these data, and nobody can promise that they always do.
    own = [access for access in blamed.pop((), []) if not evidence.is_gather(access)]
    if blamed:  # loads of one loop are wide together or not at all, so they are mended together
        names = dict.fromkeys(name for group in blamed for name in group)
        together = [access for group in blamed.values() for access in group]
        yield _finding(evidence, together, [(name, trial.suspects[name]) for name in names])
    seen = [access for access in own if access.begin_wide >= TOGETHER * access.together]
    if seen:
        yield _finding(evidence, seen, [], UNSEEN)
    if shifted := [access for access in own if access not in seen]:
        yield _finding(evidence, shifted, [], SHIFTED)


UNSEEN = (
    "the compiler cannot see from the offsets, or from the mask, that neighbors lie together, "
    "although they do.",
    "say what you know by tl.multiple_of and tl.max_contiguous on the offsets, or mask by whole "
    "groups of elements.",
)
"""Why an access is narrow that could be wide, and the change to try."""
SHIFTED = (
    "what lies together begins at no multiple of 16 bytes, as in a window that is shifted by one "
    "element, and a wide access begins there alone.",
    "let the shift go along another axis than the one along which neighbors lie, by storing the "
    "tensor the other way around, or pad what is before it.",
)
"""The same where no promise would be true."""


class _Trial:
    """Compiles the kernel as if arguments were divisible by 16, each set of them once."""

    def __init__(self, evidence: Evidence) -> None:
        self.suspects = not_divisible(evidence.lowered)
        self._lowered = evidence.lowered
        self._widths: dict[tuple[str, ...], dict[tuple[CallSite, str], int]] = {}

    def culprits(self, access: AccessCounts) -> tuple[str, ...]:
        """The fewest arguments with which an access is wider; none if all together do not help."""
        names = tuple(self.suspects)
        best = self._width(names, access)
        if best <= access.bytes_per_thread:
            return ()
        for name in names if len(names) <= MOST_TRIED else ():
            fewer = tuple(each for each in names if each != name)
            if self._width(fewer, access) >= best:
                names = fewer
        return names

    def _width(self, names: tuple[str, ...], access: AccessCounts) -> int:
        if not names:
            return access.bytes_per_thread
        if names not in self._widths:
            lowered = recompiled(self._lowered, with_divisible(self._lowered, [*names]))
            self._widths[names] = widths(lowered) if lowered else {}
        return self._widths[names].get((access.call, access.kind), 0)


def _finding(
    evidence: Evidence,
    accesses: list[AccessCounts],
    suspects: list[tuple[str, str]],
    without: tuple[str, str] = UNSEEN,
) -> Finding:
    """The finding for accesses that are mended together.

    suspects: the arguments to blame, each with its type. without: why and what to do if none is.
    """
    work = evidence.work
    assert work is not None
    first = max(accesses, key=lambda access: access.bytes)
    possible = possible_bytes(evidence, first)
    fewer_requests = fewer_sectors = fewer_l2 = 0.0
    for access in accesses:
        times = possible_bytes(evidence, access) / access.bytes_per_thread
        fewer_requests += access.requests * (1 - 1 / times)
        fewer_sectors += max(0, access.sectors - access.touched)
        wide = replace(access, lines=min(access.lines, -(-access.touched // LINE_SECTORS)))
        fewer_l2 += l2_sectors(access) - l2_sectors(wide)
    mended = replace(
        work,
        requests=work.requests - fewer_requests,
        l1_sectors=work.l1_sectors - fewer_sectors,
        l2_sectors=work.l2_sectors - fewer_l2,
        rounds=_rounds_once_wide(evidence, accesses),
    )
    calls = dict.fromkeys(f"{access.kind} {evidence.tensor(access)}" for access in accesses)
    names = " and ".join(name for name, _ in suspects)
    return Finding(
        cause="narrow",
        what=(
            f"{', '.join(calls)}: {first.bytes_per_thread} bytes of a thread in one instruction, "
            f"{possible} possible"
        ),
        why=(
            f"the compiler does not know that {names} {'is' if len(suspects) == 1 else 'are'} "
            "divisible by 16; compiled as if so, the accesses are wider."
            if suspects
            else without[0]
        ),
        change=_change(suspects) if suspects else without[1],
        mended=mended,
        line=first.line,
        text=evidence.text(first.file, first.line),
    )


def _change(suspects: list[tuple[str, str]]) -> str:
    pointers = [name for name, kind in suspects if kind.startswith("*")]
    numbers = [name for name, kind in suspects if not kind.startswith("*")]
    changes = []
    if pointers:
        changes.append(
            f"pass tensors for {' and '.join(pointers)} that begin at a multiple of 16 bytes, as "
            "views often do not"
        )
    if numbers:
        # A launch promises what is a multiple of 16, so what it does not promise is none.
        changes.append(f"make {' and '.join(numbers)} a multiple of 16 by padding the tensor")
    return "; ".join(changes) + "."


def _rounds_once_wide(evidence: Evidence, accesses: list[AccessCounts]) -> float:
    """The rounds of loads once these are wide enough for asynchronous copies."""
    sites = {access.call for access in accesses if access.bytes_per_thread < LEAST_COPIED}
    for loop in evidence.loops:
        stages = evidence.stages_of(loop)
        if sites & {*loop.plain} and stages > 2:
            return max(1, evidence.rounds / (stages - 1))
    return evidence.rounds
