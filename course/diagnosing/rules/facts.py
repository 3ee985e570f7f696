"""What is worth knowing of a launch and claims no gain: each a sentence."""

import math
from collections import defaultdict
from collections.abc import Iterator

from course.gpus.limits import WIDEST_BYTES
from course.lowering.memory_requests import requests_of
from course.tracing.records import AccessCounts
from course.type_names import with_article

from ..evidence import Evidence
from ..shared_memory import conflicts_of
from .atomics import contended
from .instructions import float64 as by_accident

OFTEN = 2.0
"""Sectors that blocks ask for, for each that memory moves, from which on it is told."""
MANY_UPDATES = 16
"""Atomics to one element, on average over a tensor, from which on they are told."""
SHORT_US = 10
"""Below this a launch takes the CPU longer than the GPU."""
MASKED = 0.25
"""The part of lanes that a mask keeps out from which on it is told."""


def divisions(evidence: Evidence) -> Iterator[str]:
    """Integer divisions in a loop, which take tens of instructions each."""
    for line in dict.fromkeys(line for loop in evidence.loops for line in loop.divisions):
        yield (
            f"line {line.number} divides integers, or takes a remainder, inside a loop: "
            f"{line.text.strip()}"
        )


def float64(evidence: Evidence) -> Iterator[str]:
    """Arithmetic in float64, unless a rule has named it as a cause."""
    work = evidence.work
    if work and (count := work.simple.get("fp64")):
        times = evidence.gpu.vector_rate("fp32") / evidence.gpu.vector_rate("fp64")
        if not any(by_accident(evidence, work, evidence.executed)):
            yield (
                f"{round(count):,} operations are in float64, which is {times:.0f} times slower "
                f"than float32 on {evidence.gpu.name}."
            )


def l2(evidence: Evidence) -> Iterator[str]:
    """How often a sector is asked for, by one program or by several, for once that memory moves
    it."""

    def asked(access: AccessCounts) -> int:
        return min(access.touched, access.sectors)

    moved = evidence.work.memory_sectors if evidence.work else 0
    if moved and (times := sum(map(asked, evidence.accesses)) / moved) >= OFTEN:
        yield (
            f"each sector that memory moves once is asked of L1 or L2 {times:.1f} times, most "
            f"often in line {max(evidence.accesses, key=asked).line}."
        )


def masked(evidence: Evidence) -> Iterator[str]:
    """Lanes that a mask keeps out, once for all accesses of which it keeps out as many."""
    places: dict[str, list[str]] = defaultdict(list)
    for access in evidence.accesses:
        lanes = access.masked + access.bytes // max(1, access.itemsize)
        if lanes and access.masked / lanes >= MASKED:
            place = f"line {access.line} ({access.kind} {evidence.tensor(access)})"
            places[f"{access.masked / lanes:.0%}"].append(place)
    for part, lines in places.items():
        yield f"the mask keeps {part} of the lanes out: {', '.join(dict.fromkeys(lines))}."


def by_sign(evidence: Evidence) -> Iterator[str]:
    """Floating-point maxima and minima, each of which is two atomics."""
    for access in evidence.accesses:
        if access.by_sign:
            yield (
                f"line {access.line} (update {evidence.tensor(access)}) is two atomics for each "
                "block: one of the numbers below 0, and one of the others."
            )


def updates(evidence: Evidence) -> Iterator[str]:
    """Atomics that go to each element many times, unless a rule has named them as a cause."""
    if evidence.work and any(contended(evidence, evidence.work)):
        return
    for access in evidence.accesses:
        tensor = evidence.argument(access)
        if access.kind != "update" or tensor is None:
            continue
        if (times := access.bytes / (tensor.numel() * tensor.element_size())) >= MANY_UPDATES:
            yield (
                f"line {access.line} updates each element of {evidence.tensor(access)} "
                f"{times:,.0f} times: let a program add up more before it does."
            )


def widths(evidence: Evidence) -> Iterator[str]:
    """Accesses that are narrower than what a thread holds of their block, where nothing is known of
    their addresses."""
    for each in requests_of(evidence.lowered) if evidence.counts is None else ():
        held = math.prod(each.shape) * each.itemsize // evidence.threads
        possible = min(WIDEST_BYTES, held)
        if each.bytes_per_thread and possible >= 2 * each.bytes_per_thread:
            yield (
                f"line {each.path[0][1]}, {each.kind}: {each.bytes_per_thread} bytes of a thread "
                f"in one instruction, {possible} possible if what it holds lies together."
            )


def banks(evidence: Evidence) -> Iterator[str]:
    """Bank conflicts of shared memory."""
    for conflict in conflicts_of(evidence.lowered):
        how = "loads from" if conflict.kind == "load" else "stores to"
        ways = with_article(f"{conflict.cycles}-way")
        yield (
            f"line {conflict.line.number} {how} shared memory in {conflict.cycles} cycles for each "
            f"request of a warp where 1 would do, {ways} bank conflict: "
            f"{conflict.line.text.strip()}"
        )


def launch(evidence: Evidence) -> Iterator[str]:
    """A launch that is shorter than what it takes the CPU to start it."""
    if evidence.work is not None and evidence.work.us < SHORT_US:
        yield "it is so short that launching it takes the CPU longer: join launches where you can."
