"""The roofline: how fast a kernel can be on a GPU, from how much it computes for each byte.

(S. Williams, A. Waterman and D. Patterson, *Roofline*, Communications of the ACM 52(4), 2009.)
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from course.benching.result import Speeds
from course.display.colors import BLACK, DARK, GRAY, PALETTE
from course.display.picture import Picture
from course.errors import CourseError
from course.gpus.peaks import Gpu, gpu_of
from course.tracing.result import Cost, time_text

from .arguments import SPEEDS, check_kind
from .ladder_plot import draw_point, ladder_points
from .plot import new_plot, plot_picture, write_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST, MOST = 1 / 64, 4096
"""Operations per byte, along the picture, at most so far."""
BESIDE = 8
"""How far the picture goes on beyond its outermost kernels, in times."""


def roofline(
    *costs: Cost | Mapping[str, Cost],
    ladder: Speeds | None = None,
    per_byte: Mapping[str, float] | None = None,
    x: int | None = None,
) -> Picture:
    """Kernels under the roofs of a GPU: its memory's, its L2 cache's and those of its arithmetic.

    costs: what `cost` has returned, all for one GPU; or dicts of such, by the names to show. Each
        has a circle over the operations per byte that memory must move, and a diamond at the same
        height over those per byte that it asks of the L2 cache: each stays under its own roof.
        They are filled at the speed that was measured; hollow at the highest that the roofs
        allow, if nothing was measured. All operations count there, so a kernel that computes
        outside the tensor cores too may stand a little above their roof.
    ladder, per_byte, x: versions that were timed, as `draw.ladder` takes them: diamonds under the
        roof of the L2 cache.
    The L2 cache's roof is there where its speed was measured, and left out otherwise. Dashed are
    the roofs of the reader's own GPU, if `course doctor --measure` has measured it.
    """
    if ladder is not None:
        check_kind("roofline", ladder, Speeds, SPEEDS)
    named = _named(costs)
    points = ladder_points(ladder, per_byte or {}, x) if ladder is not None else []
    if not named and not points:
        raise CourseError("draw.roofline takes what cost has returned, one or several.")
    gpus = [cost.gpu for _, cost in named]
    if ladder is not None:
        gpus.append(gpu_of(ladder.machine.gpu))
    gpu = gpus[0]
    if any(each != gpu for each in gpus):
        raise CourseError(
            "draw.roofline shows one GPU: take each cost for the same one, "
            'as cost.on("H200") gives it.'
        )
    across = [each for _, cost in named for each in (cost.intensity, cost.l2_intensity) if each]
    across += [point.per_byte for point in points]
    kinds = dict.fromkeys(kind for _, cost in named for kind in cost.dot) or ["fp16"]
    levels = _levels(gpu, kinds)
    ridge = max(levels, default=1.0) / gpu.memory
    left = max(LEAST, min([*across, ridge]) / BESIDE)
    right = min(MOST, max([*across, ridge]) * BESIDE)
    axes = new_plot(4.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    sentences = [_draw_roofs(axes, gpu, levels, left, right)]
    own = next((cost.own for _, cost in named if cost.own), None)
    if own and not gpu.measured:
        sentences += _draw_own_roofs(axes, own, left, right)
    for number, (name, cost) in enumerate(named):
        color = PALETTE[number % len(PALETTE)]
        sentences.append(_draw_kernel(axes, name, cost, color, left, right))
    for point in points:
        draw_point(axes, point)
        sentences.append(f"{point.name}: {point.per_byte:.3g} operations per byte asked of the "
                         f"L2 cache, {point.speed:.0f} TFLOP/s.")  # fmt: skip
    if ladder is not None and ladder.outdated:
        axes.set_title(f"{ladder.name}: {ladder.origin(ladder.machine.gpu)}", fontsize=9.5)
        sentences.append(ladder.source)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else _half(value))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    beside = "◇ and timed versions: " if points else "◇ "
    marks = f":  ○ that memory must move   {beside}asked" if named else " asked"
    axes.set_xlabel(f"floating-point operations per byte{marks} of the L2 cache")
    axes.set_ylabel("TFLOP/s")
    return plot_picture(axes, f"The roofs of an {gpu.name}: " + " ".join(sentences))


def _named(costs: tuple[Any, ...]) -> list[tuple[str, Cost]]:
    """Costs by their names; a cost that was given without one has its kernel's."""
    named: list[tuple[str, Cost]] = []
    for cost in costs:
        alone = {getattr(cost, "kernel", ""): cost}
        named += (cost if isinstance(cost, Mapping) else alone).items()
    if not all(isinstance(cost, Cost) and isinstance(name, str) for name, cost in named):
        raise CourseError("draw.roofline takes what cost has returned, one or several.")
    return named


def _half(value: float) -> str:
    """A power of two below one: 1/8."""
    return f"1/{round(1 / value)}"


def _slopes(gpu: Gpu) -> list[tuple[str, float]]:
    """The roofs that rise with the operations per byte: their words, and TB/s."""
    l2 = [(f"L2 cache: {gpu.l2:.2f} TB/s, measured", gpu.l2)] if gpu.l2 else []
    return [(f"memory: {gpu.memory:.4g} TB/s", gpu.memory), *l2]


def _draw_roofs(
    axes: "Axes", gpu: Gpu, levels: Mapping[float, str], left: float, right: float
) -> str:
    """The roofs of a GPU; what they are, as a sentence. levels: those of its arithmetic."""
    top, steepest = max(levels, default=math.inf), gpu.l2 or gpu.memory
    words = []
    for rate, name in levels.items():
        axes.plot([rate / steepest, right], [rate] * 2, color=GRAY, lw=1.2)
        words.append(f"{name}: {rate:.4g} TFLOP/s")
        write_beside(axes, words[-1], (right, rate), (0, 3), "right", 8.5)
    for text, tb_s in reversed(_slopes(gpu)):
        end = min(top / tb_s, right)
        axes.plot([left, end], [left * tb_s, end * tb_s], color=DARK, lw=1.4)
        share, offset, side, va = 0.45, (6, -4), "left", "top"
        for rate in levels:  # a text on a level roof's line would seem to be its name
            crossed = math.log(rate / tb_s / left) / math.log(end / left)
            if abs(share - 0.05 - crossed) < 0.06:
                share = crossed - 0.03
        if tb_s > gpu.memory:
            share, offset, side, va = 0.62, (-4, 4), "right", "bottom"
        at = left * (end / left) ** share
        write_beside(axes, text, (at, at * tb_s), offset, side, 8.5, va)
        words.insert(0, text)
    return f"{', '.join(words)}."


def _draw_own_roofs(axes: "Axes", own: Gpu, left: float, right: float) -> list[str]:
    """The roofs that were measured on the reader's own GPU; a sentence on each."""
    across = np.geomspace(left, right, 200)
    sentences = []
    for rate, name in _levels(own, ["fp16"]).items():
        speeds = f"memory {own.memory:.3g} TB/s, {name}: {rate:.3g} TFLOP/s"
        text = f"measured on {own.name}: {speeds}"
        axes.plot(across, np.minimum(across * own.memory, rate), color=BLACK, ls="--", lw=1.2,
                  label=text)  # fmt: skip
        sentences.append(f"Dashed, {text}.")
    return sentences


def _draw_kernel(axes: "Axes", name: str, cost: Cost, color: str, left: float, right: float) -> str:
    """A kernel's marks; a sentence on it."""
    measured = cost.measured_us is not None
    us = cost.least_us if cost.measured_us is None else cost.measured_us
    bound = "at least" if cost.exact else "by estimate"
    speed = f"{time_text(us)} {'measured' if measured else bound}"
    text = f"{name}: {speed}, bound by {cost.bound}"
    if not cost.flops:
        axes.plot([], [], "s", color=color, label=f"{text}; it computes nothing")
        return f"{text}; no floating-point operations."
    y = cost.flops / us / 1e6
    style: dict[str, Any] = {"color": color, "markeredgewidth": 2, "ls": "", "zorder": 4,
             "markerfacecolor": color if measured else "white"}  # fmt: skip
    places = [min(max(each, left), right) for each in (cost.intensity, cost.l2_intensity)]
    if cost.gpu.l2:
        axes.plot(places, [y, y], color=color, lw=0.8, ls=":")
        axes.plot(places[1], y, "D", ms=7, **style)
    axes.plot(places[0], y, "o", ms=8, label=text, **style)
    return (
        f"{text}, {cost.intensity:.3g} operations per byte of memory traffic, "
        f"{cost.l2_intensity:.3g} per byte asked of the L2 cache."
    )


def _levels(gpu: Gpu, dots: Iterable[str]) -> dict[float, str]:
    """The level roofs of a GPU that are known: TFLOP/s, and whose they are.

    dots: the types that tl.dot multiplies.
    """
    names: dict[float, list[str]] = {}
    if rate := gpu.vector.get("fp32"):
        names.setdefault(rate, []).append("arithmetic, fp32")
    for kind in dots:
        if rate := gpu.dot_rate(kind):
            names.setdefault(rate, []).append(f"tensor cores, {kind}")
    return {rate: "; ".join(words) for rate, words in names.items()}
