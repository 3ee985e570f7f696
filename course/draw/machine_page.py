"""The machine on one page: where data lies on a GPU, how much fits there and how fast it comes."""

from course.display.picture import PALETTE, Picture, ink, new_figure
from course.gpus.measured import GpuFacts, gpu_facts, recorded_facts
from course.gpus.own_gpu import measured_gpu, own_gpu


def machine(facts: GpuFacts | None = None) -> Picture:
    """Draw the levels of a GPU's memory, from device memory down to registers.

    facts: by default those of this GPU, or the recorded ones where none answers.
    Below stand the speeds of other GPUs: those recorded, and the reader's own if `course doctor --measure` has measured it.
    """
    facts = facts or gpu_facts()
    figure = new_figure(8, 4.2)
    axes = figure.subplots()
    _box(axes, 0, 0, 100, 16, PALETTE[0], f"device memory   {facts.memory_bytes / 2**30:.0f} GiB")
    _box(
        axes,
        0,
        28,
        100,
        14,
        PALETTE[2],
        f"L2 cache   {facts.l2_bytes / 2**20:.0f} MiB, shared by all multiprocessors",
    )
    _arrow(axes, 50, 16, 28, f"{facts.memory_tb_s:.1f} TB/s")
    _arrow(axes, 50, 42, 54, f"{facts.l2_tb_s:.1f} TB/s")
    for left, number in ((0, 0), (34, 1), (72, facts.multiprocessors - 1)):
        _box(axes, left, 54, 28, 46, "white", "", edge="black")
        axes.text(left + 14, 96, f"multiprocessor {number}", ha="center", va="center", fontsize=9)
        _box(
            axes,
            left + 2,
            57,
            24,
            10,
            PALETTE[3],
            f"shared memory {facts.shared_bytes / 2**10:.0f} KiB",
            size=8,
        )
        _box(
            axes,
            left + 2,
            69,
            24,
            10,
            PALETTE[4],
            f"registers {facts.register_bytes / 2**10:.0f} KiB",
            size=8,
        )
        _box(
            axes,
            left + 2,
            81,
            24,
            10,
            "#555555",
            f"up to {facts.warps} warps of 32 threads",
            size=8,
        )
    axes.text(67, 77, "…", ha="center", va="center", fontsize=18)
    kind = "recorded" if facts.recorded else "measured now"
    axes.set_title(
        f"{facts.machine.gpu}: sizes from the driver, speeds {kind} on {facts.machine.date}",
        fontsize=9,
    )
    axes.set_xlim(-1, 101)
    others = _others(facts)
    for row, text in enumerate(others, start=1):
        axes.text(0, -7 * row, text, fontsize=8)
    axes.set_ylim(-1 - 7 * len(others), 101)
    axes.axis("off")
    return Picture.of(figure, " ".join([_alt(facts), *others]))


def _others(facts: GpuFacts) -> list[str]:
    """A sentence about each GPU, other than that of `facts`, whose speeds are at hand."""
    recorded, own = measured_gpu(recorded_facts()), own_gpu()
    found = [
        (gpu, how)
        for gpu, how in ((recorded, "recorded"), (own, "measured"))
        if gpu and gpu.name != facts.machine.gpu
    ]
    return [
        f"For comparison, {gpu.name}, {how} on {gpu.measured}: memory {gpu.memory:.2g} TB/s, "
        f"float16 matrix product {gpu.dot['fp16']:.0f} TFLOP/s."
        for gpu, how in found
    ]


def _alt(facts: GpuFacts) -> str:
    return (
        f"The machine, from far to near. Device memory: {facts.memory_bytes / 2**30:.0f} GiB at {facts.memory_tb_s:.1f} TB/s. "
        f"L2 cache: {facts.l2_bytes / 2**20:.0f} MiB at {facts.l2_tb_s:.1f} TB/s. {facts.multiprocessors} multiprocessors, "
        f"each with {facts.shared_bytes / 2**10:.0f} KiB of shared memory, {facts.register_bytes / 2**10:.0f} KiB of "
        f"registers and up to {facts.warps} warps of 32 threads."
    )


def _box(axes, left, bottom, width, height, colour, text, edge="none", size=10):
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (left, bottom),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=1.5",
            facecolor=colour,
            edgecolor=edge,
        )
    )
    axes.text(
        left + width / 2,
        bottom + height / 2,
        text,
        ha="center",
        va="center",
        color="black" if colour == "white" else ink(colour),
        fontsize=size,
    )


def _arrow(axes, x, start, end, text):
    axes.annotate("", xy=(x, end), xytext=(x, start), arrowprops={"arrowstyle": "<->", "lw": 1.5})
    axes.text(x + 2, (start + end) / 2, text, va="center", fontsize=10)
