"""The online normaliser: maximum and sum carried over the tiles of a row, as two running numbers."""

import math
from collections.abc import Sequence

from course.display.picture import PALETTE, Picture, ink, new_figure
from course.errors import CourseError

from .program_grid import cell

MOST = 16


def online(values: Sequence[float], block: int) -> Picture:
    """A row in tiles of `block` elements, and after each tile the running maximum m and the running total of exp(x - m).

    The total so far is scaled by exp(old m - new m) before the tile's own terms are added. (M. Milakov and N. Gimelshein,
    *Online normalizer calculation for softmax*, arXiv:1805.02867.)
    """
    row = [float(value) for value in values]
    if not 1 <= len(row) <= MOST or block < 1 or not all(map(math.isfinite, row)):
        raise CourseError(f"draw.online shows 1 to {MOST} finite numbers in blocks of 1 or more.")
    figure = new_figure(8, 1.75)
    axes = figure.subplots()
    maximum, total, said = -math.inf, 0.0, []
    for tile, start in enumerate(range(0, len(row), block)):
        part = row[start : start + block]
        new = max(maximum, *part)
        scale = math.exp(maximum - new)
        added = sum(math.exp(x - new) for x in part)
        total, maximum = total * scale + added, new
        colour = PALETTE[tile % 4]
        for offset, x in enumerate(part):
            axes.add_patch(cell(start + offset, 0, colour))
            axes.text(
                start + offset + 0.5,
                0.5,
                f"{x:g}",
                ha="center",
                va="center",
                fontsize=9,
                color=ink(colour),
            )
        middle = start + len(part) / 2
        lines = [f"m = {maximum:g}", f"total = {total:.3f}"] if not tile else [
            f"m = {maximum:g}", f"total · {scale:.3f} + {added:.3f}", f"= {total:.3f}"
        ]  # fmt: skip
        axes.text(middle, -0.35, "\n".join(lines), ha="center", va="top", fontsize=9)
        said.append(
            f"after tile {tile} m = {maximum:g} and total = {total:.3f}"
            + (f", the old total times {scale:.3f}" if tile else "")
        )
    axes.set_xlim(-0.1, len(row) + 0.1)
    axes.set_ylim(-1.6, 1.1)
    axes.axis("off")
    return Picture.of(
        figure, f"{len(row)} numbers in tiles of {block}: {'; '.join(said)}.", colours=24
    )
