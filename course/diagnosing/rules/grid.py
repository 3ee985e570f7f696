"""Programs: too few, a last wave that leaves multiprocessors idle, or so many that each is tiny."""

import math
from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import WIDEST_BYTES
from course.gpus.throughput import OTHER
from course.lowering.memory_requests import requests_of

from ..evidence import Evidence
from ..result import LEAST_GAIN, Finding
from ..time_model import Work

LARGER = 8
"""How many programs are joined in one, for the estimate of what larger ones would gain."""
SMALL_BYTES = 8192
"""Bytes that a program moves below which it is small."""
MANY_WAVES = 4
LARGER_PROGRAMS = "larger blocks, or several blocks or rows for each program, or fewer warps."


def too_few(evidence: Evidence) -> Iterator[Finding]:
    """Fewer programs than multiprocessors."""
    programs, multiprocessors = evidence.programs, evidence.gpu.multiprocessors
    if programs >= multiprocessors:
        return
    work, mended = evidence.work, None
    if work is not None:
        share = programs / multiprocessors
        mended = replace(work, programs=multiprocessors, rounds=max(1, work.rounds * share))
    idle = multiprocessors - programs
    yield Finding(
        cause="few programs",
        what=(
            f"{programs:,} program{'s' if programs > 1 else ''} for {multiprocessors} "
            f"multiprocessors: {idle} stand{'s' if idle == 1 else ''} idle"
        ),
        why="a program runs on one multiprocessor, however much it has to do.",
        change=(
            "smaller blocks, or split the loop of a program over several programs (split-K, or a "
            "second kernel that joins their results)."
        ),
        mended=mended,
    )


def ragged(evidence: Evidence) -> Iterator[Finding]:
    """A last wave with few programs, while the other multiprocessors have nothing left to do."""
    work = evidence.work
    if work is None or evidence.programs <= evidence.gpu.multiprocessors:
        return
    mended = replace(work, even=True)
    if work.us / mended.us < LEAST_GAIN:
        return
    room = evidence.gpu.multiprocessors
    if work.longest[0] == "waiting for loads":
        room *= evidence.slots
    waves, last = divmod(evidence.programs, room)
    if not last:
        return
    yield Finding(
        cause="last wave",
        what=(
            f"{evidence.programs:,} programs are {waves} full round{'s' if waves > 1 else ''} of "
            f"{room:,} and one of {last:,}"
        ),
        why="the last round takes as long as a full one, and leaves the others idle.",
        change=(
            f"blocks of another size, for a grid just below a multiple of {room:,}, or a fixed "
            "number of programs that take tiles in turn."
        ),
        mended=mended,
    )


def uneven(evidence: Evidence) -> Iterator[Finding]:
    """A few programs that run a loop much more often than the others, which end long before."""
    work = evidence.work
    if work is None or not evidence.uneven:
        return
    mended = replace(work, longest_rounds=0)
    if work.us / mended.us < LEAST_GAIN:
        return
    worst = max(evidence.uneven, key=lambda each: each.rounds * each.most)
    often = int((2 * worst.each >= worst.most).sum())
    line = worst.loop.line
    yield Finding(
        cause="uneven programs",
        what=(
            f"a program runs this loop {worst.most:,} times, and {worst.average:,.1f} times is the "
            f"average of all {evidence.programs:,}"
        ),
        why=(
            f"a program runs on one multiprocessor: {often:,} "
            f"{'runs' if often == 1 else 'run'} it at least half as often as that, and wait"
            f"{'s' if often == 1 else ''} for loads in each iteration after the others have ended."
        ),
        change=(
            "cut what is long into pieces of one length, a program for each, whose results are "
            'joined by tl.atomic_add(…, sem="relaxed") or by a second kernel.'
        ),
        mended=mended,
        line=line.number if line else 0,
        text=line.text.strip() if line else "",
    )


def too_small(evidence: Evidence) -> Iterator[Finding]:
    """Programs that move so little that starting them and waiting once takes longest."""
    work = evidence.work
    if work is None:
        yield from _small_as_compiled(evidence)
        return
    if work.waves < MANY_WAVES or work.rounds >= MANY_WAVES:
        return
    moved = sum(access.bytes for access in evidence.accesses) / evidence.programs
    mended = replace(
        work,
        programs=math.ceil(work.programs / LARGER),
        requests=work.requests - _requests_saved(evidence),
        instructions=_instructions_of_larger(evidence, work),
    )
    if moved > SMALL_BYTES or work.us / mended.us < LEAST_GAIN:
        return
    yield Finding(
        cause="small programs",
        what=f"{evidence.programs:,} programs, each of which moves {round(moved):,} bytes",
        why=_why_small(evidence, work),
        change=LARGER_PROGRAMS,
        mended=mended,
    )


def _small_as_compiled(evidence: Evidence) -> Iterator[Finding]:
    """The same where the launch was not followed, of a kernel without a loop: its blocks tell."""
    moved = sum(math.prod(each.shape) * each.itemsize for each in requests_of(evidence.lowered))
    at_once = evidence.slots * evidence.gpu.multiprocessors
    if evidence.loops or evidence.programs < 2 * at_once or not 0 < moved <= SMALL_BYTES:
        return
    yield Finding(
        cause="small programs",
        what=f"{evidence.programs:,} programs, each of which moves {moved:,} bytes at most",
        why="starting a program and waiting for its loads once takes longer than what it moves.",
        change=LARGER_PROGRAMS,
    )


def _why_small(evidence: Evidence, work: Work) -> str:
    """What small programs spend their time on, as a sentence."""
    reasons = []
    if work.longest[0] in ("starting programs", "waiting for loads"):
        reasons.append(
            "starting a program and waiting for its loads once takes longer than what it moves"
        )
    largest = max((access.block for access in evidence.accesses), default=0)
    if largest < evidence.threads:
        reasons.append(
            f"its blocks have {largest:,} elements for {evidence.threads:,} threads, so that "
            "threads ask for what others ask for too"
        )
    return "; and ".join(reasons or ["a thread moves less than one instruction could"]) + "."


def _instructions_of_larger(evidence: Evidence, work: Work) -> dict[str, float]:
    """The launch's instructions in larger programs: what begins and ends a program is run less
    often, and threads that had no element of their own get one."""
    largest = max((access.block for access in evidence.accesses), default=0)
    share = largest / evidence.threads
    left = max(1, LARGER * share) / max(1, share) / LARGER
    return {
        unit: count * (1 / LARGER if unit == OTHER else left)
        for unit, count in work.instructions.items()
    }


def _requests_saved(evidence: Evidence) -> float:
    """The instructions that larger blocks save by being as wide as they can be."""
    saved = 0.0
    for access in evidence.accesses:
        if access.by_descriptor or not access.bytes_per_thread:
            continue
        share = access.block * access.itemsize / evidence.threads
        if access.bytes_per_thread < share:
            continue  # the block's size is not what keeps it narrow
        times = min(LARGER, max(1, WIDEST_BYTES / share))
        saved += access.requests * (1 - 1 / times)
    return saved
