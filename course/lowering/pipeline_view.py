"""A software pipeline as a picture: which iteration each load and each product of a loop works on,
step by step."""

from matplotlib.patches import Rectangle

from course.display.picture import GREY, PALETTE, Picture, ink, new_figure
from course.errors import CourseError

from .api import Lowered
from .pipeline_schedule import Schedule, Scheduled, schedules

ITERATIONS = 6


def pipeline(made: Lowered, loop: int = 0) -> Picture:
    """The schedule of a loop of a kernel from `lower`: a row an operation, a column a step of the
    loop.

    loop: which one, where the kernel has several. Every box is one iteration's turn, in its colour and with its number.
    """
    if not isinstance(made, Lowered):
        raise CourseError(
            f"draw.pipeline takes a kernel from lower; this is a {type(made).__name__}."
        )
    found = schedules(made.passes)
    if not isinstance(loop, int) or not 0 <= loop < len(found):
        raise CourseError(
            f"There is no loop {loop!r}: the kernel has {len(found)}, counted from 0."
        )
    schedule = found[loop]
    rows = [operation for operation in schedule.operations if operation.kind]
    steps = ITERATIONS + schedule.depth - 1
    figure = new_figure(1.6 + 0.62 * steps, 0.42 * len(rows) + 1.0)
    axes = figure.subplots()
    for y, operation in enumerate(rows):
        axes.text(-0.15, -y + 0.45, _label(operation), ha="right", va="center", fontsize=9)
        for iteration in range(ITERATIONS):
            step, colour = iteration + operation.stage, PALETTE[iteration % 6]
            axes.add_patch(
                Rectangle((step + 0.04, -y), 0.92, 0.88, facecolor=colour, edgecolor="none")
            )
            axes.text(
                step + 0.5,
                -y + 0.43,
                str(iteration),
                ha="center",
                va="center",
                fontsize=9,
                color=ink(colour),
            )
    for edge in {schedule.depth - 1, ITERATIONS} if schedule.depth > 1 else set():
        axes.plot([edge, edge], [1 - len(rows), 1.1], color=GREY, linewidth=1, linestyle="--")
    names = {
        "before the loop": (0, schedule.depth - 1),
        "in the loop": (schedule.depth - 1, ITERATIONS),
    }
    for name, (start, end) in (names | {"after it": (ITERATIONS, steps)}).items():
        if end > start:
            axes.text((start + end) / 2, 1.2, name, ha="center", fontsize=8)
    axes.set_xlim(-2.2, steps)
    axes.set_ylim(0.9 - len(rows), 1.7)
    axes.axis("off")
    return Picture.of(figure, _alt(schedule, rows))


def _label(operation: Scheduled) -> str:
    name = operation.name.rstrip("0123456789").rstrip("_")
    return f"{operation.kind} {name}".strip()


def _alt(schedule: Schedule, rows: list[Scheduled]) -> str:
    if schedule.depth == 1:
        return f"Nothing is pipelined: {', '.join(map(_label, rows))} of one iteration end before those of the next begin."
    turns = ", ".join(
        f"{_label(each)} works on iteration i - {each.stage}"
        if each.stage
        else f"{_label(each)} on iteration i"
        for each in rows
    )
    return f"{schedule.depth} iterations are under way at a time. In step i of the loop, {turns}."
