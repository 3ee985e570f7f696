"""When each operation of a pipelined loop works, with durations that are made up."""

from dataclasses import dataclass

from .pipeline_schedule import ScheduledOperation

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
