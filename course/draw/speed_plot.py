"""Measured or recorded speeds over sizes: bytes a second and the copy roof, or operations."""

import textwrap
from dataclasses import replace

from matplotlib.axes import Axes

from course.benching.result import Speeds
from course.display.colours import GREY, PALETTE
from course.display.picture import Picture, new_figure
from course.errors import CourseError
from course.gpus.own_gpu import own_gpu
from course.gpus.peaks import Gpu

MARKERS = "osD^vP*X"

MOST_COUNTED = 16
"""Sizes up to this are counted, one after the other; larger ones stand on a logarithmic axis."""


def speeds(result: Speeds, series: list[str] | None = None, xs: list[int] | None = None) -> Picture:
    """Terabytes or teraflops a second over the size, one line per function.

    result: what `bench` returned or `recorded(name)`; the title says which of the two it is.
    series: the functions to show; xs: the sizes; all by default.
    The dashed line is the copy roof of the same run. A dotted line is the roof of the reader's own
    GPU, if `course doctor --measure` has measured another than the result's.
    """
    if series is not None and not isinstance(series, (list, tuple)):
        raise CourseError(f"draw.speeds takes a list of names, as ['torch']; series is {series!r}.")
    names = series or result.series
    for name in names:
        if name not in result.series:
            raise CourseError(
                f"There is no series {name!r} in {result.name}: "
                f"there is {', '.join(result.series)}."
            )
    if xs is not None:
        result = _at(result, xs)
    figure = new_figure(8, 4)
    axes = figure.subplots()
    for rank, name in enumerate(names[: len(MARKERS) * 2]):
        _draw_line(axes, result, name, rank)
    if result.unit == "TB/s":
        axes.axhline(result.copy_tb_s, color=GREY, ls="--", lw=1.2)
        above = 1.03 * result.copy_tb_s  # above the lines that touch the roof
        across = axes.get_yaxis_transform()
        axes.text(0.01, above, "copy roof", va="bottom", color="#555555", transform=across)
    own = own_gpu()
    if own and own.name == result.machine.gpu:
        own = None
    if own:
        text = _own_text(own, result.unit)
        axes.axhline(_own_roof(own, result.unit), color="black", ls=":", lw=1.5, label=text)
    sizes = sorted({timing.x for timing in result.timings})
    if sizes[-1] <= MOST_COUNTED:
        axes.set_xticks(sizes)
    else:
        axes.set_xscale("log", base=2)
    top = max(result.copy_tb_s, own.memory if own else 0) * 1.12
    axes.set_ylim(0, top if result.unit == "TB/s" else None)
    axes.set(xlabel=result.x_name, ylabel=result.unit)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="best")
    how = "recorded" if result.recorded else "measured now"
    title = f"{result.name}: {how} on {result.machine}"
    axes.set_title(textwrap.fill(title, 108), fontsize=9)
    dotted = f" Dotted: {_own_text(own, result.unit)}." if own else ""
    return Picture.of(figure, _alt(result, names) + dotted)


def _draw_line(axes: Axes, result: Speeds, name: str, rank: int) -> None:
    """A function's medians, in a band from its slow to its fast calls."""
    timings = result.of(name)
    xs, medians = [timing.x for timing in timings], [timing.speed for timing in timings]
    colour, marker = PALETTE[rank % len(PALETTE)], MARKERS[rank % len(MARKERS)]
    style = "-" if rank < len(PALETTE) else "--"
    (line,) = axes.plot(
        xs, medians, marker=marker, ms=4, lw=1.5, ls=style, color=colour, label=name
    )
    line.set_zorder(10 - rank)  # the first is the one it is about: it lies on top where lines meet
    slow = [timing.work / timing.ms_high / 1e9 for timing in timings]
    fast = [timing.work / timing.ms_low / 1e9 for timing in timings]
    axes.fill_between(xs, slow, fast, color=colour, alpha=0.15, lw=0)


def _own_roof(own: Gpu, unit: str) -> float:
    return own.memory if unit == "TB/s" else own.dot["fp16"]


def _own_text(own: Gpu, unit: str) -> str:
    roof = "copy roof" if unit == "TB/s" else "torch.matmul in float16"
    return f"{roof} measured on {own.name}: {_own_roof(own, unit):.3g} {unit}"


def _at(result: Speeds, xs: list[int]) -> Speeds:
    """The timings at these sizes alone."""
    if not isinstance(xs, (list, tuple)) or not xs:
        raise CourseError(f"draw.speeds takes a list of sizes, as [1024, 4096]; xs is {xs!r}.")
    sizes = sorted({timing.x for timing in result.timings})
    for x in xs:
        if x not in sizes:
            there = ", ".join(f"{size:,}" for size in sizes)
            raise CourseError(f"{result.name} has no {result.x_name} {x!r}: there is {there}.")
    return replace(result, timings=tuple(timing for timing in result.timings if timing.x in xs))


def _alt(result: Speeds, names: list[str]) -> str:
    tops = []
    digits = 2 if result.unit == "TB/s" else 0
    for name in names:
        top = max(result.of(name), key=lambda timing: timing.speed)
        speed = f"{top.speed:.{digits}f} {result.unit}"
        tops.append(f"{name} at most {speed} at {result.x_name} {top.x:,}")
    kind = "recorded" if result.recorded else "measured now"
    roof = f"; the copy roof is {result.copy_tb_s:.2f} TB/s" if result.unit == "TB/s" else ""
    return f"Speed over {result.x_name} ({kind} on {result.machine}){roof}: {'; '.join(tops)}."
