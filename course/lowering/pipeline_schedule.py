"""How the compiler pipelines a loop: on which iteration each operation works, step by step, and
when, with durations that are made up.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from course.errors import CourseError

from .passes import Passes

OPERATION = re.compile(r"^\s*(?:%(\w+)[^=]*= )?\"?([\w.]+)\"?\b(?:.*loop\.stage = (\d+))?")
KINDS = {
    **dict.fromkeys(("tt.load", "tt.descriptor_load", "amdg.buffer_load"), "load"),
    **dict.fromkeys(("tt.dot", "ttng.warp_group_dot", "ttng.tc_gen5_mma"), "dot"),
    **dict.fromkeys(("tt.dot_scaled", "ttng.tc_gen5_mma_scaled"), "dot"),
    **dict.fromkeys(("tt.store", "tt.descriptor_store"), "store"),
    **dict.fromkeys(("math.exp2", "math.exp"), "exponential"),
    "tt.reduce": "reduction",
}
SOFTMAX = {"exponential", "reduction"}
"""What makes a softmax where a loop has both."""


@dataclass(frozen=True)
class ScheduledOperation:
    """An operation of a loop's body."""

    kind: str
    """As `colors.WORK` has it, or "arithmetic"; empty for operations that are not shown."""
    name: str
    """The kernel's variable that it makes; empty for arithmetic."""
    stage: int
    """How many steps of the loop after its iteration began it works."""


@dataclass(frozen=True)
class Schedule:
    """The operations of one loop. If nothing is pipelined all are of stage 0."""

    operations: tuple[ScheduledOperation, ...]

    @property
    def shown(self) -> list[ScheduledOperation]:
        """The loads, dots and stores in their order, and the arithmetic as one operation."""
        shown: list[ScheduledOperation] = []
        for each in self.operations:
            if each.kind and (each.kind not in ("softmax", "arithmetic") or each not in shown):
                shown.append(each)
        return shown

    @property
    def depth(self) -> int:
        """How many iterations are under way at a time."""
        return 1 + max((each.stage for each in self.operations), default=0)


def schedules(passes: Passes) -> list[Schedule]:
    """The schedules of the innermost loops that load or multiply. CourseError if there are none."""
    planned = [each.before for each in passes if "loop.stage" in each.before]
    if planned:
        loops = _loops(planned[-1], planned=True)
    else:  # nothing was pipelined: the loops as they stand where that would have happened
        before = (each.before for each in passes if each.name.endswith("pipeline"))
        loops = _loops(next(before, ""), planned=False)
    working = [loop for loop in loops if {"load", "dot"} & {each.kind for each in loop.operations}]
    if not working:
        raise CourseError(
            "This kernel has no loop that loads or multiplies, so there is nothing to pipeline."
        )
    return working


def _loops(ir: str, planned: bool) -> Iterator[Schedule]:
    """The loops of a module, an inner one before the one around it.

    planned: whether to take only the operations that have a stage.
    """
    open_loops: list[tuple[int, list[ScheduledOperation]]] = []
    for line in ir.split("\n"):
        indent = len(line) - len(line.lstrip())
        closes = line.strip().startswith("}") and not line.endswith("{")  # unlike `} do {`
        while closes and open_loops and indent <= open_loops[-1][0]:
            operations = open_loops.pop()[1]
            if operations:
                yield Schedule(tuple(_with_arithmetic(operations)))
        if "scf.for" in line or "scf.while" in line:
            open_loops.append((indent, []))
        elif open_loops and (match := OPERATION.match(line)) and (match[3] or not planned):
            name, operation, stage = match.groups(default="")
            kind = KINDS.get(operation, "")
            name = "" if kind in SOFTMAX else name.rstrip("0123456789").rstrip("_")
            open_loops[-1][1].append(ScheduledOperation(kind, name, int(stage or 0)))


def _with_arithmetic(operations: list[ScheduledOperation]) -> Iterator[ScheduledOperation]:
    """A loop's operations, in which exponentials and reductions are a softmax, or arithmetic."""
    kind = "softmax" if {each.kind for each in operations} >= SOFTMAX else "arithmetic"
    for each in operations:
        yield replace(each, kind=kind) if each.kind in SOFTMAX else each


LATENCY = 2
"""How long a load takes, in times of an iteration's arithmetic."""
UNIT = 0.7
"""Length of an operation where an iteration has several; a single one has 1."""


@dataclass(frozen=True)
class Bar:
    """What one operation does for one iteration, from when to when."""

    operation: ScheduledOperation
    iteration: int
    start: float
    end: float


def timeline(operations: list[ScheduledOperation], iterations: int) -> list[Bar]:
    """When each operation works on each of the first iterations.

    In step s of the loop an operation works on iteration s - stage, in the order of the body. A
    load takes no time of the program's: whoever needs it waits until it has come. A dot needs all
    loads of its iteration that stand before it.
    """
    busy = sum(each.kind != "load" for each in operations)
    length = UNIT if busy > 1 else 1.0
    latency = LATENCY * max(1, busy) * length
    depth = 1 + max((each.stage for each in operations), default=0)
    arrivals: dict[tuple[int, ScheduledOperation], float] = {}
    bars: list[Bar] = []
    now = 0.0
    for step in range(iterations + depth - 1):
        for place, operation in enumerate(operations):
            iteration = step - operation.stage
            if not 0 <= iteration < iterations:
                continue
            if operation.kind == "load":
                arrivals[iteration, operation] = now + latency
                bars.append(Bar(operation, iteration, now, now + latency))
                continue
            if operation.kind == "dot":
                needed = [arrivals.get((iteration, each), now) for each in operations[:place]]
                now = max([now, *needed])
            bars.append(Bar(operation, iteration, now, now + length))
            now += length
    return bars
