"""How often a warp runs each instruction of a kernel: its blocks, times what the trace counted.

Loops are found in the machine code. How often a loop is run is told by the loads and stores in it,
whose executions the trace counted: the assembler may have copied the body several times, so what is
counted is divided by the copies of a load that stand in it. A loop that touches no memory counts as
often as what is around it. Both sides of a branch count, but not what handles denormals,
infinities and the like. A division of 64-bit integers is a call, and counts with the function's
instructions.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from course.lowering.call_sites import CallSite
from course.lowering.locations import Frame
from course.lowering.memory_requests import Requests
from course.tracing.records import LaunchCounts

from .machine_code import Instruction, MachineCode


@dataclass(frozen=True)
class Run:
    """An instruction that a warp of a program runs."""

    instruction: Instruction
    times: float
    """How often a warp runs it."""
    in_loop: bool
    line: Frame | None
    """The innermost line of the kernel, or of a jitted function of the reader's, that it comes
    from."""
    divides: bool = False
    """Whether it stands in a function that divides integers of 64 bits, which that line calls."""


def units_of(runs: Iterable[Run]) -> dict[str, float]:
    """A unit -> the instructions of a warp that it computes."""
    units: dict[str, float] = defaultdict(float)
    for run in runs:
        units[run.instruction.unit] += run.times
    return dict(units)


def lines_of(runs: Iterable[Run]) -> dict[Frame, float]:
    """A line of the reader's own -> the instructions of a warp that come from it."""
    lines: dict[Frame, float] = defaultdict(float)
    for run in runs:
        if run.line:
            lines[run.line] += run.times
    return dict(lines)


def executed(
    code: MachineCode, counts: LaunchCounts, requests: list[Requests], own: Collection[Frame]
) -> list[Run]:
    """The instructions that a warp runs, by the counts of a launch's trace.

    requests: what its accesses became. own: the lines of the kernel and of what it calls.
    """
    times = _times(code, _asked(counts, requests))
    in_loops = {number for loop in code.loops for number in loop.blocks}
    runs = []
    for number in code.reached:
        for instruction in code.blocks[number].instructions if times[number] else ():
            line = instruction.line if instruction.line in own else None
            run = Run(instruction, times[number], in_loop=number in in_loops, line=line)
            runs.append(run)
            for inside in code.called(instruction) if instruction.divides else ():
                runs.append(replace(run, instruction=inside, divides=True))
    return runs


@dataclass(frozen=True)
class _Asked:
    """How often one line touches memory."""

    executions: float
    """How often a program runs the line."""
    instructions: float
    """The instructions of a warp that it takes each time."""


def _asked(counts: LaunchCounts, requests: list[Requests]) -> dict[Frame, _Asked]:
    """A line that touches memory -> how often it does, and by how many instructions."""
    instructions: dict[CallSite, float] = {
        each.path[0]: max(1, len(each.numbers(each.itemsize)) / each.num_warps)
        for each in requests
        if each.bytes_per_thread and each.itemsize and not each.by_descriptor
    }
    together: dict[Frame, float] = defaultdict(float)
    for call, count in instructions.items():
        together[call[:2]] += count
    executions: dict[Frame, float] = defaultdict(float)
    for access in counts.accesses:
        if access.call in instructions:
            frame = access.call[:2]
            executions[frame] = max(executions[frame], access.executions / counts.all_programs)
    return {frame: _Asked(times, together[frame]) for frame, times in executions.items()}


def _times(code: MachineCode, asked: dict[Frame, _Asked]) -> dict[int, float]:
    """The number of a block -> how often a program runs it."""
    times = dict.fromkeys(code.reached, 1.0)
    # The blocks of each loop that stand in no loop inside it.
    own = {
        loop.header: [number for number in loop.blocks if code.loop_of(number) == loop]
        for loop in code.loops
    }
    copies = {header: _copies(code, numbers, asked) for header, numbers in own.items()}
    left = {frame: each.executions for frame, each in asked.items()}
    copied: set[Frame] = set()
    # Where a body was copied, the loop of most copies comes first, and then one for what is left.
    for header in sorted(own, key=lambda each: -max(copies[each].values(), default=0)):
        there = {frame: max(1, round(count)) for frame, count in copies[header].items()}
        if not there:
            continue
        often = max(left[frame] // n if n > 1 else left[frame] for frame, n in there.items())
        left |= {frame: max(0, left[frame] - often * n) for frame, n in there.items()}
        copied |= {frame for frame, n in there.items() if n > 1}
        times |= dict.fromkeys(own[header], often)
    for loop in reversed(code.loops):  # from the outermost inwards
        around = next((each for each in code.loops if loop.blocks < each.blocks), None)
        if around and not copies[loop.header]:
            times |= dict.fromkeys(own[loop.header], times[around.header])
    # What is left then may run in blocks of fewer copies behind the loop; else they are skipped.
    outside = [number for number in code.reached if code.loop_of(number) is None]
    for number in sorted(outside, key=lambda each: -len(code.blocks[each].instructions)):
        there = {frame: round(n) for frame, n in _copies(code, [number], asked).items()}
        if not there or not copied.issuperset(there):
            continue
        if all(left[frame] >= n for frame, n in there.items()):
            left |= {frame: left[frame] - n for frame, n in there.items()}
        else:
            times[number] = 0
    skipped = [number for number in code.reached if code.blocks[number].handles_special_cases]
    return times | dict.fromkeys(skipped, 0.0)


def _copies(code: MachineCode, blocks: list[int], asked: dict[Frame, _Asked]) -> dict[Frame, float]:
    """A line that touches memory -> how often its accesses stand in these blocks."""
    lines = Counter(
        instruction.line
        for number in blocks
        for instruction in code.blocks[number].instructions
        if instruction.accesses and instruction.line in asked
    )
    return {line: n / asked[line].instructions for line, n in lines.items() if line}
