"""Plot measured or recorded speeds: bytes a second over sizes, with the copy roof."""

from course.errors import CourseError
from course.measuring.records import Speeds

from .picture import GREY, PALETTE, Picture, new_figure

MARKERS = "osD^vP*X"


MOST_COUNTED = 16
"""A setting of which none is larger is counted, and not doubled from one to the next."""


def speeds(result: Speeds, series: list[str] | None = None) -> Picture:
    """Terabytes a second over the size, one line a function, with the copy roof of the same run.

    result: what `bench` returned or `recorded(name)`; the title says which of the two it is.
    series: the functions to show; all by default.
    """
    shown = series or result.series
    for name in shown:
        if name not in result.series:
            raise CourseError(f"There is no series {name!r} in {result.name}: there is {', '.join(result.series)}.")
    figure = new_figure(8, 4)
    axes = figure.subplots()
    for rank, (name, colour, marker) in enumerate(zip(shown, PALETTE * 2, MARKERS * 2, strict=False)):
        timings = result.of(name)
        xs = [timing.x for timing in timings]
        # The first is the one it is about: it lies on top where lines meet.
        (line,) = axes.plot(xs, [timing.tb_s for timing in timings], marker=marker, ms=4, lw=1.5, color=colour, label=name)
        line.set_zorder(10 - rank)
        axes.fill_between(
            xs,
            [timing.bytes / timing.ms_high / 1e9 for timing in timings],
            [timing.bytes / timing.ms_low / 1e9 for timing in timings],
            color=colour, alpha=0.15, lw=0,
        )  # fmt: skip
    axes.axhline(result.copy_tb_s, color=GREY, ls="--", lw=1.2)
    # Above the lines that touch the roof.
    axes.text(0.01, 1.03 * result.copy_tb_s, "copy roof", va="bottom", color="#555555", transform=axes.get_yaxis_transform())
    xs = sorted({timing.x for timing in result.timings})
    if max(xs) <= MOST_COUNTED:
        axes.set_xticks(xs)
    else:
        axes.set_xscale("log", base=2)
    axes.set_ylim(0, result.copy_tb_s * 1.12)
    axes.set(xlabel=result.x_name, ylabel="TB/s")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="best")
    axes.set_title(f"{result.name}: {'recorded' if result.recorded else 'measured now'} on {result.machine}", fontsize=9)
    return Picture.of(figure, _alt(result, shown))


def _alt(result: Speeds, shown: list[str]) -> str:
    best = []
    for name in shown:
        top = max(result.of(name), key=lambda timing: timing.tb_s)
        best.append(f"{name} at most {top.tb_s:.2f} TB/s at {result.x_name} {top.x:,}")
    kind = "recorded" if result.recorded else "measured now"
    return (
        f"Speed over {result.x_name} ({kind} on {result.machine}); the copy roof is {result.copy_tb_s:.2f} TB/s: "
        + "; ".join(best) + "."
    )  # fmt: skip
