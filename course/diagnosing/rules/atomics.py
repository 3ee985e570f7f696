"""Atomics: what they wait for beside the addition itself."""

from collections.abc import Iterator
from dataclasses import replace

from ..evidence import Evidence
from ..executed import Run, lines_of
from ..result import Finding
from ..time_model import Work

SEVERAL_REQUESTS = 1000
"""Updates of a line, one after the other, from which on they are named: they take 10 us."""
ADD_UP = (
    "add up inside a program what goes to one place, over more rows before you update it; or let "
    "each program store its sums apart, and add these up in a second launch."
)
ADD_UP_GATHERED = (
    "add up inside the program what goes to one place, as tl.histogram does, and update each place "
    "once."
)
SEVERAL_FENCES = 2
"""Fences that one line gives each warp, from which on they are named."""


def fences(evidence: Evidence, work: Work, executed: list[Run]) -> Iterator[Finding]:
    """Updates of blocks that are fences too, each of which waits for the one before it.

    An atomic of one element is left out: a lock, or a counter that hands over data, needs the
    order.
    """
    updates = {
        (access.file, access.line): access
        for access in evidence.accesses
        if access.kind == "update" and access.block > 1
    }
    counts = lines_of(run for run in executed if run.instruction.fences and run.line in updates)
    counts = {line: count for line, count in counts.items() if count >= SEVERAL_FENCES}
    if not counts:
        return
    number = sum(counts.values())
    names = evidence.tensors(updates[line] for line in counts)
    yield Finding(
        "fences",
        f"update {names}: {number:,.0f} fences of each warp, one for each atomic",
        "an atomic acquires and releases unless it is told not to: it waits until all that was "
        "stored before it can be seen, and so for the atomic before it.",
        'sem="relaxed", where the atomics only add up and hand over nothing else that was stored: '
        "the end of the launch makes their results seen.",
        mended=work.less(fences=number),
        place=evidence.line(max(counts, key=lambda line: counts[line])),
    )


def contended(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """Updates that come to the same lines of memory, one after the other."""
    name, requests = max(evidence.contended.items(), key=lambda each: each[1], default=("", 0.0))
    if requests < SEVERAL_REQUESTS:
        return
    updates = [
        access
        for access in evidence.accesses
        if access.kind == "update" and evidence.tensor(access) == name
    ]
    gathered = any(map(evidence.is_gather, updates))
    is_hot = requests > evidence.evenly_contended[name]
    yield Finding(
        "contention",
        f"update {name}: warps ask {requests:,.0f} times for {'one' if is_hot else 'each'} "
        "line of 128 bytes",
        "updates of one line go one after the other, wherever they come from.",
        ADD_UP_GATHERED if gathered else ADD_UP,
        mended=replace(work, contended=0),
        place=evidence.place(max(updates, key=lambda access: access.lines)),
    )


def locks(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """A lock that so many programs wait for that they go one after the other."""
    if not evidence.locks:
        return
    lock = max(evidence.locks, key=lambda each: each.turns * each.trips)
    yield Finding(
        "locks",
        f"{lock.number:,} lock{'s' if lock.number > 1 else ''} in {evidence.tensor(lock.access)}, "
        f"taken {lock.turns:,.0f} times each, by one program after the other",
        f"while one program holds a lock, it makes {lock.trips:,.0f} trips to the L2 cache, and "
        "those that want the same lock stand and wait.",
        "let a program add up all its rows before it takes the lock once; or more locks, each with "
        'a sum of its own; or no lock, but tl.atomic_add(…, sem="relaxed").',
        mended=replace(work, lock_trips=0),
        place=evidence.place(lock.access),
    )
