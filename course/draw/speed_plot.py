"""Plot measured or recorded speeds over sizes: bytes a second with the copy roof, or operations a second."""

import textwrap
from dataclasses import replace

from course.benching.result import Speeds
from course.display.picture import GREY, PALETTE, Picture, new_figure
from course.errors import CourseError
from course.gpus.own_gpu import own_gpu
from course.gpus.peaks import Gpu

MARKERS = "osD^vP*X"


MOST_COUNTED = 16
"""A setting of which none is larger is counted, and not doubled from one to the next."""


def speeds(result: Speeds, series: list[str] | None = None, xs: list[int] | None = None) -> Picture:
    """Terabytes a second over the size, one line a function, with the copy roof of the same run; or teraflops.

    result: what `bench` returned or `recorded(name)`; the title says which of the two it is.
    series: the functions to show; xs: the sizes; all by default.
    A dotted line is the roof of the reader's own GPU, where `course doctor --measure` has measured another than the result's.
    """
    if series is not None and not isinstance(series, (list, tuple)):
        raise CourseError(f"draw.speeds takes a list of names, as ['torch']; series is {series!r}.")
    shown = series or result.series
    for name in shown:
        if name not in result.series:
            raise CourseError(
                f"There is no series {name!r} in {result.name}: there is {', '.join(result.series)}."
            )
    if xs is not None:
        result = _at(result, xs)
    figure = new_figure(8, 4)
    axes = figure.subplots()
    for rank, (name, colour, marker) in enumerate(
        zip(shown, PALETTE * 2, MARKERS * 2, strict=False)
    ):
        timings = result.of(name)
        style = "-" if rank < len(PALETTE) else "--"
        at = [timing.x for timing in timings]
        # The first is the one it is about: it lies on top where lines meet.
        (line,) = axes.plot(
            at,
            [timing.speed for timing in timings],
            marker=marker,
            ms=4,
            lw=1.5,
            ls=style,
            color=colour,
            label=name,
        )
        line.set_zorder(10 - rank)
        axes.fill_between(
            at,
            [timing.work / timing.ms_high / 1e9 for timing in timings],
            [timing.work / timing.ms_low / 1e9 for timing in timings],
            color=colour, alpha=0.15, lw=0,
        )  # fmt: skip
    if result.unit == "TB/s":
        axes.axhline(result.copy_tb_s, color=GREY, ls="--", lw=1.2)
        # Above the lines that touch the roof.
        place = axes.get_yaxis_transform()
        axes.text(
            0.01,
            1.03 * result.copy_tb_s,
            "copy roof",
            va="bottom",
            color="#555555",
            transform=place,
        )
    own = own_gpu()
    if own and own.name != result.machine.gpu:
        axes.axhline(
            _own_roof(own, result.unit),
            color="black",
            ls=":",
            lw=1.5,
            label=_own_text(own, result.unit),
        )
    else:
        own = None
    every = sorted({timing.x for timing in result.timings})
    if every[-1] <= MOST_COUNTED:
        axes.set_xticks(every)
    else:
        axes.set_xscale("log", base=2)
    top = max(result.copy_tb_s, own.memory if own else 0) * 1.12
    axes.set_ylim(0, top if result.unit == "TB/s" else None)
    axes.set(xlabel=result.x_name, ylabel=result.unit)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="best")
    title = (
        f"{result.name}: {'recorded' if result.recorded else 'measured now'} on {result.machine}"
    )
    axes.set_title(textwrap.fill(title, 108), fontsize=9)
    return Picture.of(
        figure, _alt(result, shown) + (f" Dotted: {_own_text(own, result.unit)}." if own else "")
    )


def _own_roof(own: Gpu, unit: str) -> float:
    return own.memory if unit == "TB/s" else own.dot["fp16"]


def _own_text(own: Gpu, unit: str) -> str:
    what = "copy roof" if unit == "TB/s" else "torch.matmul in float16"
    return f"{what} measured on {own.name}: {_own_roof(own, unit):.3g} {unit}"


def _at(result: Speeds, xs: list[int]) -> Speeds:
    """The timings at these sizes alone."""
    if not isinstance(xs, (list, tuple)) or not xs:
        raise CourseError(f"draw.speeds takes a list of sizes, as [1024, 4096]; xs is {xs!r}.")
    there = sorted({timing.x for timing in result.timings})
    for x in xs:
        if x not in there:
            raise CourseError(
                f"{result.name} has no {result.x_name} {x!r}: there is {', '.join(f'{x:,}' for x in there)}."
            )
    return replace(result, timings=tuple(timing for timing in result.timings if timing.x in xs))


def _alt(result: Speeds, shown: list[str]) -> str:
    best = []
    for name in shown:
        top = max(result.of(name), key=lambda timing: timing.speed)
        digits = 2 if result.unit == "TB/s" else 0
        best.append(
            f"{name} at most {top.speed:.{digits}f} {result.unit} at {result.x_name} {top.x:,}"
        )
    kind = "recorded" if result.recorded else "measured now"
    roof = f"; the copy roof is {result.copy_tb_s:.2f} TB/s" if result.unit == "TB/s" else ""
    return f"Speed over {result.x_name} ({kind} on {result.machine}){roof}: {'; '.join(best)}."
