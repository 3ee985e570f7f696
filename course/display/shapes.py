"""Rectangles and labels, of which most pictures are made."""

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from .colors import DARK, GRAY, ink
from .picture import Span


def box(
    axes: Axes, x: float, y: float, width: float, height: float, color: str, **style: Any
) -> None:
    """A filled rectangle, without an edge unless `style` has one. x, y: its lower left corner."""
    style = {"edgecolor": "none", **style}
    axes.add_patch(Rectangle((x, y), width, height, facecolor=color, **style))


def frame(axes: Axes, x: float, y: float, width: float, height: float, **style: Any) -> None:
    """A rectangle's edge."""
    axes.add_patch(Rectangle((x, y), width, height, fill=False, **style))


def label(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """A text around a point, in 8 points unless `style` says otherwise."""
    axes.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": 8, **style})


def cell(
    axes: Axes,
    x: float,
    y: float,
    color: str,
    text: str = "",
    width: float = 1,
    size: float = 8,
    height: float = 1,
) -> None:
    """An element as a rectangle, with its text in a color that can be read on it."""
    box(axes, x, y, width, height, color, edgecolor="white", lw=0.8)
    if text:
        label(axes, x + width / 2, y + height / 2, text, color=ink(color), fontsize=size)


def cells(
    axes: Axes, x: float, y: float, color: str, texts: Iterable[object], size: float = 8
) -> None:
    """Elements side by side, the first with its lower left corner at (x, y)."""
    for place, text in enumerate(texts):
        cell(axes, x + place, y, color, str(text), size=size)


def arrow(
    axes: Axes, start: Span, end: Span, color: str = "black", lw: float = 1.5, style: str = "->",
    **more: float,
) -> None:  # fmt: skip
    """An arrow from one point to another, also outside of the axes. more: its other settings."""
    look = {"arrowstyle": style, "color": color, "lw": lw, **more}
    axes.annotate("", end, start, arrowprops=look, annotation_clip=False)


def masked_cell(axes: Axes, x: float, y: float, text: str = "") -> None:
    """A lane that a mask keeps out: hatched, and its text on white."""
    box(axes, x, y, 1, 1, "white", edgecolor="#BBBBBB", hatch="////", lw=0)
    frame(axes, x, y, 1, 1, edgecolor=GRAY, lw=0.8)
    if text:
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
        label(axes, x + 0.5, y + 0.5, text, color=DARK, bbox=paper)


def legend_below(axes: Axes, colors: Mapping[str, str], columns: int) -> None:
    """What colors mean, below the picture. colors: words -> their color."""
    handles = [Patch(color=color, label=words) for words, color in colors.items()]
    axes.figure.legend(
        handles=handles, loc="outside lower left", ncols=columns, fontsize=8.5, frameon=False
    )
