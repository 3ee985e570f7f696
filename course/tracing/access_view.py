"""What every load and store of a launch touches: by which program, and in how many sectors."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from course.display.colours import GREY, LIGHT, PALETTE
from course.display.picture import Picture, new_figure
from course.display.shapes import box, label
from course.errors import CourseError
from course.gpus.peaks import GPUS
from course.lowering.memory_requests import SECTOR_BYTES
from course.type_names import AnyValue, Kernel

from .downsample import unpacked
from .records import AccessCounts, TensorPanel
from .survey import survey

MOST_ACCESSES = 8
PROGRAM_COLOURS = PALETTE[:6]
STRIP = 40
"""Sectors across in the strip of a request."""
COALESCED = 1.01
"""Sectors over the least, up to which an access counts as coalesced."""


@dataclass(frozen=True)
class _Mark:
    """Cells of a tensor that stand out."""

    field: str
    """The field of `TensorPanel`."""
    colour: str
    name: str
    meaning: str


LOAD_MARKS = (
    _Mark("shared", "#666666", "dark", "read by several programs"),
    _Mark("unwritten", "#F0E442", "yellow", "read and written by nobody"),
)
STORE_MARKS = (_Mark("twice", "#CC0000", "red", "written by several programs"),)


def access(
    kernel: Kernel, grid: Any, *args: AnyValue, target: str | None = None, **kwargs: AnyValue
) -> Picture:
    """The elements that each program touches, and the sectors of a warp's requests.

    kernel, grid, args, kwargs: as in kernel[grid](*args, **kwargs); it is run in the interpreter,
        on copies of the tensors.
    target: what it is compiled for, as `lower` or `cost` takes it: which lanes ask together follows
        from the compiled layouts.

    A row for every load and store. Left its tensor, each colour a program (six in turn); right the
    first requests of the first program, a cell for each sector of 32 bytes. Raises CourseError if
    the launch is none, or fails.
    """
    compiled_for = GPUS[target].target if target in GPUS else target
    surveyed = survey("draw.access", kernel, grid, args, kwargs, compiled_for)
    counts = surveyed.counts
    accesses = counts.accesses[:MOST_ACCESSES]
    if not accesses:
        raise CourseError(f"{counts.kernel} touches no memory.")
    figure = new_figure(9, 0.6 + 1.35 * len(accesses))
    rows = figure.subplots(len(accesses), 2, width_ratios=[1, 2.2], squeeze=False)
    sentences = []
    for (left, right), each in zip(rows, accesses, strict=True):
        tensor = None if each.tensor is None else counts.tensors[each.tensor]
        name = tensor.name if tensor else "memory of no tensor"
        title = f"line {each.line}: {each.kind} {name}"
        marks = ""
        if tensor:
            marks = _draw_tensor(left, tensor, LOAD_MARKS if each.kind == "load" else STORE_MARKS)
            left.set_title(title, fontsize=9, loc="left")
        else:
            left.axis("off")
        _draw_requests(right, each)
        sentences.append(f"{title}: {_requests_text(each)}{marks}.")
    if (more := len(counts.accesses) - MOST_ACCESSES) > 0:
        sentences.append(f"{more} more are not drawn.")
    return Picture.of(figure, " ".join([*sentences, *surveyed.notes]), colours=48)


def _requests_text(counts: AccessCounts) -> str:
    """How an access fares, in words."""
    if counts.by_descriptor:
        return f"{counts.sectors:,} sectors, by tensor descriptor"
    if not counts.requests:
        return "no lane asks for anything"
    ratio = counts.sectors / counts.least
    verdict = "coalesced" if ratio < COALESCED else f"{ratio:.2f} times the least"
    requests = f"{counts.requests:,} request{'s' if counts.requests != 1 else ''} of a warp"
    sectors = f"{counts.sectors:,} sector{'s' if counts.sectors != 1 else ''}"
    return f"{requests}, {sectors} for {counts.least:,} at least: {verdict}"


def _draw_tensor(axes: Axes, tensor: TensorPanel, marks: tuple[_Mark, ...]) -> str:
    """The tensor's cells in the colours of programs; returns what the marks mean."""
    down, across = tensor.cells
    programs = unpacked(tensor.writer if marks == STORE_MARKS else tensor.reader)
    image = np.full((down * across, 3), _rgb(LIGHT))
    for turn, colour in enumerate(PROGRAM_COLOURS):
        image[(programs > 0) & ((programs - 1) % len(PROGRAM_COLOURS) == turn)] = _rgb(colour)
    meanings = ""
    for mark in marks:
        marked = unpacked(getattr(tensor, mark.field))
        image[marked] = _rgb(mark.colour)
        if len(marked):
            meanings += f", {mark.name}: {mark.meaning}"
    # A vector's last line may not be full, and a long flat picture cannot be seen.
    tall = max(1, min(8, math.ceil(across / max(1, down) / 4)))
    pixels = np.repeat(image.reshape(down, across, 3), tall, axis=0)
    axes.imshow(pixels, interpolation="nearest", aspect="equal")
    below = f"{tensor.dtype} {tensor.shape}{meanings.replace(', dark', ' dark', 1)}"
    axes.set_xlabel(below, fontsize=7, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])
    return meanings


def _draw_requests(axes: Axes, counts: AccessCounts) -> None:
    """A strip for each of the first requests: the sectors that it touches, from the first on."""
    rows = [sectors for sectors in counts.first if sectors]
    for y, sectors in enumerate(rows):
        first, span = sectors[0], sectors[-1] - sectors[0] + 1
        scale = max(1.0, span / STRIP)  # far apart: places, no longer to scale with their width
        bottom, width = -y - 0.8, max(0.35, 1 / scale)
        box(axes, 0, bottom, STRIP, 0.8, LIGHT)
        for sector in sectors:
            x = (sector - first) / scale
            box(axes, x, bottom, width, 0.8, PALETTE[0], edgecolor="white", lw=0.4)
        far, near = f" over {span * SECTOR_BYTES:,} bytes", f" from byte {first * SECTOR_BYTES:,}"
        text = f"{len(sectors)} sector{'s' if len(sectors) > 1 else ''}{far if scale > 1 else near}"
        label(axes, STRIP + 0.6, -y - 0.4, text, ha="left", fontsize=7)
    colour = "black" if counts.sectors <= counts.least else "#B00020"
    axes.set_title(_requests_text(counts), fontsize=8, loc="left", color=colour)
    if not rows:
        axes.text(0, -0.5, "the first program asks for nothing", fontsize=8, color=GREY)
    axes.set_xlim(-0.3, STRIP + 17)
    axes.set_ylim(-max(4, len(rows)), 0.1)
    axes.axis("off")


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
