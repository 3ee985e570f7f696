"""A column and a row that broadcast to a tile."""

from collections.abc import Sequence

from course.display.colors import BLUE, GREEN, ORANGE
from course.display.picture import Picture, new_axes
from course.display.shapes import cells, label
from course.errors import CourseError

from .arguments import check_lists

MOST = 8
"""Rows and columns."""


def broadcast(rows: Sequence[int], cols: Sequence[int], stride: int = 1) -> Picture:
    """rows[:, None] * stride + cols[None, :]: a column and a row make a tile of every pair.

    rows, cols: 1 to 8 whole numbers each, as tl.arange gives them. stride: what rows are
    multiplied with.
    """
    check_lists("broadcast", rows=rows, cols=cols)
    for name, numbers in (("rows", rows), ("cols", cols)):
        if not 1 <= len(numbers) <= MOST or not all(type(n) is int for n in numbers):
            raise CourseError(
                f"draw.broadcast takes 1 to {MOST} whole numbers as {name}, as [0, 1, 2, 3]; "
                f"they are {numbers!r}."
            )
    if type(stride) is not int:
        raise CourseError(f"draw.broadcast takes a whole number as stride; it is {stride!r}.")
    height, width = len(rows), len(cols)
    products = [row * stride for row in rows]
    across, tile = 3.2, 3.2 + width + 2.2  # where the row and the tile begin
    axes = new_axes(0.6 * (tile + width) + 0.3, 0.42 * height + 1.0)
    middle = -height / 2
    cells(axes, across, middle - 0.5, ORANGE, cols, size=10)
    for i, row in enumerate(products):
        cells(axes, 0, -i - 1, BLUE, [row], size=10)
        cells(axes, tile, -i - 1, GREEN, [row + col for col in cols], size=10)
    times = f" * {stride}" if stride != 1 else ""
    parts = (
        (0.5, f"rows[:, None]{times}", f"[{height}, 1]"),
        (across + width / 2, "cols[None, :]", f"[1, {width}]"),
        (tile + width / 2, "every pair, added", f"[{height}, {width}]"),
    )
    for x, text, shape in parts:
        label(axes, x, 0.45, text, fontsize=9, family="monospace")
        label(axes, x, -height - 0.4, shape, fontsize=9, family="monospace")
    for x, sign in (((1 + across) / 2, "+"), ((across + width + tile) / 2, "=")):
        label(axes, x, middle, sign, fontsize=16)
    alt = (
        f"A column of shape [{height}, 1] holds {_listed(products)}, and a row of shape "
        f"[1, {width}] holds {_listed(cols)}. Added, they broadcast to the shape "
        f"[{height}, {width}]: row i, column j holds the sum of the column's element i and the "
        f"row's element j. Its first row is {_listed([products[0] + col for col in cols])}, its "
        f"last {_listed([products[-1] + col for col in cols])}."
    )
    return Picture.of_sketch(axes, (-1.1, tile + width + 0.3), (-height - 0.8, 0.8), alt, colors=24)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
