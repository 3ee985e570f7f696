"""Instructions: more than can be issued while memory delivers, and what most of them are."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from course.gpus import throughput as unit
from course.lowering.locations import Frame

from ..evidence import Evidence
from ..executed import Executed
from ..machine_code import Instruction
from ..result import LEAST_GAIN, Finding
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
SORT = re.compile(r"\b(?:sort|topk)\(")
OTHER_SORT = (
    "sort less: tl.topk where the first few are enough, and shorter rows, since each element takes "
    "part in more comparisons the longer they are; or let radix sort (torch.sort) do long ones."
)
OTHER_CHANGE = "compute less for each element, or larger blocks, for fewer instructions around it."
NUMBERS = 4
"""Random numbers that one evaluation of Philox gives, of which tl.rand keeps one."""


def many(evidence: Evidence) -> Iterator[Finding]:
    """Instructions that take longer to issue than anything else takes."""
    work, executed = evidence.work, evidence.executed
    if work is None or executed is None or work.longest[0] != "instructions":
        return
    line, kind, times = _most(executed)
    if line is None or line in _multiplied_one_by_one(evidence):
        return

    def is_meant(instruction: Instruction, _: bool) -> bool:
        return executed.line(instruction) == line and _kind(instruction) == kind

    part = _philox(executed, line)
    mended = replace(work, instructions=evidence.instructions_without(is_meant, part or 1))
    if work.us / mended.us < LEAST_GAIN:
        return
    total = sum(executed.units.values())
    each = total * evidence.warps * unit.WARP / evidence.elements
    own = sum(number for (at, _), number in times.items() if at == line)
    _, busiest = work.issue
    most = f", {times[line, kind] / total:.0%} for its {kind}" if kind in CHANGES else ""
    yield Finding(
        cause="instructions",
        what=(
            f"{each:,.0f} instructions of a thread for each element, of which {own / total:.0%} "
            f"come from one line{most}"
        ),
        why=(
            "a multiprocessor issues four instructions of a warp in a clock, and all of them take "
            "longer than memory does."
            if busiest == "issue"
            else f"the unit for {busiest} gives "
            f"{unit.results_a_clock(busiest, work.gpu, evidence.target):.0f} results in a clock of "
            "a multiprocessor, and its instructions take longer than memory does."
        ),
        change=(
            "take all four numbers that one evaluation gives, by tl.rand4x or tl.randint4x on a "
            "quarter of the offsets: tl.rand computes four and keeps one."
            if part
            else OTHER_SORT
            if SORT.search(evidence.text(*line))
            else CHANGES.get(kind, OTHER_CHANGE)
        ),
        mended=mended,
        line=line[1],
        text=evidence.text(*line),
    )


def _multiplied_one_by_one(evidence: Evidence) -> set[Frame]:
    """The lines of tl.dot, where another rule has said that no tensor core computes them."""
    if evidence.dot_instruction:
        return set()
    return {line.frame for line, _ in dots_of(evidence) if line}


def _kind(instruction: Instruction) -> str:
    return KINDS.get(instruction.unit, "other instructions")


def _most(executed: Executed) -> tuple[Frame | None, str, dict[tuple[Frame, str], float]]:
    """The line that most instructions come from, what most of these are, and the instructions of a
    warp by line and by what they are."""
    times: dict[tuple[Frame, str], float] = defaultdict(float)
    lines: dict[Frame, float] = defaultdict(float)
    for instruction, number, _ in executed.times:
        if line := executed.line(instruction):
            times[line, _kind(instruction)] += number
            lines[line] += number
    if not lines:
        return None, "", times
    most = max(lines, key=lambda line: lines[line])
    kinds = {kind: number for (line, kind), number in times.items() if line == most}
    return most, max(kinds, key=lambda kind: kinds[kind]), times


def _philox(executed: Executed, line: Frame) -> float:
    """The part of a line's instructions that taking all random numbers would save; 0 if it draws
    none, or takes all."""
    drawn = any(
        instruction.file == "random.py"
        for instruction, _, _ in executed.times
        if executed.line(instruction) == line
    )
    return 1 - 1 / NUMBERS if drawn else 0


def reductions(evidence: Evidence) -> Iterator[Finding]:
    """Reductions across the lanes and warps of a program in each iteration of a loop."""
    work, executed = evidence.work, evidence.executed
    if work is None or executed is None:
        return
    shuffles: dict[Frame, float] = defaultdict(float)
    barriers, most = 0.0, 0.0
    for instruction, times, in_loop in executed.times:
        line = executed.line(instruction)
        if in_loop and line and instruction.unit == unit.SHUFFLE:
            shuffles[line] += times
            most = max(most, times)
    if not shuffles:
        return
    for instruction, times, in_loop in executed.times:
        if in_loop and instruction.operation == "BAR" and executed.line(instruction) in shuffles:
            barriers += times

    def across_lanes(instruction: Instruction, in_loop: bool) -> bool:
        moves = instruction.unit in (unit.SHUFFLE, unit.SHARED) or instruction.operation == "BAR"
        return in_loop and moves and executed.line(instruction) in shuffles

    instructions = evidence.instructions_without(across_lanes)
    # Each shuffle is followed by one instruction that joins what it brought with what was there.
    joined = sum(shuffles.values()) * evidence.warps
    instructions[unit.FLOAT32] = max(0, instructions.get(unit.FLOAT32, 0) - joined)
    mended = replace(work, instructions=instructions)
    if work.us / mended.us < LEAST_GAIN:
        return
    line = max(shuffles, key=lambda each: shuffles[each])
    count = round(sum(shuffles.values()) / most)
    yield Finding(
        cause="reductions",
        what=(
            f"reductions in each of {most:,.0f} iterations: {count:,} shuffles"
            + (f" and {barriers / most:.0f} barriers" if barriers else "")
            + f" of each of {evidence.lowered.resources.num_warps} warps"
        ),
        why=(
            "to reduce a block, the lanes of a warp exchange values step by step"
            + (
                ", and its warps meet at barriers and exchange theirs through shared memory."
                if barriers
                else ", and those steps take longer than memory does."
            )
        ),
        change=(
            "keep partial results for each element of the block in the loop, and reduce them once "
            "after it; or larger blocks, for fewer iterations; or fewer warps."
        ),
        mended=mended,
        line=line[1],
        text=evidence.text(*line),
    )


def float64(evidence: Evidence) -> Iterator[Finding]:
    """Arithmetic in float64 on elements that are not: a scalar or a constant has made it so."""
    work, executed, counts = evidence.work, evidence.executed, evidence.counts
    if work is None or executed is None or counts is None or not work.simple.get("fp64"):
        return
    arguments = evidence.launch.arguments()
    for access in evidence.accesses:
        dtype = getattr(arguments.get(evidence.tensor(access)), "dtype", None)
        if access.block > 1 and str(dtype) == "torch.float64":
            return
    lines: dict[Frame, float] = defaultdict(float)
    for instruction, times, _ in executed.times:
        line = executed.line(instruction)
        if line and instruction.unit == unit.FLOAT64:
            lines[line] += times
    if not lines:
        return
    operations = work.simple["fp64"]
    special = counts.special.get("fp64", 0)
    instructions = evidence.instructions_without(
        lambda instruction, _: executed.line(instruction) in lines
    )
    instructions[unit.FLOAT32] = instructions.get(unit.FLOAT32, 0) + operations / unit.WARP
    instructions[unit.SPECIAL] = instructions.get(unit.SPECIAL, 0) + special / unit.WARP
    simple = {kind: count for kind, count in work.simple.items() if kind != "fp64"}
    simple["fp32"] = simple.get("fp32", 0) + operations
    line = max(lines, key=lambda each: lines[each])
    scalars = [
        evidence.tensor(access)
        for access in evidence.accesses
        if access.block <= 1 and access.itemsize == 8
    ]
    names = " and ".join(dict.fromkeys(scalars))
    yield Finding(
        cause="float64",
        what=(
            f"{round(operations + special):,} operations in float64, by "
            f"{sum(lines.values()):,.0f} instructions of each warp on its float64 unit"
        ),
        why=(
            "no block is loaded or stored in float64: one number of that type makes the whole "
            "formula float64, whose divisions and roots are tens of instructions each."
        ),
        change=(
            f"make {names or 'that number'} float32 before it meets a block, by .to(tl.float32), "
            "or pass it so."
        ),
        mended=replace(work, simple=simple, instructions=instructions),
        line=line[1],
        text=evidence.text(*line),
    )
