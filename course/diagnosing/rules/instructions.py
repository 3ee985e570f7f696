"""Instructions: more than can be issued while memory delivers, and what most of them are."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import torch

from course.gpus import throughput as unit
from course.lowering.locations import Frame

from ..evidence import Evidence
from ..executed import Run, lines_of, units_of
from ..result import Finding
from ..time_model import Work
from .tensor_cores import dots_of

KINDS = {
    unit.INTEGER: "integer arithmetic and logic",
    unit.MULTIPLY: "integer arithmetic and logic",
    unit.FLOAT32: "floating-point arithmetic",
    unit.FLOAT16: "floating-point arithmetic",
    unit.FLOAT64: "float64 arithmetic",
    unit.SPECIAL: "special functions",
    unit.CONVERSION: "conversions",
    unit.WIDE_CONVERSION: "conversions",
    unit.SHUFFLE: "shuffles",
    unit.SHARED: "accesses to shared memory",
}
CHANGES = {
    "float64 arithmetic": "compute in float32 what need not be float64.",
    "integer arithmetic and logic": (
        "compute once what does not change: offsets before the loop, divisions by constants or by "
        "shifts, masks for whole blocks; and let one result serve several elements."
    ),
    "floating-point arithmetic": (
        "compute less for each element: take what is the same for a row or a column out of the "
        "block, multiply by a reciprocal in place of dividing, and give sums of products to tl.dot."
    ),
    "special functions": (
        "compute what is the same for a row or a column once, take tl.exp2 of a scaled argument "
        "for tl.exp, and a shorter formula if its error is small enough."
    ),
    "conversions": "convert once, before the loop, or compute in the type that is stored.",
    "shuffles": "reduce less often: keep partial results in each lane.",
}
DRAWS = re.compile(r"\b(?:rand|randn|randint)\(")
ADVICE = (
    (
        DRAWS,
        "take all four numbers that one evaluation gives, by tl.rand4x or tl.randint4x on a "
        "quarter of the offsets: tl.rand computes four and keeps one.",
    ),
    (
        re.compile(r"\b(?:sin|cos)\("),
        "compute a sine or cosine once for all that share it, or load it from a table: most of "
        "what one takes is integer arithmetic that brings a large angle back into one turn.",
    ),
    (
        re.compile(r"\btopk\("),
        "take shorter rows, since each element takes part in more comparisons the longer they are, "
        "and what is first among them after that; or let torch.topk do long ones.",
    ),
    (
        re.compile(r"\bsort\("),
        "sort less: tl.topk where the first few are enough, and shorter rows, since each element "
        "takes part in more comparisons the longer they are; or let radix sort (torch.sort) do "
        "long ones.",
    ),
)
"""What a line that takes most instructions calls, and the change to try then."""
NO_DIVISION = (
    "no instruction divides: a function of some 80 divides 64 bits, and about 20 instructions "
    "divide 32."
)
NARROW_DIVISION = (
    "divide integers of 32 bits where the numbers fit, by .to(tl.int32) before the division; or "
    "let a grid of two or three axes give the places that the divisions find."
)
OF_DIVISION = 3 / 4
"""The part of the instructions for a division of 64 bits that one of 32 bits saves."""
OTHER_CHANGE = "compute less for each element, or larger blocks, for fewer instructions around it."
NUMBERS = 4
"""Random numbers that one evaluation of Philox gives, of which tl.rand keeps one."""


def many(evidence: Evidence, work: Work, executed: list[Run]) -> Iterator[Finding]:
    """Instructions that take longer to issue than anything else takes."""
    lines = lines_of(executed)
    if work.longest[0] != "instructions" or not lines:
        return
    line = max(lines, key=lambda each: lines[each])
    if line in _multiplied_one_by_one(evidence):
        return
    total = sum(units_of(executed).values())
    each = total * evidence.warps * unit.WARP / _elements(evidence)
    begins = f"{each:,.0f} instructions of a thread for each element, of which"
    divided = lines_of(run for run in executed if run.divides)
    if (divisions := sum(divided.values())) > lines[line] / 2:
        yield Finding(
            "instructions",
            f"{begins} {divisions / total:.0%} divide integers of 64 bits",
            NO_DIVISION,
            NARROW_DIVISION,
            mended=replace(
                work,
                instructions=evidence.instructions_without(lambda run: run.divides, OF_DIVISION),
            ),
            place=evidence.line(max(divided, key=lambda each: divided[each])),
        )
        return
    kinds: dict[str, float] = defaultdict(float)
    for run in executed:
        if run.line == line:
            kinds[_kind(run)] += run.times
    kind = max(kinds, key=lambda each: kinds[each])
    most = f", {kinds[kind] / total:.0%} for its {kind}" if kind in CHANGES else ""
    text = evidence.line(line).text
    advice = (advice for calls, advice in ADVICE if calls.search(text))
    yield Finding(
        "instructions",
        f"{begins} {lines[line] / total:.0%} come from one line{most}",
        _why_long(evidence, work),
        next(advice, CHANGES.get(kind, OTHER_CHANGE)),
        mended=replace(
            work,
            instructions=evidence.instructions_without(
                lambda run: run.line == line and _kind(run) == kind,
                1 - 1 / NUMBERS if DRAWS.search(text) else 1,
            ),
        ),
        place=evidence.line(line),
    )


def _why_long(evidence: Evidence, work: Work) -> str:
    """A sentence that says what the instructions of a launch wait for."""
    _, busiest = work.issue
    if busiest == "issue":
        return (
            "a multiprocessor issues four instructions of a warp in a clock, and all of them take "
            "longer than memory does."
        )
    results = unit.results_a_clock(busiest, work.gpu, evidence.target)
    return (
        f"the unit for {busiest} gives {results:.0f} results in a clock of a multiprocessor, and "
        "its instructions take longer than memory does."
    )


def _elements(evidence: Evidence) -> float:
    """Elements that the line moves which moves most of them; 1 at least."""
    moved = (access.bytes / max(1, access.itemsize) for access in evidence.accesses)
    return max(1, max(moved, default=0))


def _multiplied_one_by_one(evidence: Evidence) -> set[Frame]:
    """The lines of tl.dot, where another rule has said that no tensor core computes them."""
    if evidence.dot_instruction:
        return set()
    return {line.frame for line, _ in dots_of(evidence) if line}


def _kind(run: Run) -> str:
    return KINDS.get(run.instruction.unit, "other instructions")


def reductions(evidence: Evidence, work: Work, executed: list[Run]) -> Iterator[Finding]:
    """Reductions across the lanes and warps of a program in each iteration of a loop."""
    in_loops = [run for run in executed if run.in_loop]
    shuffles = [run for run in in_loops if run.line and run.instruction.unit == unit.SHUFFLE]
    if not shuffles:
        return
    lines = lines_of(shuffles)
    number, iterations = sum(lines.values()), max(run.times for run in shuffles)
    meetings = (run for run in in_loops if run.line in lines and run.instruction.operation == "BAR")
    barriers = sum(run.times for run in meetings)

    def across_lanes(run: Run) -> bool:
        instruction = run.instruction
        moves = instruction.unit in (unit.SHUFFLE, unit.SHARED) or instruction.operation == "BAR"
        return run.in_loop and moves and run.line in lines

    instructions = evidence.instructions_without(across_lanes)
    # Each shuffle is followed by one instruction that joins what it brought with what was there.
    joined = number * evidence.warps
    instructions[unit.FLOAT32] = max(0, instructions.get(unit.FLOAT32, 0) - joined)
    and_barriers = f" and {barriers / iterations:.0f} barriers" if barriers else ""
    yield Finding(
        "reductions",
        f"reductions in each of {iterations:,.0f} iterations: {round(number / iterations):,} "
        f"shuffles{and_barriers} of each of {evidence.lowered.resources.num_warps} warps",
        "to reduce a block, the lanes of a warp exchange values step by step, and "
        + (
            "its warps meet at barriers and exchange theirs through shared memory."
            if barriers
            else "those steps take longer than memory does."
        ),
        "keep partial results for each element of the block in the loop, and reduce them once "
        "after it; or larger blocks, for fewer iterations; or fewer warps.",
        mended=replace(work, instructions=instructions),
        place=evidence.line(max(lines, key=lambda each: lines[each])),
    )


def float64(evidence: Evidence, work: Work, executed: list[Run]) -> Iterator[Finding]:
    """Arithmetic in float64 on elements that are not: a scalar or a constant has made it so."""
    lines = lines_of(run for run in executed if run.instruction.unit == unit.FLOAT64)
    operations = work.simple.get("fp64", 0)
    if not (lines and operations) or _has_float64_blocks(evidence):
        return
    assert evidence.counts is not None
    special = evidence.counts.special.get("fp64", 0)
    instructions = evidence.instructions_without(lambda run: run.line in lines)
    instructions[unit.FLOAT32] = instructions.get(unit.FLOAT32, 0) + operations / unit.WARP
    instructions[unit.SPECIAL] = instructions.get(unit.SPECIAL, 0) + special / unit.WARP
    simple = {"fp32": 0.0, **work.simple}
    simple["fp32"] += simple.pop("fp64")
    names = evidence.tensors(
        access for access in evidence.accesses if access.block <= 1 and access.itemsize == 8
    )
    yield Finding(
        "float64",
        f"{round(operations + special):,} operations in float64, by {sum(lines.values()):,.0f} "
        "instructions of each warp on its float64 unit",
        "no block is loaded or stored in float64: one number of that type makes the whole formula "
        "float64, whose divisions and roots are tens of instructions each.",
        f"make {names or 'that number'} float32 before it meets a block, by .to(tl.float32), or "
        "pass it so.",
        mended=replace(work, simple=simple, instructions=instructions),
        place=evidence.line(max(lines, key=lambda each: lines[each])),
        always=True,
    )


def _has_float64_blocks(evidence: Evidence) -> bool:
    """Whether blocks are loaded or stored in float64."""
    tensors = [evidence.argument(access) for access in evidence.accesses if access.block > 1]
    return any(tensor is not None and tensor.dtype == torch.float64 for tensor in tensors)
