"""Warps in time, as they were recorded: what each of them does or waits for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter

from course.display.colors import DARK, GRAY, LIGHT, SKY, WORK, YELLOW, paler
from course.display.picture import Picture, new_axes
from course.display.shapes import legend_below
from course.errors import CourseError

from .arguments import check_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from course.benching.attention_timeline import LaunchTimeline, Span

# What a warp does has its color; waiting for another's work has that work's, paler.
COLORS = {
    "start a copy": WORK["load"],
    "wait for a tile": paler(WORK["load"], 0.6),
    "wait for a slot": LIGHT,
    "wait for its turn": YELLOW,
    "start a product": WORK["dot"],
    "wait for a product": paler(WORK["dot"], 0.6),
    "softmax": WORK["softmax"],
    "rescale": SKY,
    "store the output": WORK["store"],
}
PRODUCTS = "products"
"""The row that shows when any warp has a product under way."""
ROW, ABOVE_AND_BELOW = 0.34, 1.35
"""Inches of a row, and of what stands around the rows."""
HEIGHT = 0.8
"""Height of a bar, where a row has 1."""


def timeline(
    launch: "LaunchTimeline", warps: str = "groups", between: tuple[int, int] | None = None
) -> Picture:
    """What each warp of a recorded launch does when, in cycles of its multiprocessor.

    launch: one of `attention_timeline()`, such as `attention_timeline().of("two consumers")`.
    warps: "groups" shows the first warp of each warp group, since its four go nearly in step;
        "all" shows every warp. between: the cycles to show, by default all; they may go on beyond
        the launch's end, so that two pictures have one scale.
    Programs that follow one another share a row.
    White is what has no name, such as the arithmetic of a loop, or a warp that has ended.
    Raises CourseError for other words, and where no cycles lie between the two.
    """
    from course.benching.attention_timeline import LaunchTimeline  # who has one has loaded it

    launches = 'one of `attention_timeline()`, as attention_timeline().of("two consumers")'
    check_kind("timeline", launch, LaunchTimeline, launches)
    if warps not in ("groups", "all"):
        raise CourseError(f'draw.timeline shows warps="groups" or warps="all", not {warps!r}.')
    first, last = between or (0, launch.cycles)
    if not 0 <= first < min(last, launch.cycles):
        raise CourseError(
            "draw.timeline takes two numbers of cycles, of which the first is the smaller one, and "
            f"below {launch.cycles:,}; not {between}."
        )
    rows = _rows(launch, warps == "all")
    axes = new_axes(9, ROW * (len(rows) + 1) + ABOVE_AND_BELOW)
    for place, spans in enumerate(rows.values()):
        for state, color in COLORS.items():
            bars = [span for span in spans if span.state == state]
            _bars(axes, place, [(span.start, span.end) for span in bars], color)
    _bars(axes, len(rows), launch.with_product, WORK["dot"])
    names = [*rows, PRODUCTS]
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(first, last)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda cycles, _: f"{cycles:,.0f}"))
    axes.tick_params(labelsize=8.5, length=0)
    axes.tick_params(axis="x", length=3, colors=DARK)
    axes.set_xlabel("cycles", fontsize=9)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(GRAY)
    shown = {span.state for spans in rows.values() for span in spans}
    legend_below(axes, {name: color for name, color in COLORS.items() if name in shown}, 4)
    record = launch.record
    origin = record.origin(record.machine.gpu)
    settings = f"D = {launch.launch.head_dim}, {launch.launch.length:,} keys"
    head = f"{launch.name}, {settings}: one multiprocessor, {origin}"
    axes.set_title(head, fontsize=9.5, loc="left")
    return Picture.of_axes(axes, _words(launch, first, last))


def _rows(launch: "LaunchTimeline", each: bool) -> dict[str, "list[Span]"]:
    """The rows from above by their names: what one warp does, or the same warp of programs that
    follow one another. Programs that run at the same time have rows of their own."""
    lanes: list[int] = []  # when the last program of each has ended
    rows: dict[str, list[Span]] = {}
    several = launch.side_by_side
    for place, program in enumerate(launch.launch.programs):
        start, end = launch.extent(place)
        lane = next((number for number, last in enumerate(lanes) if last <= start), len(lanes))
        lanes[lane : lane + 1] = [end]
        shown = set()
        for warp in program.warps:
            if each or warp.role not in shown:
                shown.add(warp.role)
                name = f"{warp.role}, warp {warp.number}" if each else warp.role
                name = f"program {lane}: {name}" if several else name
                rows.setdefault(name, []).extend(launch.spans[place, warp.number])
    return rows


def _bars(axes: "Axes", row: int, intervals: Sequence[tuple[int, int]], color: str) -> None:
    lengths = [(start, end - start) for start, end in intervals]
    axes.broken_barh(lengths, (row - HEIGHT / 2, HEIGHT), facecolors=color, linewidth=0)


def _words(launch: "LaunchTimeline", first: int, last: int) -> str:
    """The picture in words: what each role spends its time with."""
    spent = []
    for role, shares in launch.shares.items():
        parts = [f"{state} {share:.0%}" for state, share in shares.items() if share >= 0.005]
        spent.append(f"{role}: {', '.join(parts)}")
    source = f" {launch.record.source}" if launch.record.outdated else ""
    return (
        f"The warps of {launch.name!r} in time, cycles {first:,} to {last:,} of {launch.cycles:,}. "
        f"Shares of the time by role: {'; '.join(spent)}. No warp has a product under way for "
        f"{launch.without_product:.0%} of the time.{source}"
    )
