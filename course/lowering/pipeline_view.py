"""A software pipeline as a picture: on which iteration each load and each product works."""

from typing import Any

from matplotlib.patches import Rectangle

from course.display.colours import GREY, PALETTE, ink
from course.display.picture import Picture, new_figure
from course.errors import CourseError

from .pipeline_schedule import Schedule, ScheduledOperation, schedules
from .result import Lowered

ITERATIONS = 6


def pipeline(lowered: Lowered, loop: int = 0) -> Picture:
    """The schedule of a loop of a kernel from `lower`: a row an operation, a column a step.

    loop: which one, if the kernel has several. Every box is one iteration's turn, in its colour and
    with its number.
    """
    if not isinstance(lowered, Lowered):
        kind = type(lowered).__name__
        raise CourseError(f"draw.pipeline takes a kernel from lower; this is a {kind}.")
    loops = schedules(lowered.passes)
    if not isinstance(loop, int) or not 0 <= loop < len(loops):
        raise CourseError(
            f"There is no loop {loop!r}: the kernel has {len(loops)}, counted from 0."
        )
    schedule = loops[loop]
    operations = [operation for operation in schedule.operations if operation.kind]
    steps = ITERATIONS + schedule.depth - 1
    figure = new_figure(1.6 + 0.62 * steps, 0.42 * len(operations) + 1.0)
    axes = figure.subplots()
    centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9}
    for y, operation in enumerate(operations):
        axes.text(-0.15, -y + 0.45, _label(operation), ha="right", va="center", fontsize=9)
        for iteration in range(ITERATIONS):
            step, colour = iteration + operation.stage, PALETTE[iteration % 6]
            box = Rectangle((step + 0.04, -y), 0.92, 0.88, facecolor=colour, edgecolor="none")
            axes.add_patch(box)
            axes.text(step + 0.5, -y + 0.43, str(iteration), color=ink(colour), **centred)
    for edge in {schedule.depth - 1, ITERATIONS} if schedule.depth > 1 else set():
        bottom = 1 - len(operations)
        axes.plot([edge, edge], [bottom, 1.1], color=GREY, linewidth=1, linestyle="--")
    for name, start, end in (
        ("before the loop", 0, schedule.depth - 1),
        ("in the loop", schedule.depth - 1, ITERATIONS),
        ("after it", ITERATIONS, steps),
    ):
        if end > start:
            axes.text((start + end) / 2, 1.2, name, ha="center", fontsize=8)
    axes.set_xlim(-2.2, steps)
    axes.set_ylim(0.9 - len(operations), 1.7)
    axes.axis("off")
    return Picture.of(figure, _alt(schedule, operations))


def _label(operation: ScheduledOperation) -> str:
    name = operation.name.rstrip("0123456789").rstrip("_")
    return f"{operation.kind} {name}".strip()


def _alt(schedule: Schedule, operations: list[ScheduledOperation]) -> str:
    if schedule.depth == 1:
        labels = ", ".join(map(_label, operations))
        return (
            f"Nothing is pipelined: {labels} of one iteration end before those of the next begin."
        )
    turns = [
        f"{_label(operation)} works on iteration i - {operation.stage}"
        if operation.stage
        else f"{_label(operation)} on iteration i"
        for operation in operations
    ]
    head = f"{schedule.depth} iterations are under way at a time."
    return f"{head} In step i of the loop, {', '.join(turns)}."
