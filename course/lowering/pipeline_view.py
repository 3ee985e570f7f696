"""A software pipeline as a picture: a timeline of its first iterations."""

import itertools

from matplotlib.axes import Axes

from course.display.colors import DARK, GRAY, WORK, ink
from course.display.picture import WIDTH, Picture, new_axes
from course.display.shapes import box, label, legend_below
from course.errors import CourseError
from course.type_names import kind_of

from .pipeline_schedule import Bar, Schedule, ScheduledOperation, schedules, timeline
from .result import Lowered

ITERATIONS = 5
COLORS = {**WORK, "arithmetic": WORK["softmax"]}
INCH = 0.52
"""Inches of a unit of time, at most."""
MARGIN = 1.15
"""Inches for the names of rows."""


def pipeline(lowered: Lowered, loop: int = 0) -> Picture:
    """A timeline of the first iterations of a loop of a kernel from `lower`: a row each.

    loop: which one, if the kernel has several.

    Which operation works on which iteration is what the compiler has decided. How long each takes
    is made up, since the compiler does not know it either: a load as long as the arithmetic of two
    iterations. Below stands when the tensor cores have work.
    """
    if not isinstance(lowered, Lowered):
        raise CourseError(f"draw.pipeline takes a kernel from lower; this is {kind_of(lowered)}.")
    loops = schedules(lowered.passes)
    if not isinstance(loop, int) or not 0 <= loop < len(loops):
        raise CourseError(
            f"There is no loop {loop!r}: the kernel has {len(loops)}, counted from 0."
        )
    schedule = loops[loop]
    operations = schedule.shown
    bars = timeline(operations, ITERATIONS)
    end = max(bar.end for bar in bars)
    inch = min(INCH, (WIDTH - MARGIN) / end)
    loads = [each for each in operations if each.kind == "load"]
    # Where a load goes on beside arithmetic of its own iteration, that has a lane below the loads.
    lanes = len(loads) + 1 if loads_beside_arithmetic(bars) else 0
    tall = 0.36 if not lanes else 0.48
    axes = new_axes(max(MARGIN + inch * end, 5.6), tall * (ITERATIONS + 2) + 1.05)
    for bar in bars:
        _draw_bar(axes, bar, loads, lanes, inch, tall)
    for iteration in range(ITERATIONS):
        label(axes, -0.1 / inch, -iteration + 0.5, f"iteration {iteration}", ha="right", fontsize=9)
    _draw_tensor_cores(axes, [bar for bar in bars if bar.operation.kind == "dot"], end, inch)
    axes.set_title(
        f"{schedule.depth} iteration{'s' if schedule.depth > 1 else ''} under way at a time. "
        f"A sketch:\na load takes twice as long as the arithmetic of an iteration",
        fontsize=9.5, loc="left",
    )  # fmt: skip
    kinds = [kind for kind in COLORS if any(each.kind == kind for each in operations)]
    legend_below(axes, {_kind_text(kind, operations): COLORS[kind] for kind in kinds}, 4)
    across = (-MARGIN / inch, max(end, (5.6 - MARGIN) / inch))
    return Picture.of_sketch(axes, across, (-ITERATIONS - 1.1, 1.05), _alt(schedule, operations))


def _kind_text(kind: str, operations: list[ScheduledOperation]) -> str:
    """An entry of the legend: load a, b."""
    names = [each.name for each in operations if each.kind == kind and each.name]
    return f"{kind} {', '.join(dict.fromkeys(names))}".strip()


def loads_beside_arithmetic(bars: list[Bar]) -> bool:
    """Whether a load is still under way while its own iteration computes."""
    loads = [bar for bar in bars if bar.operation.kind == "load"]
    work = [bar for bar in bars if bar.operation.kind != "load"]
    return any(
        load.iteration == bar.iteration and load.start < bar.end and bar.start < load.end
        for load, bar in itertools.product(loads, work)
    )


def _draw_bar(
    axes: Axes, bar: Bar, loads: list[ScheduledOperation], lanes: int, inch: float, tall: float
) -> None:
    """What one operation does for one iteration; loads stand one above the other.

    lanes: of a row, the arithmetic in the lowest; 0 where it takes the row's whole height. tall:
    inches of a row.
    """
    height, y = 0.86 / max(lanes, 1), -bar.iteration + 0.07
    if bar.operation in loads:
        height = 0.86 / (lanes or len(loads))
        y = -bar.iteration + 0.93 - height * (1 + loads.index(bar.operation))
    color, length = COLORS[bar.operation.kind], bar.end - bar.start
    box(axes, bar.start, y, length, height, color, edgecolor="white", lw=0.8)
    text = bar.operation.name if bar.operation.kind == "load" else bar.operation.kind
    if length * inch * 72 > 5.2 * len(text) and height * tall * 72 > 8:
        size = 8 if height > 0.5 else 7
        middle = bar.start + length / 2
        label(axes, middle, y + height / 2, text, color=ink(color), fontsize=size)


def _draw_tensor_cores(axes: Axes, dots: list[Bar], end: float, inch: float) -> None:
    """A row of its own below: when the tensor cores work, and on which iteration."""
    y = -ITERATIONS - 0.9
    axes.plot([0, end], [y + 1.05] * 2, color=GRAY, lw=0.8)
    label(axes, -0.1 / inch, y + 0.5, "tensor cores", ha="right", fontsize=9, color=DARK)
    for bar in dots:
        box(axes, bar.start, y + 0.07, bar.end - bar.start, 0.86, WORK["dot"], edgecolor="white")
        if (bar.end - bar.start) * inch > 0.15:
            middle = (bar.start + bar.end) / 2
            label(axes, middle, y + 0.5, str(bar.iteration), color=ink(WORK["dot"]))


def _label(operation: ScheduledOperation) -> str:
    return f"{operation.kind} {operation.name}".strip()


def _alt(schedule: Schedule, operations: list[ScheduledOperation]) -> str:
    if schedule.depth == 1:
        labels = ", ".join(map(_label, operations))
        return (
            f"Nothing is pipelined: {labels} of one iteration end before those of the next begin. "
            "While a load is under way the tensor cores have nothing to do."
        )
    works = [
        f"{_label(operation)} works on iteration i - {operation.stage}"
        if operation.stage
        else f"{_label(operation)} on iteration i"
        for operation in operations
    ]
    head = f"{schedule.depth} iterations are under way at a time."
    return f"{head} In step i of the loop, {', '.join(works)}."
