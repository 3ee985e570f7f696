"""Programs: too few, a last wave that leaves multiprocessors idle, or so many that each is tiny."""

import math
from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import WIDEST_BYTES
from course.gpus.throughput import OTHER
from course.lowering.memory_requests import requests_of

from ..evidence import Evidence
from ..result import Finding
from ..time_model import Work

LARGER = 8
"""How many programs are joined in one, for the estimate of what larger ones would gain."""
SMALL_BYTES = 8192
"""Bytes that a program moves below which it is small."""
MANY_WAVES = 4
LARGER_PROGRAMS = "larger blocks, or several blocks or rows for each program, or fewer warps."
MOSTLY_STARTING = (
    "starting a program and waiting for its loads once takes longer than what it moves"
)


def too_few(evidence: Evidence) -> Iterator[Finding]:
    """Fewer programs than multiprocessors."""
    programs, multiprocessors = evidence.programs, evidence.gpu.multiprocessors
    if programs >= multiprocessors:
        return
    work, mended = evidence.work, None
    if work is not None:
        rounds = max(1, work.rounds * programs / multiprocessors)
        mended = replace(work, programs=multiprocessors, rounds=rounds)
    idle = multiprocessors - programs
    yield Finding(
        "few programs",
        f"{programs:,} program{'s' if programs > 1 else ''} for {multiprocessors} "
        f"multiprocessors: {idle} stand{'s' if idle == 1 else ''} idle",
        "a program runs on one multiprocessor, however much it has to do.",
        "smaller blocks, or split the loop of a program over several programs (split-K, or a "
        "second kernel that joins their results).",
        mended=mended,
        always=True,
        certain=2 * programs <= multiprocessors,
    )


def ragged(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """A last wave with few programs, while the other multiprocessors have nothing left to do."""
    room = evidence.gpu.multiprocessors
    if evidence.programs <= room:
        return
    if work.longest[0] == "waiting for loads":
        room *= evidence.slots
    waves, last = divmod(evidence.programs, room)
    if not last:
        return
    yield Finding(
        "last wave",
        f"{evidence.programs:,} programs are {waves} full round{'s' if waves > 1 else ''} of "
        f"{room:,} and one of {last:,}",
        "the last round takes as long as a full one, and leaves the others idle.",
        f"blocks of another size, for a grid just below a multiple of {room:,}, or a fixed number "
        "of programs that take tiles in turn.",
        mended=replace(work, even=True),
    )


def uneven(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """A few programs that run a loop much more often than the others, which end long before."""
    if not evidence.uneven:
        return
    worst = max(evidence.uneven, key=lambda each: each.rounds * each.most)
    often = int((2 * worst.each >= worst.most).sum())
    they_run, they_wait = ("runs", "waits") if often == 1 else ("run", "wait")
    yield Finding(
        "uneven programs",
        f"a program runs this loop {worst.most:,} times, and {worst.average:,.1f} times is the "
        f"average of all {evidence.programs:,}",
        f"a program runs on one multiprocessor: {often:,} {they_run} it at least half as often as "
        f"that, and {they_wait} for loads in each iteration after the others have ended.",
        "cut what is long into pieces of one length, a program for each, whose results are joined "
        'by tl.atomic_add(…, sem="relaxed") or by a second kernel.',
        mended=replace(work, longest_rounds=0),
        place=worst.loop.line,
    )


def too_small(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """Programs that move so little that starting them and waiting once takes longest."""
    moved = sum(access.bytes for access in evidence.accesses) / evidence.programs
    if work.waves < MANY_WAVES or work.rounds >= MANY_WAVES or moved > SMALL_BYTES:
        return
    requests_saved = _requests_saved(evidence)
    reasons = _why_small(evidence, work, requests_saved)
    if not reasons:
        return
    mended = replace(
        work,
        programs=math.ceil(work.programs / LARGER),
        requests=work.requests - requests_saved,
        instructions=_instructions_of_larger(evidence, work),
    )
    yield Finding(
        "small programs",
        f"{evidence.programs:,} programs, each of which moves {round(moved):,} bytes",
        f"{'; and '.join(reasons)}.",
        LARGER_PROGRAMS,
        mended=mended,
    )


def small_as_compiled(evidence: Evidence) -> Iterator[Finding]:
    """The same where the launch was not followed, for a kernel without a loop: its blocks tell."""
    if evidence.counts is not None or evidence.loops:
        return
    moved = sum(math.prod(each.shape) * each.itemsize for each in requests_of(evidence.lowered))
    at_once = evidence.slots * evidence.gpu.multiprocessors
    if evidence.programs >= 2 * at_once and 0 < moved <= SMALL_BYTES:
        yield Finding(
            "small programs",
            f"{evidence.programs:,} programs, each of which moves {moved:,} bytes at most",
            f"{MOSTLY_STARTING}.",
            LARGER_PROGRAMS,
        )


def _largest_block(evidence: Evidence) -> int:
    """The elements of the largest block that a call moves."""
    return max((access.block for access in evidence.accesses), default=0)


def _why_small(evidence: Evidence, work: Work, requests_saved: float) -> list[str]:
    """What small programs spend their time on, in words; empty where larger ones would do the
    same."""
    reasons = []
    if work.longest[0] in ("starting programs", "waiting for loads"):
        reasons.append(MOSTLY_STARTING)
    if (largest := _largest_block(evidence)) < evidence.threads:
        reasons.append(
            f"its blocks have {largest:,} elements for {evidence.threads:,} threads, so that "
            "threads ask for what others ask for too"
        )
    if not reasons and requests_saved:
        reasons.append("a thread moves less than one instruction could")
    return reasons


def _instructions_of_larger(evidence: Evidence, work: Work) -> dict[str, float]:
    """The launch's instructions in larger programs: what begins and ends a program is run less
    often, and threads that had no element of their own get one."""
    share = _largest_block(evidence) / evidence.threads
    left = max(1, LARGER * share) / max(1, share) / LARGER
    return {
        unit: count * (1 / LARGER if unit == OTHER else left)
        for unit, count in work.instructions.items()
    }


def _requests_saved(evidence: Evidence) -> float:
    """The instructions that larger blocks save by being as wide as they can be."""
    saved = 0.0
    for access in evidence.accesses:
        share = access.block * access.itemsize / evidence.threads
        # Else the block's size is not what keeps it narrow.
        if not access.by_descriptor and 0 < share <= access.bytes_per_thread:
            times = min(LARGER, max(1, WIDEST_BYTES / share))
            saved += access.requests * (1 - 1 / times)
    return saved
