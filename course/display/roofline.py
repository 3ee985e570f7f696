"""The roofline: how fast a kernel can be on a GPU, from how much it computes for each byte (Williams and others, 2009)."""

import numpy as np

from course.errors import CourseError
from course.tracing.cost import Cost, time_text

from .picture import GREY, PALETTE, Picture, new_figure

LEAST, MOST = 1 / 64, 4096
"""Operations a byte, along the picture."""


def roofline(*costs: Cost) -> Picture:
    """A dot for each kernel under the roofs of its GPU.

    costs: what `cost` has returned, all for one GPU. A filled dot stands at the speed that was measured; a ring at the
        highest that the roofs allow, where nothing was measured.
    """
    if not costs or not all(isinstance(each, Cost) for each in costs):
        raise CourseError("draw.roofline takes what cost has returned, one or several.")
    gpu = costs[0].gpu
    if any(each.gpu != gpu for each in costs):
        raise CourseError('draw.roofline shows one GPU: take each cost for the same one, as cost.on("H200") gives it.')
    figure = new_figure(8, 4.2)
    axes = figure.subplots()
    across = np.geomspace(LEAST, MOST, 200)
    for kind, rate in (("fp32", gpu.vector["fp32"]), *((kind, gpu.dot[kind]) for kind in ("tf32", "fp16") if kind in gpu.dot)):
        axes.plot(across, np.minimum(across * gpu.memory, rate), color=GREY, lw=1.2)
        name = "arithmetic" if kind == "fp32" else "tensor cores"
        axes.text(MOST, rate * 1.06, f"{name}, {kind}: {rate:g} TFLOP/s", ha="right", fontsize=8, color="#555555")
    axes.text(
        LEAST * 1.3, LEAST * 1.3 * gpu.memory * 1.35, f"memory: {gpu.memory:g} TB/s", fontsize=8, color="#555555", rotation=32
    )
    sentences = []
    for number, each in enumerate(costs):
        us = each.least_us if each.measured_us is None else each.measured_us
        colour = PALETTE[number % len(PALETTE)]
        what = f"{each.kernel}: {time_text(us)} {'at least' if each.measured_us is None else 'measured'}, bound by {each.bound}"
        if each.flops:
            place = (min(max(each.intensity, LEAST), MOST), each.flops / us / 1e6)
            filled = colour if each.measured_us is not None else "white"
            axes.plot(*place, "o", markersize=8, markerfacecolor=filled, markeredgecolor=colour, markeredgewidth=2, label=what)
            sentences.append(f"{what}, {each.intensity:.3g} operations a byte.")
        else:
            axes.plot([], [], "s", color=colour, label=f"{what}; it computes nothing in floating point")
            sentences.append(f"{what}; no floating-point operations.")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(LEAST, MOST)
    axes.set_xlabel("floating-point operations for each byte of memory traffic")
    axes.set_ylabel("TFLOP/s")
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return Picture.of(figure, f"The roofs of an {gpu.name}. " + " ".join(sentences))
