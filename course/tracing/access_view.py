"""What every load and store of a launch touches: by which program, and in how many sectors."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from course.display.colors import DARK, LIGHT, PROGRAMS, WORK, YELLOW, rgb
from course.display.lane_arrows import draw_lane_arrows, lane_legend, sectors_text
from course.display.picture import WIDTH, Picture, new_figure
from course.display.shapes import frame
from course.errors import CourseError
from course.gpus.peaks import GPUS
from course.type_names import AnyValue, Kernel

from .downsample import unpacked
from .records import AccessCounts, TensorPanel
from .survey import survey

MOST_ACCESSES = 8
COALESCED = 1.01
"""Sectors over the least, up to which an access counts as coalesced."""
HEIGHT = 1.95
"""Inches of an access."""
RAMP = ("#DCEBF7", "#08306B")
"""The colors of the first and the last program where there are more than have one of their own."""


# Cells of a tensor that stand out: the field of TensorPanel, their color, its name, what it means.
LOAD_MARKS = (
    ("shared", "#666666", "dark", "read by several programs"),
    ("unwritten", YELLOW, "yellow", "read and written by nobody"),
)
STORE_MARKS = (("twice", "#CC0000", "red", "written by several programs"),)


def access(
    kernel: Kernel, grid: Any, *args: AnyValue, target: str | None = None, **kwargs: AnyValue
) -> Picture:
    """The elements that each program touches, and how a warp's threads reach into memory.

    kernel, grid, args, kwargs: as in kernel[grid](*args, **kwargs); it is run in the interpreter,
        on copies of the tensors.
    target: what it is compiled for, as `lower` or `cost` takes it: which threads ask together
        follows from the compiled layouts.

    A row for every load and store. Left its tensor in the colors of programs, what the first one
    touches framed; right the threads of its first warp in their first request, an arrow from each
    to its sectors of 32 bytes, all on one scale.

    Raises CourseError if the arguments are no launch, or the kernel fails.
    """
    compiled_for = GPUS[target].target if target in GPUS else target
    surveyed = survey("draw.access", kernel, grid, args, kwargs, compiled_for, maps=True)
    counts = surveyed.counts
    accesses = counts.accesses[:MOST_ACCESSES]
    if not accesses:
        raise CourseError(f"{counts.kernel} touches no memory.")
    figure = new_figure(WIDTH, 0.35 + HEIGHT * len(accesses))
    rows = figure.subplots(len(accesses), 2, width_ratios=[1, 4], squeeze=False)
    sentences, legend = [], {}
    for (left, right), each in zip(rows, accesses, strict=True):
        tensor = None if each.tensor is None else counts.tensors[each.tensor]
        name = tensor.name if tensor else "memory of no tensor"
        title = f"line {each.line}: {each.kind} {name}"
        marks = ""
        if tensor:
            marks = _draw_tensor(left, tensor, each.kind, counts.programs)
        else:
            left.axis("off")
        color = WORK["load" if each.kind == "load" else "store"]
        legend["load" if each.kind == "load" else "store"] = color
        lanes = _draw_requests(right, title, each, color)
        sentences.append(f"{title}: {_requests_text(each)}{marks}.{lanes}")
    handles = lane_legend(legend)
    figure.legend(handles=handles, loc="outside lower right", ncols=3, fontsize=8, frameon=False)
    if (more := len(counts.accesses) - MOST_ACCESSES) > 0:
        sentences.append(f"{more} more are not drawn.")
    return Picture.of(figure, " ".join([*sentences, *surveyed.notes]), colors=48)


def _requests_text(counts: AccessCounts) -> str:
    """How an access fares, in words."""
    if counts.by_descriptor:
        return f"{counts.sectors:,} sectors, by tensor descriptor"
    if not counts.requests:
        return "no thread asks for anything"
    ratio = counts.sectors / counts.needed
    verdict = "coalesced" if ratio < COALESCED else f"{ratio:.2f} times the least"
    requests = f"{counts.requests:,} request{'s' if counts.requests != 1 else ''} of a warp"
    sectors = f"{counts.sectors:,} sector{'s' if counts.sectors != 1 else ''}"
    return f"{requests}, {sectors} for {counts.needed:,} at least: {verdict}"


def _draw_tensor(axes: Axes, tensor: TensorPanel, kind: str, programs: int) -> str:
    """The tensor's cells in the colors of programs; returns what the marks mean."""
    down, across = tensor.cells
    marks = LOAD_MARKS if kind == "load" else STORE_MARKS
    owners = unpacked(tensor.reader if kind == "load" else tensor.writer)
    image = np.full((down * across, 3), rgb(LIGHT))
    for program in np.unique(owners[owners > 0]):
        image[owners == program] = _program_color(int(program) - 1, programs)
    meanings = ""
    for field, color, name, meaning in marks:
        marked = unpacked(getattr(tensor, field))
        image[marked] = rgb(color)
        if len(marked):
            meanings += f", {name}: {meaning}"
    # A vector's last line may not be full, and a long flat picture cannot be seen.
    tall = max(1, min(8, math.ceil(across / max(1, down) / 4)))
    pixels = np.repeat(image.reshape(down, across, 3), tall, axis=0)
    axes.imshow(pixels.astype(np.uint8), interpolation="nearest", aspect="equal")
    places = np.argwhere(owners.reshape(down, across) == 1)
    if len(places):
        (top, left), (bottom, right) = places.min(axis=0), places.max(axis=0) + 1
        corner = left - 0.5, top * tall - 0.5
        size = right - left, (bottom - top) * tall
        frame(axes, *corner, *size, edgecolor="black", lw=1.6, clip_on=False, zorder=3)
    axes.set_title(tensor.name, fontsize=9, loc="left")
    below = f"{tensor.dtype} {tensor.shape}\nframed: program 0"
    if programs > len(PROGRAMS):
        below += f"\nlight to dark: 0 to {programs - 1:,}"
    below += meanings.replace(", ", "\n")
    axes.set_xlabel(below, fontsize=7.5, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])
    return meanings


def _program_color(program: int, programs: int) -> tuple[int, ...]:
    """A color of its own for each of a few programs; of many, one between light and dark."""
    if programs <= len(PROGRAMS):
        return rgb(PROGRAMS[program])
    first, last = map(rgb, RAMP)
    share = program / (programs - 1)
    return tuple(round(a + (b - a) * share) for a, b in zip(first, last, strict=True))


def _draw_requests(axes: Axes, title: str, counts: AccessCounts, color: str) -> str:
    """The threads of the first request and the sectors that they touch; a sentence on them."""
    axes.set_title(f"{title}\n{_requests_text(counts)}", fontsize=9, loc="left")
    if counts.lanes:
        touched = draw_lane_arrows(axes, counts.lanes, color)
        count = sum(end > first for first, end in counts.lanes)
        lanes = f"{count} threads reach" if count > 1 else "one thread reaches"
        return f" In the first request {lanes} into {sectors_text(touched)}."
    why = "asks for nothing in the first program"
    if counts.by_descriptor:
        why = "is made of whole rows, by a tensor descriptor"
    axes.text(0.05, 0.5, f"No thread to show: it {why}.", fontsize=9, color=DARK)
    axes.axis("off")
    return ""
