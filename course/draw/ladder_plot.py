"""The versions of a matrix product under the roofs of the L2 cache and the tensor cores."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from course.benching.result import Speeds
from course.display.colors import GRAY
from course.display.picture import Picture
from course.errors import CourseError
from course.gpus.measured import gpu_facts, recorded_facts
from course.gpus.peaks import GPUS

from .arguments import SPEEDS, check_kind, check_numbers
from .plot import new_plot, plot_picture, write_beside
from .series_style import Style, legend_text, style_of


@dataclass(frozen=True)
class Point:
    """A version of a ladder at one size."""

    name: str
    x: int
    per_byte: float
    """Operations per byte asked of the L2 cache."""
    speed: float
    """TFLOP/s, as they were measured."""
    style: Style


def ladder(result: Speeds, per_byte: Mapping[str, float], x: int | None = None) -> Picture:
    """Versions by how much they compute for each byte they ask of the L2 cache, under the roofs.

    result: what `bench` returned or `recorded(name)`, in TFLOP/s.
    per_byte: for each version to show its operations per byte asked for, as it was counted: tiles
        of 64 x 64 and two-byte elements give 32.
    x: the size, by default the largest.
    The L2 roof is what was measured on the same GPU by many programs that read the same bytes. The
    level roof is the published peak of the tensor cores, where there is one.
    """
    check_kind("ladder", result, Speeds, SPEEDS)
    check_kind("ladder", per_byte, Mapping, "operations per byte by the names of versions")
    if per_byte:
        check_numbers("ladder", per_byte=per_byte.values())
    points = ladder_points(result, per_byte, x)
    x = points[0].x
    l2 = _l2_tb_s(result)
    peak = next(
        (gpu.dot["fp16"] for gpu in GPUS.values() if result.machine.gpu in gpu.device_names), None
    )
    axes = new_plot()
    across = np.geomspace(min(per_byte.values()) / 2, max(per_byte.values()) * 3, 100)
    if peak:
        across = np.sort(np.append(across, peak / l2))  # the corner, sharp
        text = f"tensor cores: {peak:,.0f} TFLOP/s, published"
        write_beside(axes, text, (across[-1], peak), (0, 4), "right")
    axes.plot(across, np.minimum(across * l2, peak or np.inf), color=GRAY, lw=1.5)
    slope = f"L2 cache: {l2:.2f} TB/s, measured"
    write_beside(axes, slope, (across[40], across[40] * l2), (-6, 4), "right")
    sentences = []
    for point in points:
        bound = min(point.per_byte * l2, peak or np.inf)
        draw_point(axes, point)
        axes.plot([point.per_byte] * 2, [point.speed, bound], color=point.style.color, lw=0.8,
                  ls=":")  # fmt: skip
        sentences.append(
            f"{point.name}: {point.per_byte:.3g} operations per byte, so at most {bound:.0f}; "
            f"{point.speed:.0f} measured"
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set(xlabel="operations per byte asked of the L2 cache", ylabel="TFLOP/s")
    head = f"{result.name} at {result.x_name} {x:,}, {result.origin(result.machine.gpu)}"
    axes.set_title(head, fontsize=9.5)
    roofs = f"The L2 roof is {l2:.2f} TB/s" + (
        f", that of the tensor cores {peak:,.0f} TFLOP/s (published)" if peak else ""
    )
    return plot_picture(axes, f"{head}. {roofs}. In TFLOP/s: {'; '.join(sentences)}.")


def ladder_points(
    result: Speeds, per_byte: Mapping[str, float], x: int | None = None
) -> list[Point]:
    """The versions of a ladder as `ladder` takes them: at least one.

    Raises CourseError where a version was not timed so.
    """
    sizes = result.sizes
    x = sizes[-1] if x is None else x
    if result.unit != "TFLOP/s":
        raise CourseError(f"draw.ladder shows operations; {result.name} was timed by its bytes.")
    for name, rate in per_byte.items():
        if not any(timing.x == x for timing in result.of(name)):
            raise CourseError(
                f"{result.name} has no {name!r} at {result.x_name} {x!r}: there is "
                f"{', '.join(result.series)} at {', '.join(f'{size:,}' for size in sizes)}."
            )
        if not rate > 0:
            raise CourseError(f"draw.ladder: {name} computes {rate!r} operations per byte.")
    if not per_byte:
        raise CourseError('draw.ladder needs versions to show, as {"matmul_v1": 32}.')
    return [
        Point(name, x, rate, result.at(name, x).speed, style_of(name, rank))
        for rank, (name, rate) in enumerate(per_byte.items())
    ]


def draw_point(axes: Axes, point: Point) -> None:
    """A version's mark, with its words for the legend."""
    words = f"{legend_text(point.name, point.style)}, {point.speed:.0f} TFLOP/s"
    (dot,) = axes.plot([point.per_byte], [point.speed], point.style.marker,
                       color=point.style.color, ms=9, label=words)  # fmt: skip
    if point.style.hollow:
        dot.set_markerfacecolor("none")


def _l2_tb_s(result: Speeds) -> float:
    """What was measured of the L2 cache of the GPU that a result is of."""
    for facts in (recorded_facts, gpu_facts):
        if (known := facts()).machine.gpu == result.machine.gpu:
            return known.l2_tb_s
    raise CourseError(f"The speed of the L2 cache of an {result.machine.gpu} is not known here.")
