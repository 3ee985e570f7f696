"""The machine on one page: where data lies on a GPU, how much fits there and how fast it comes."""

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from course.display.colors import PALETTE, ink
from course.display.picture import Picture, new_axes
from course.display.shapes import arrow, label
from course.gpus.measured import GpuFacts, gpu_facts, recorded_facts
from course.gpus.own_gpu import measured_gpu, own_gpu

from .arguments import check_kind


def machine(facts: GpuFacts | None = None) -> Picture:
    """The levels of a GPU's memory, from device memory down to registers.

    facts: by default those of this GPU, or the recorded ones if none answers.
    Below stand the speeds of other GPUs: those recorded, and the reader's own if
    `course doctor --measure` has measured it.
    """
    facts = gpu_facts() if facts is None else facts
    check_kind("machine", facts, GpuFacts, "what gpu_facts() returned")
    memory = f"device memory   {facts.memory_bytes / 2**30:.0f} GiB"
    l2 = f"L2 cache   {facts.l2_bytes / 2**20:.0f} MiB, shared by all multiprocessors"
    parts = (
        (57, PALETTE[3], f"shared memory {facts.shared_bytes / 2**10:.0f} KiB"),
        (69, PALETTE[4], f"registers {facts.register_bytes / 2**10:.0f} KiB"),
        (81, "#555555", f"up to {facts.warps} warps of 32 threads"),
    )
    axes = new_axes(8, 4.2)
    _box(axes, 0, 0, 100, 16, PALETTE[0], memory)
    _box(axes, 0, 28, 100, 14, PALETTE[2], l2)
    for bottom, top, tb_s in ((16, 28, facts.memory_tb_s), (42, 54, facts.l2_tb_s)):
        arrow(axes, (50, bottom), (50, top), style="<->")
        label(axes, 52, (bottom + top) / 2, f"{tb_s:.1f} TB/s", ha="left", fontsize=10)
    for left, number in ((0, 0), (34, 1), (72, facts.multiprocessors - 1)):
        _box(axes, left, 54, 28, 46, "white", "", edge="black")
        label(axes, left + 14, 96, f"multiprocessor {number}", fontsize=9)
        for bottom, color, text in parts:
            _box(axes, left + 2, bottom, 24, 10, color, text, size=8)
    label(axes, 67, 77, "…", fontsize=18)
    speeds = f"speeds {'recorded' if facts.recorded else 'measured now'} on {facts.machine.date}"
    axes.set_title(f"{facts.machine.gpu}: sizes from the driver, {speeds}", fontsize=9)
    others = _others(facts)
    for row, text in enumerate(others, start=1):
        axes.text(0, -7 * row, text, fontsize=8)
    up = (-1 - 7 * len(others), 101)
    return Picture.of_sketch(axes, (-1, 101), up, " ".join([_alt(facts), *others]))


def _others(facts: GpuFacts) -> list[str]:
    """A sentence about each GPU, other than that of `facts`, whose speeds are at hand."""
    recorded, own = measured_gpu(recorded_facts()), own_gpu()
    return [
        f"For comparison, {gpu.name}, {how} on {gpu.measured}: memory {gpu.memory:.2g} TB/s, "
        f"float16 matrix product {gpu.dot['fp16']:.0f} TFLOP/s."
        for gpu, how in ((recorded, "recorded"), (own, "measured"))
        if gpu and gpu.name != facts.machine.gpu
    ]


def _alt(facts: GpuFacts) -> str:
    return (
        "The machine, from far to near. "
        f"Device memory: {facts.memory_bytes / 2**30:.0f} GiB at {facts.memory_tb_s:.1f} TB/s. "
        f"L2 cache: {facts.l2_bytes / 2**20:.0f} MiB at {facts.l2_tb_s:.1f} TB/s. "
        f"{facts.multiprocessors} multiprocessors, each with {facts.shared_bytes / 2**10:.0f} KiB "
        f"of shared memory, {facts.register_bytes / 2**10:.0f} KiB of registers and up to "
        f"{facts.warps} warps of 32 threads."
    )


def _box(
    axes: Axes,
    left: float,
    bottom: float,
    width: float,
    height: float,
    color: str,
    text: str,
    edge: str = "none",
    size: int = 10,
) -> None:
    """A box with round corners and a text in its middle."""
    style = "round,pad=0,rounding_size=1.5"
    corner = (left, bottom)
    axes.add_patch(
        FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=color, edgecolor=edge)
    )
    text_color = "black" if color == "white" else ink(color)
    label(axes, left + width / 2, bottom + height / 2, text, color=text_color, fontsize=size)
