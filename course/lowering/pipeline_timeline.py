"""When each operation of a pipelined loop works, with durations that are made up."""

from dataclasses import dataclass

from .pipeline_schedule import Schedule

ARITHMETIC = ("math.exp2", "math.exp", "tt.reduce")
"""What tells that a loop computes a softmax between its dots."""
LATENCY = 2
"""How long a load takes, in times of an iteration's arithmetic."""
UNIT = 0.7
"""Length of an operation where an iteration has several; a single one has 1."""


@dataclass(frozen=True)
class PlacedOperation:
    """A load, a dot, a store or the softmax of a loop's body."""

    kind: str
    """As `colours.WORK` has it."""
    name: str
    stage: int
    """How many steps of the loop after its iteration began it works."""


@dataclass(frozen=True)
class Bar:
    """What one operation does for one iteration, from when to when."""

    operation: PlacedOperation
    iteration: int
    start: float
    end: float


def placed_operations(schedule: Schedule) -> list[PlacedOperation]:
    """The loads, dots and stores of a loop in their order, and its softmax as one operation."""
    operations: list[PlacedOperation] = []
    for each in schedule.operations:
        if each.kind:
            name = each.name.rstrip("0123456789").rstrip("_")
            operations.append(PlacedOperation(each.kind, name, each.stage))
        elif each.operation in ARITHMETIC:
            softmax = PlacedOperation("softmax", "", each.stage)
            if softmax not in operations:
                operations.append(softmax)
    return operations


def timeline(operations: list[PlacedOperation], iterations: int) -> list[Bar]:
    """When each operation works on each of the first iterations.

    In step s of the loop an operation works on iteration s - stage, in the order of the body. A
    load takes no time of the program's: whoever needs it waits until it has come. A dot needs all
    loads of its iteration that stand before it.
    """
    busy = sum(each.kind != "load" for each in operations)
    length = UNIT if busy > 1 else 1.0
    latency = LATENCY * max(1, busy) * length
    depth = 1 + max((each.stage for each in operations), default=0)
    arrivals: dict[tuple[int, PlacedOperation], float] = {}
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
