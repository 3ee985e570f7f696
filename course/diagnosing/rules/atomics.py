"""Atomics: what they wait for beside the addition itself."""

from collections.abc import Iterator
from dataclasses import replace

from ..evidence import Evidence
from ..result import LEAST_GAIN, Finding

SEVERAL_FENCES = 2
"""Fences that one line gives each warp, from which on they are named."""


def fences(evidence: Evidence) -> Iterator[Finding]:
    """Updates of blocks that are fences too, each of which waits for the one before it.

    An atomic of one element is left out: a lock, or a counter that hands over data, needs the
    order.
    """
    work, executed = evidence.work, evidence.executed
    if work is None or executed is None:
        return
    updates = {
        (access.file, access.line): access
        for access in evidence.accesses
        if access.kind == "update" and access.block > 1
    }
    counts = {line: executed.fences([line]) for line in updates}
    counts = {line: count for line, count in counts.items() if count >= SEVERAL_FENCES}
    if not counts:
        return
    mended = replace(work, fences=work.fences - sum(counts.values()))
    if work.us / mended.us < LEAST_GAIN:
        return
    line = max(counts, key=lambda each: counts[each])
    names = " and ".join(dict.fromkeys(evidence.tensor(updates[each]) for each in counts))
    yield Finding(
        cause="fences",
        what=(
            f"update {names}: {sum(counts.values()):,.0f} fences of each warp, one for each atomic"
        ),
        why=(
            "an atomic acquires and releases unless it is told not to: it waits until all that "
            "was stored before it can be seen, and so for the atomic before it."
        ),
        change=(
            'sem="relaxed", where the atomics only add up and hand over nothing else that was '
            "stored: the end of the launch makes their results seen."
        ),
        mended=mended,
        line=line[1],
        text=evidence.text(*line),
    )


def locks(evidence: Evidence) -> Iterator[Finding]:
    """A lock that so many programs wait for that they go one after the other."""
    work = evidence.work
    if work is None or not evidence.locks:
        return
    mended = replace(work, lock_trips=0)
    if work.us / mended.us < LEAST_GAIN:
        return
    lock = max(evidence.locks, key=lambda each: each.turns * each.trips)
    access = lock.access
    yield Finding(
        cause="locks",
        what=(
            f"{lock.number:,} lock{'s' if lock.number > 1 else ''} in {evidence.tensor(access)}, "
            f"taken {lock.turns:,.0f} times each, by one program after the other"
        ),
        why=(
            f"while one program holds a lock, it makes {lock.trips:,.0f} trips to the L2 cache, "
            "and those that want the same lock stand and wait."
        ),
        change=(
            "let a program add up all its rows before it takes the lock once; or more locks, each "
            'with a sum of its own; or no lock, but tl.atomic_add(…, sem="relaxed").'
        ),
        mended=mended,
        line=access.line,
        text=evidence.text(access.file, access.line),
    )
