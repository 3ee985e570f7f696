"""The roofline: how fast a kernel can be on a GPU, from how much it computes for each byte.

(S. Williams, A. Waterman and D. Patterson, *Roofline*, Communications of the ACM 52(4), 2009.)
"""

from functools import partial

import numpy as np
from matplotlib.axes import Axes

from course.display.colours import GREY, PALETTE
from course.display.picture import Picture, new_figure
from course.errors import CourseError
from course.gpus.peaks import Gpu
from course.tracing.result import Cost, time_text

LEAST, MOST = 1 / 64, 4096
"""Operations per byte, along the picture."""
INTENSITIES = np.geomspace(LEAST, MOST, 200)


def roofline(*costs: Cost) -> Picture:
    """A dot for each kernel under the roofs of its GPU.

    costs: what `cost` has returned, all for one GPU. A filled dot stands at the speed that was
        measured; a ring at the highest that the roofs allow, if nothing was measured.
    Dashed are the roofs of the reader's own GPU, if `course doctor --measure` has measured it.
    """
    if not costs or not all(isinstance(cost, Cost) for cost in costs):
        raise CourseError("draw.roofline takes what cost has returned, one or several.")
    gpu = costs[0].gpu
    if any(cost.gpu != gpu for cost in costs):
        raise CourseError(
            "draw.roofline shows one GPU: take each cost for the same one, "
            'as cost.on("H200") gives it.'
        )
    figure = new_figure(8, 4.2)
    axes = figure.subplots()
    _draw_roofs(axes, gpu)
    sentences = _draw_own_roofs(axes, costs[0].own) if costs[0].own and not gpu.measured else []
    for number, cost in enumerate(costs):
        sentences.append(_draw_kernel(axes, cost, PALETTE[number % len(PALETTE)]))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(LEAST, MOST)
    axes.set_xlabel("floating-point operations for each byte of memory traffic")
    axes.set_ylabel("TFLOP/s")
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return Picture.of(figure, f"The roofs of an {gpu.name}. " + " ".join(sentences))


def _draw_roofs(axes: Axes, gpu: Gpu) -> None:
    write = partial(axes.text, fontsize=8, color="#555555")
    for kind, rate in _rates(gpu):
        axes.plot(INTENSITIES, np.minimum(INTENSITIES * gpu.memory, rate), color=GREY, lw=1.2)
        name = "arithmetic" if kind == "fp32" else "tensor cores"
        write(MOST, rate * 1.06, f"{name}, {kind}: {rate:.4g} TFLOP/s", ha="right")
    x, y = LEAST * 1.3, LEAST * 1.3 * gpu.memory * 1.35
    write(x, y, f"memory: {gpu.memory:.4g} TB/s", rotation=32)


def _draw_own_roofs(axes: Axes, own: Gpu) -> list[str]:
    """The roofs that were measured on the reader's own GPU; a sentence on each."""
    sentences = []
    for kind, rate in _rates(own):
        speeds = f"memory {own.memory:.3g} TB/s, tensor cores, {kind}: {rate:.3g} TFLOP/s"
        text = f"measured on {own.name}: {speeds}"
        roof = np.minimum(INTENSITIES * own.memory, rate)
        axes.plot(INTENSITIES, roof, color="black", ls="--", lw=1.2, label=text)
        sentences.append(f"Dashed, {text}.")
    return sentences


def _draw_kernel(axes: Axes, cost: Cost, colour: str) -> str:
    """A kernel's dot or ring; a sentence on it."""
    measured = cost.measured_us is not None
    us = cost.least_us if cost.measured_us is None else cost.measured_us
    speed = f"{time_text(us)} {'measured' if measured else 'at least'}"
    text = f"{cost.kernel}: {speed}, bound by {cost.bound}"
    if not cost.flops:
        name = f"{text}; it computes nothing in floating point"
        axes.plot([], [], "s", color=colour, label=name)
        return f"{text}; no floating-point operations."
    x, y = min(max(cost.intensity, LEAST), MOST), cost.flops / us / 1e6
    filling = colour if measured else "white"
    (dot,) = axes.plot(x, y, "o", color=colour, label=text, markersize=8, markeredgewidth=2)
    dot.set_markerfacecolor(filling)
    return f"{text}, {cost.intensity:.3g} operations a byte."


def _rates(gpu: Gpu) -> list[tuple[str, float]]:
    """The level roofs of a GPU: those of its arithmetic and its tensor cores that are known."""
    rates = {
        "fp32": gpu.vector.get("fp32"),
        "tf32": gpu.dot.get("tf32"),
        "fp16": gpu.dot.get("fp16"),
    }
    return [(kind, rate) for kind, rate in rates.items() if rate]
