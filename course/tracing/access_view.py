"""What every load and store of a launch touches: by which program, and in how many sectors a warp asks for it."""

import math
from typing import Any

import numpy as np

from course.display.picture import GREY, LIGHT, PALETTE, Picture, new_figure
from course.errors import CourseError
from course.gpus.peaks import GPUS
from course.lowering.memory_requests import SECTOR_BYTES

from .downsample import unpacked
from .traced import traced

MOST_ACCESSES = 8
PROGRAM_COLOURS = PALETTE[:6]
SEVERAL, TWICE, UNWRITTEN = "#666666", "#CC0000", "#F0E442"
STRIP = 40
"""Sectors across in the strip of a request."""


def access(kernel: Any, grid: Any, *args: Any, target: str | None = None, **kwargs: Any) -> Picture:
    """For every load and store of a launch: the elements that each program touches, and the sectors of a warp's requests.

    kernel, grid, args, kwargs: as in kernel[grid](*args, **kwargs); it is run in the interpreter, on copies of the tensors.
    target: what it is compiled for, as `lower` or `cost` takes it: which lanes ask together follows from the compiled layouts.

    Left a tensor, each colour a program (six in turn); right the first requests of the first program, a cell for each
    sector of 32 bytes. Raises CourseError where the launch is none, or fails.
    """
    found = traced(
        "draw.access", kernel, grid, args, kwargs, GPUS[target].target if target in GPUS else target
    )
    shown = found.content["accesses"][:MOST_ACCESSES]
    if not shown:
        raise CourseError(f"{found.content['kernel']} touches no memory.")
    figure = new_figure(9, 0.6 + 1.35 * len(shown))
    rows = figure.subplots(len(shown), 2, width_ratios=[1, 2.2], squeeze=False)
    sentences = []
    for (left, right), each in zip(rows, shown, strict=True):
        tensor = found.content["tensors"][each["tensor"]] if each["tensor"] is not None else None
        title = f"line {each['line']}: {each['kind']} {tensor['name'] if tensor else 'memory of no tensor'}"
        marks = _draw_tensor(left, tensor, each["kind"], title) if tensor else _blank(left)
        _draw_requests(right, each)
        sentences.append(f"{title}: {_said(each)}{marks}.")
    if len(found.content["accesses"]) > MOST_ACCESSES:
        sentences.append(f"{len(found.content['accesses']) - MOST_ACCESSES} more are not drawn.")
    return Picture.of(figure, " ".join([*sentences, *found.notes]), colours=48)


def _said(each: dict[str, Any]) -> str:
    """How an access fares, in words."""
    if each["by_descriptor"]:
        return f"{each['sectors']:,} sectors, by tensor descriptor"
    if not each["requests"]:
        return "no lane asks for anything"
    ratio = each["sectors"] / each["least"]
    how = "coalesced" if ratio < 1.01 else f"{ratio:.2f} times the least"
    requests, sectors = (
        f"{each[name]:,} {name[:-1] if each[name] == 1 else name}"
        for name in ("requests", "sectors")
    )
    return f"{requests} of a warp, {sectors} for {each['least']:,} at least: {how}"


def _draw_tensor(axes: Any, tensor: dict[str, Any], kind: str, title: str) -> str:
    """The tensor's cells in the colours of programs; returns what the marks say."""
    down, across = tensor["cells"]
    programs = unpacked(tensor["reader" if kind == "load" else "writer"]).astype(int)
    image = np.full((down * across, 3), _rgb(LIGHT))
    for turn, colour in enumerate(PROGRAM_COLOURS):
        image[(programs > 0) & ((programs - 1) % len(PROGRAM_COLOURS) == turn)] = _rgb(colour)
    said = ""
    marks = (
        [("shared", SEVERAL, "read by several programs")]
        if kind == "load"
        else [("twice", TWICE, "written by several programs")]
    )
    if kind == "load":
        marks.append(("unwritten", UNWRITTEN, "read and written by nobody"))
    for name, colour, words in marks:
        cells = unpacked(tensor[name])
        image[cells] = _rgb(colour)
        said += (
            f", {'dark' if name == 'shared' else 'red' if name == 'twice' else 'yellow'}: {words}"
            if len(cells)
            else ""
        )
    # A vector's last line may not be full, and a long flat picture cannot be seen.
    wide = max(1, min(8, math.ceil(across / max(1, down) / 4)))
    axes.imshow(
        np.repeat(image.reshape(down, across, 3), wide, axis=0),
        interpolation="nearest",
        aspect="equal",
    )
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(
        f"{tensor['dtype']} {tuple(tensor['shape'])}{said.replace(', dark', ' dark', 1)}",
        fontsize=7,
        loc="left",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    return said


def _blank(axes: Any) -> str:
    axes.axis("off")
    return ""


def _draw_requests(axes: Any, each: dict[str, Any]) -> None:
    """A strip for each of the first requests: the sectors that it touches, from its first one on."""
    from matplotlib.patches import Rectangle

    rows = [row for row in each["first"] if row]
    for y, row in enumerate(rows):
        span = row[-1] - row[0] + 1
        scale = max(1.0, span / STRIP)  # far apart: places, no longer to scale with their width
        axes.add_patch(Rectangle((0, -y - 0.8), STRIP, 0.8, facecolor=LIGHT, edgecolor="none"))
        for sector in row:
            axes.add_patch(
                Rectangle(
                    ((sector - row[0]) / scale, -y - 0.8),
                    max(0.35, 1 / scale),
                    0.8,
                    facecolor=PALETTE[0],
                    edgecolor="white",
                    lw=0.4,
                )
            )
        far = f" over {span * SECTOR_BYTES:,} bytes" if scale > 1 else ""
        aligned = f" from byte {row[0] * SECTOR_BYTES:,}"
        axes.text(
            STRIP + 0.6,
            -y - 0.4,
            f"{len(row)} sector{'s' if len(row) > 1 else ''}{far or aligned}",
            fontsize=7,
            va="center",
        )
    axes.set_title(
        _said(each),
        fontsize=8,
        loc="left",
        color="black" if each["sectors"] <= each["least"] else "#B00020",
    )
    if not rows:
        axes.text(0, -0.5, "the first program asks for nothing", fontsize=8, color=GREY)
    axes.set_xlim(-0.3, STRIP + 17)
    axes.set_ylim(-max(4, len(rows)), 0.1)
    axes.axis("off")


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
