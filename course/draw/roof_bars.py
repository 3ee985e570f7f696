"""The time that a call takes beside the least that its bytes allow, as bars."""

from collections.abc import Sequence

from course.benching.result import Speeds
from course.display.colors import DARK, LIGHT, ink
from course.display.picture import Picture, new_axes
from course.display.shapes import box, label
from course.errors import CourseError

from .arguments import check_series
from .series_style import legend_text, style_of

ROOM = 0.42
"""Room for words to the right of the longest bar, as a part of its length."""


def roof(result: Speeds, series: Sequence[str] | None = None, x: int | None = None) -> Picture:
    """How long each function takes at one size, and how much of that its bytes explain.

    result: what `bench` returned or `recorded(name)`, in TB/s. series: the functions, by default
    all that were measured there. x: the size, by default the largest that all of them have.
    The full part of a bar is the time in which a copy moves as many bytes; the rest is gray.
    """
    check_series("roof", result, series or ())
    names = list(series or result.series)
    if result.unit != "TB/s":
        raise CourseError(f"draw.roof counts bytes; {result.name} was timed by its operations.")
    shared = set.intersection(*({timing.x for timing in result.of(name)} for name in names))
    if x is None and shared:
        x = max(shared)
    if x not in shared:
        there = ", ".join(f"{size:,}" for size in sorted(shared)) or "no size that all have"
        raise CourseError(f"{result.name} was not measured at {x!r} for all: there is {there}.")
    timings = [result.at(name, x) for name in names]
    longest = max(timing.ms for timing in timings)
    axes = new_axes(9, 0.42 * len(names) + 0.85)
    sentences = []
    for row, (name, timing) in enumerate(zip(names, timings, strict=True)):
        style = style_of(name, row)
        least = timing.bytes / result.copy_tb_s / 1e9  # milliseconds
        box(axes, 0, -row + 0.1, timing.ms, 0.8, LIGHT)
        box(axes, 0, -row + 0.1, min(least, timing.ms), 0.8, style.color)
        share = f"{least / timing.ms:.0%} of the roof"
        text = f"{timing.ms * 1e3:,.1f} µs, {timing.speed:.2f} TB/s: {share}"
        label(axes, timing.ms + longest * 0.01, -row + 0.5, text, ha="left")
        if least > longest * 0.12:
            inside = f"{timing.bytes / 1e6:,.0f} MB"
            color = ink(style.color)
            label(axes, min(least, timing.ms) / 2, -row + 0.5, inside, color=color)
        words = legend_text(name, style)
        label(axes, -longest * 0.01, -row + 0.5, words, ha="right", fontsize=9)
        sentences.append(f"{name} takes {text}")
    head = f"{result.name} at {result.x_name} {x:,}, {result.origin(result.machine.gpu)}"
    axes.set_title(f"{head}; the copy roof is {result.copy_tb_s:.2f} TB/s", fontsize=9.5)
    below = "full: as long as a copy of the same bytes takes; gray: all that is longer"
    label(axes, longest * (1 + ROOM) / 2, 0.75 - len(names), below, color=DARK)
    widest = max(len(legend_text(name, style_of(name, 0))) for name in names)
    across = (-longest * widest * 0.017, longest * (1 + ROOM))
    alt = f"{head}. {'; '.join(sentences)}."
    return Picture.of_sketch(axes, across, (0.5 - len(names), 1), alt)
