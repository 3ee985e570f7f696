"""The layouts of blocks that meet in one operation, which Gluon's compiler wants to be the same."""

import math

from triton.experimental.gluon import language as gl

from .constants import Layout
from .faults import SimulationError

OPEN = tuple(getattr(gl, name) for name in ("AutoLayout", "CoalescedLayout") if hasattr(gl, name))
"""Layouts that the compiler works out."""


def common_layout(*layouts: Layout | None) -> Layout | None:
    """The layout of what comes of blocks with these ones; None where it is not known.

    layouts: None for a number, and for a block whose layout only the compiler works out.
    Raises SimulationError where two differ.
    """
    known = [layout for layout in layouts if layout is not None and not isinstance(layout, OPEN)]
    for other in known[1:]:
        if other != known[0]:
            raise SimulationError(
                f"Gluon refuses blocks of different layouts in one operation: {_words(known[0])} "
                f"and {_words(other)}. Give both one layout, or use gl.convert_layout."
            )
    return known[0] if known else None


def check_warps(layout: Layout | None, num_warps: int) -> None:
    """Raises SimulationError for a layout that is made for another number of warps."""
    while layout is not None and hasattr(layout, "parent"):
        layout = layout.parent
    warps = getattr(layout, "warps_per_cta", None)
    if warps is not None and math.prod(warps) != num_warps:
        raise SimulationError(
            f"Gluon refuses {_words(layout)} here: its warps_per_cta={list(warps)} are "
            f"{math.prod(warps)} warps, and {num_warps} run this."
        )


def expanded_layout(layout: Layout | None, key: object) -> Layout | None:
    """The layout of a block after `block[key]`, where each None of the key is a new axis."""
    for axis, part in enumerate(key if isinstance(key, tuple) else (key,)):
        if part is None:
            sliced = layout if isinstance(layout, gl.SliceLayout) else None
            layout = sliced.parent if sliced and sliced.dim == axis else None
    return layout


def sliced_layout(layout: Layout | None, axis: int | None) -> Layout | None:
    """The layout of a block with an axis reduced; None for a number."""
    if axis is None or layout is None or isinstance(layout, OPEN):
        return None
    return gl.SliceLayout(axis, layout)


def _words(layout: Layout) -> str:
    return repr(layout).replace(", cga_layout=[]", "")
