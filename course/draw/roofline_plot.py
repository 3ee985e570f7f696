"""The roofline: how fast a kernel can be on a GPU, from how much it computes for each byte (Williams and others, 2009)."""

import numpy as np

from course.display.picture import GREY, PALETTE, Picture, new_figure
from course.errors import CourseError
from course.gpus.peaks import Gpu
from course.tracing.cost import Cost, time_text

LEAST, MOST = 1 / 64, 4096
"""Operations a byte, along the picture."""
ACROSS = np.geomspace(LEAST, MOST, 200)


def roofline(*costs: Cost) -> Picture:
    """A dot for each kernel under the roofs of its GPU.

    costs: what `cost` has returned, all for one GPU. A filled dot stands at the speed that was measured; a ring at the
        highest that the roofs allow, where nothing was measured.
    The dashed roofs are those of the reader's own GPU, where `course doctor --measure` has measured it.
    """
    if not costs or not all(isinstance(each, Cost) for each in costs):
        raise CourseError("draw.roofline takes what cost has returned, one or several.")
    gpu = costs[0].gpu
    if any(each.gpu != gpu for each in costs):
        raise CourseError(
            'draw.roofline shows one GPU: take each cost for the same one, as cost.on("H200") gives it.'
        )
    figure = new_figure(8, 4.2)
    axes = figure.subplots()
    for kind, rate in _rates(gpu):
        axes.plot(ACROSS, np.minimum(ACROSS * gpu.memory, rate), color=GREY, lw=1.2)
        name = "arithmetic" if kind == "fp32" else "tensor cores"
        axes.text(
            MOST,
            rate * 1.06,
            f"{name}, {kind}: {rate:.4g} TFLOP/s",
            ha="right",
            fontsize=8,
            color="#555555",
        )
    axes.text(
        LEAST * 1.3,
        LEAST * 1.3 * gpu.memory * 1.35,
        f"memory: {gpu.memory:.4g} TB/s",
        fontsize=8,
        color="#555555",
        rotation=32,
    )
    sentences = []
    own = costs[0].own
    if own and not gpu.measured:
        for kind, rate in _rates(own):
            text = f"measured on {own.name}: memory {own.memory:.3g} TB/s, tensor cores, {kind}: {rate:.3g} TFLOP/s"
            axes.plot(
                ACROSS,
                np.minimum(ACROSS * own.memory, rate),
                color="black",
                ls="--",
                lw=1.2,
                label=text,
            )
            sentences.append(f"Dashed, {text}.")
    for number, each in enumerate(costs):
        us = each.least_us if each.measured_us is None else each.measured_us
        colour = PALETTE[number % len(PALETTE)]
        what = f"{each.kernel}: {time_text(us)} {'at least' if each.measured_us is None else 'measured'}, bound by {each.bound}"
        if each.flops:
            place = (min(max(each.intensity, LEAST), MOST), each.flops / us / 1e6)
            filled = colour if each.measured_us is not None else "white"
            axes.plot(
                *place,
                "o",
                markersize=8,
                markerfacecolor=filled,
                markeredgecolor=colour,
                markeredgewidth=2,
                label=what,
            )
            sentences.append(f"{what}, {each.intensity:.3g} operations a byte.")
        else:
            axes.plot(
                [], [], "s", color=colour, label=f"{what}; it computes nothing in floating point"
            )
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


def _rates(gpu: Gpu) -> list[tuple[str, float]]:
    """The level roofs of a GPU: those of its arithmetic and its tensor cores that are known."""
    known = [
        ("fp32", gpu.vector.get("fp32")),
        *((kind, gpu.dot.get(kind)) for kind in ("tf32", "fp16")),
    ]
    return [(kind, rate) for kind, rate in known if rate]
