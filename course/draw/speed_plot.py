"""Measured or recorded speeds over sizes: bytes a second and the copy roof, or operations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from matplotlib.axes import Axes

from course.benching.result import Speeds, Timing
from course.display.colors import DARK, GRAY
from course.display.picture import Picture
from course.errors import CourseError
from course.gpus.own_gpu import own_gpu
from course.gpus.peaks import Gpu

from .arguments import check_series
from .plot import new_plot, plot_picture
from .series_style import legend_text, style_of

MOST_COUNTED = 16
"""Sizes up to this are counted, one after the other; larger ones stand on a logarithmic axis."""
ON_ZERO = 1 / 100
"""Fraction of the fastest line's maximum below which a line looks like zero."""
LEGEND = 125
"""Letters that fit side by side in a legend; a line's sample takes the room of eight."""
TICKS = 7
"""Sizes written below the plot, at most."""


def speeds(
    result: Speeds,
    series: Sequence[str] | Mapping[str, str] | None = None,
    xs: list[int] | None = None,
    *,
    log: bool | None = None,
    relative_to: str | None = None,
) -> Picture:
    """Terabytes or teraflops a second over the size, one line per function.

    result: what `bench` returned or `recorded(name)`; the title says which of the two it is.
    series: the functions to show, or a dict of them with their words in the legend; xs: the sizes;
        all by default.
    log: a logarithmic axis of speeds; by default where a line would otherwise seem to lie on zero.
    relative_to: a series to divide the others' speeds by, size by size: lines that are close are
        told apart so.
    The dashed line is the copy roof of the same run. A dotted line is the roof of the reader's own
    GPU, if `course doctor --measure` has measured another than the result's.
    """
    if series is not None and not isinstance(series, (list, tuple, Mapping)):
        raise CourseError(f"draw.speeds takes a list of names, as ['torch']; series is {series!r}.")
    check_series("speeds", result, [*(series or ()), *([relative_to] if relative_to else [])])
    names = list(series or result.series)
    if xs is not None:
        result = _at(result, xs)
    if relative_to:
        names = [name for name in names if name != relative_to]
    if log is None:
        log = not relative_to and _lies_on_zero(result, names)
    axes = new_plot()
    words = series if isinstance(series, Mapping) else {}
    for rank, name in enumerate(names):
        _draw_line(axes, result, name, rank, words.get(name), relative_to)
    if relative_to:
        axes.axhline(1, color=GRAY, ls="--", lw=1.2)
        axes.set_ylabel(f"times the speed of {relative_to}")
        own = None
    else:
        own = _draw_roofs(axes, result, log)
        axes.set_ylabel(f"{result.unit}, logarithmic" if log else result.unit)
    _number_sizes(axes, result.sizes)
    axes.set_xlabel(result.x_name)
    labels = axes.get_legend_handles_labels()[1]
    most = max(1, min(5, LEGEND // (max(map(len, labels)) + 8)))
    columns = math.ceil(len(labels) / math.ceil(len(labels) / most))  # rows of equal length
    gpu, _, versions = str(result.machine).partition(", ")
    axes.set_title(f"{result.name}: {result.origin(gpu)}\n{versions}", fontsize=9)
    dotted = f" Dotted: {_own_text(own, result.unit)}." if own else ""
    return plot_picture(axes, _alt(result, names, relative_to) + dotted, columns)


def _draw_line(
    axes: Axes, result: Speeds, name: str, rank: int, words: str | None, relative_to: str | None
) -> None:
    """A function's medians, in a band from its slow to its fast calls.

    words: in the legend, in place of those that the name has everywhere.
    """
    timings, style = result.of(name), style_of(name, rank)
    points: list[tuple[int, float]] = [(timing.x, timing.speed) for timing in timings]
    if relative_to:
        points = _ratios(result, timings, relative_to)
    else:
        slow = [timing.work / timing.ms_high / 1e9 for timing in timings]
        fast = [timing.work / timing.ms_low / 1e9 for timing in timings]
        xs = [timing.x for timing in timings]
        axes.fill_between(xs, slow, fast, color=style.color, alpha=0.15, lw=0)
    (line,) = axes.plot(
        *zip(*points, strict=True), marker=style.marker, ls=style.dash, lw=style.width,
        ms=6 if style.hollow else 5, color=style.color, label=words or legend_text(name, style),
    )  # fmt: skip
    if style.hollow:
        line.set_markerfacecolor("none")
    line.set_zorder(3 if style.width > 2 else 4 + rank / 100)  # narrow ones lie on a broad one


def _ratios(result: Speeds, timings: list[Timing], base: str) -> list[tuple[int, float]]:
    """Speeds over those of another series, at the sizes that both have."""
    others = {timing.x: timing.speed for timing in result.of(base)}
    return [(each.x, each.speed / others[each.x]) for each in timings if each.x in others]


def _lies_on_zero(result: Speeds, names: list[str]) -> bool:
    """Whether a line is so slow at all sizes that it would not be told from the axis."""
    tops = [max(timing.speed for timing in result.of(name)) for name in names]
    return min(tops) < max(tops) * ON_ZERO


def _draw_roofs(axes: Axes, result: Speeds, log: bool) -> Gpu | None:
    """The copy roof, and that of the reader's own GPU, which is returned if it is another."""
    if result.unit == "TB/s":
        axes.axhline(result.copy_tb_s, color=GRAY, ls="--", lw=1.2)
        above = 1.03 * result.copy_tb_s  # above the lines that touch the roof
        across = axes.get_yaxis_transform()
        roof = f"copy roof {result.copy_tb_s:.2f} TB/s"
        axes.text(0.01, above, roof, va="bottom", color=DARK, fontsize=9, transform=across)
    own = own_gpu()
    if own and own.name == result.machine.gpu:
        own = None
    if own:
        text = _own_text(own, result.unit)
        axes.axhline(_own_roof(own, result.unit), color="black", ls=":", lw=1.5, label=text)
    top = max(result.copy_tb_s, own.memory if own else 0) if result.unit == "TB/s" else None
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.4g}")
        axes.set_ylim(None, top * 2 if top else None)
    else:
        axes.set_ylim(0, top * 1.12 if top else None)
    return own


def _number_sizes(axes: Axes, sizes: list[int]) -> None:
    """The axis of sizes, with some of them written as numbers."""
    if sizes[-1] <= MOST_COUNTED:
        axes.set_xticks(sizes)
        return
    axes.set_xscale("log", base=2)
    even = [size for size in sizes if size & (size - 1) == 0] or sizes
    step = math.ceil(len(even) / TICKS)
    shown = even[::-1][::step]
    axes.set_xticks(shown, [f"{size:,}" for size in shown])
    axes.set_xticks(sizes, [""] * len(sizes), minor=True)


def _own_roof(own: Gpu, unit: str) -> float:
    return own.memory if unit == "TB/s" else own.dot["fp16"]


def _own_text(own: Gpu, unit: str) -> str:
    roof = "copy roof" if unit == "TB/s" else "torch.matmul in float16"
    return f"{roof} measured on {own.name}: {_own_roof(own, unit):.3g} {unit}"


def _at(result: Speeds, xs: list[int]) -> Speeds:
    """The timings at these sizes alone."""
    if not isinstance(xs, (list, tuple)) or not xs:
        raise CourseError(f"draw.speeds takes a list of sizes, as [1024, 4096]; xs is {xs!r}.")
    for x in xs:
        if x not in result.sizes:
            there = ", ".join(f"{size:,}" for size in result.sizes)
            raise CourseError(f"{result.name} has no {result.x_name} {x!r}: there is {there}.")
    return replace(result, timings=tuple(timing for timing in result.timings if timing.x in xs))


def _alt(result: Speeds, names: list[str], relative_to: str | None) -> str:
    where = f"over {result.x_name} ({result.origin(result.machine)})"
    if relative_to:
        spans = []
        for name in names:
            ratios = [ratio for _, ratio in _ratios(result, result.of(name), relative_to)]
            spans.append(f"{name} {min(ratios):.2f} to {max(ratios):.2f}")
        return f"Speed in times that of {relative_to} {where}: {'; '.join(spans)}."
    return f"Speed {where}{result.tops(names)}"
