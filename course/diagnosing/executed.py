"""How often a warp runs each instruction of a kernel: its blocks, times what the trace counted.

Loops are found in the machine code. How often a loop is run is told by the loads and stores in it,
whose executions the trace counted: the assembler may have copied the body several times, so what is
counted is divided by the copies of a load that stand in it. A loop that touches no memory counts as
often as what is around it. Both sides of a branch count, but not what handles denormals,
infinities and the like.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from course.lowering.call_sites import CallSite
from course.lowering.locations import Frame
from course.lowering.memory_requests import Requests
from course.tracing.records import LaunchCounts

from .machine_code import CodeLoop, Instruction, MachineCode


@dataclass(frozen=True)
class Executed:
    """The instructions that one warp of a program runs, with how often."""

    times: list[tuple[Instruction, float, bool]]
    """Each instruction, how often a warp runs it, and whether it stands in a loop."""
    own: frozenset[Frame]
    """The lines of the kernel and of the jitted functions that it calls."""

    def line(self, instruction: Instruction) -> Frame | None:
        """The innermost line of the reader's own that an instruction comes from."""
        return next((frame for frame in instruction.frames if frame in self.own), None)

    @property
    def units(self) -> dict[str, float]:
        """Instructions of a warp by what computes them."""
        return self.units_where(lambda instruction, in_loop: True)

    def units_where(self, holds: Callable[[Instruction, bool], bool]) -> dict[str, float]:
        """The same of some instructions alone: `holds` is asked of each, and whether it stands in a
        loop."""
        units: dict[str, float] = defaultdict(float)
        for instruction, times, in_loop in self.times:
            if holds(instruction, in_loop):
                units[instruction.unit] += times
        return dict(units)

    def fences(self, lines: Collection[Frame] | None = None) -> float:
        """Fences that a warp runs: all, or those that come from some of the reader's lines."""
        return sum(
            times
            for instruction, times, _ in self.times
            if instruction.fences and (lines is None or self.line(instruction) in lines)
        )


def executed(
    code: MachineCode, counts: LaunchCounts, requests: list[Requests], own: frozenset[Frame]
) -> Executed:
    """What a warp runs of a kernel, by what the trace of a launch counted.

    requests: what its accesses became. own: the lines of the kernel and of what it calls.
    """
    runs = _runs(code, _asked(counts, requests))
    in_loops = frozenset[int]().union(*(loop.blocks for loop in code.loops))
    return Executed(
        [
            (instruction, runs[number], number in in_loops)
            for number in code.dominators
            for instruction in code.blocks[number].instructions
            if runs[number]
        ],
        own,
    )


@dataclass(frozen=True)
class _Asked:
    """What the accesses of one line ask for."""

    executions: float
    """How often a program runs the line."""
    instructions: float
    """The instructions of a warp that it takes each time."""


def _asked(counts: LaunchCounts, requests: list[Requests]) -> dict[Frame, _Asked]:
    """For each line that touches memory, how often it does and by how many instructions."""
    instructions: dict[CallSite, float] = {}
    for each in requests:
        if each.bytes_per_thread and each.itemsize and not each.by_descriptor:
            count = len(each.numbers(each.itemsize)) / each.num_warps
            instructions[each.path[0]] = max(1, count)
    executions: dict[Frame, float] = {}
    together: dict[Frame, float] = defaultdict(float)
    for access in counts.accesses:
        if access.call in instructions:
            frame = access.call[:2]
            times = access.executions / counts.all_programs
            executions[frame] = max(executions.get(frame, 0), times)
    for call, count in instructions.items():
        together[call[:2]] += count
    return {frame: _Asked(times, together[frame]) for frame, times in executions.items()}


def _runs(code: MachineCode, asked: dict[Frame, _Asked]) -> dict[int, float]:
    """How often a program runs each block."""
    runs = dict.fromkeys(code.dominators, 1.0)
    inner = {number: code.loop_of(number) for number in code.dominators}
    copies = {loop.header: _copies(code, loop, inner, asked) for loop in code.loops}
    left = {frame: each.executions for frame, each in asked.items()}
    copied: set[Frame] = set()
    # Where a body was copied, the loop of most copies comes first, and then one for what is left.
    for loop in sorted(code.loops, key=lambda each: -max(copies[each.header].values(), default=0)):
        there = {frame: max(1, round(count)) for frame, count in copies[loop.header].items()}
        if not there:
            continue
        times = max(left[frame] // n if n > 1 else left[frame] for frame, n in there.items())
        for frame, n in there.items():
            left[frame] = max(0, left[frame] - times * n)
        copied |= {frame for frame, n in there.items() if n > 1}
        runs |= {number: times for number in loop.blocks if inner[number] == loop}
    for loop in reversed(code.loops):  # from the outermost inwards
        around = [each for each in code.loops if loop.blocks < each.blocks]
        if around and not copies[loop.header]:
            times = runs[around[0].header]
            runs |= {number: times for number in loop.blocks if inner[number] == loop}
    # What is left then may run in blocks of fewer copies behind the loop; else they are skipped.
    outside = [number for number in code.dominators if inner[number] is None]
    for number in sorted(outside, key=lambda each: -len(code.blocks[each].instructions)):
        there = {frame: round(n) for frame, n in _copies_in(code, [number], asked).items()}
        if not there or not copied.issuperset(there):
            continue
        if all(left[frame] >= n for frame, n in there.items()):
            left |= {frame: left[frame] - n for frame, n in there.items()}
        else:
            runs[number] = 0
    skipped = [number for number in code.dominators if code.blocks[number].handles_special_cases]
    return runs | dict.fromkeys(skipped, 0.0)


def _copies(
    code: MachineCode, loop: CodeLoop, inner: dict[int, CodeLoop | None], asked: dict[Frame, _Asked]
) -> dict[Frame, float]:
    """How often the accesses of each line stand in a loop, without those in loops inside it."""
    return _copies_in(code, [each for each in loop.blocks if inner[each] == loop], asked)


def _copies_in(
    code: MachineCode, blocks: list[int], asked: dict[Frame, _Asked]
) -> dict[Frame, float]:
    """How often the accesses of each line stand in blocks."""
    found: Counter[Frame] = Counter()
    for number in blocks:
        for instruction in code.blocks[number].instructions:
            if instruction.accesses:
                frame = next((each for each in instruction.frames if each in asked), None)
                if frame:
                    found[frame] += 1
    return {frame: count / asked[frame].instructions for frame, count in found.items()}
