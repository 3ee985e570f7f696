"""A matrix cut into tiles: which program of a two-dimensional grid owns which element, and where each element lies."""

import math

from course.display.picture import PALETTE, Picture, ink, new_figure
from course.errors import CourseError

from .program_grid import cell

MOST = 16


def tiles(
    n_rows: int,
    n_cols: int,
    block_m: int,
    block_n: int,
    stride_m: int | None = None,
    stride_n: int = 1,
) -> Picture:
    """A matrix in tiles of block_m x block_n: one colour a program, lanes past the edge hatched.

    Each element shows its offset, row * stride_m + column * stride_n, in elements; stride_m is n_cols by default.
    """
    sizes = (n_rows, n_cols, block_m, block_n)
    if min(sizes) < 1 or max(sizes) > MOST:
        raise CourseError(
            f"draw.tiles shows up to {MOST} rows and columns, and blocks of 1 to {MOST}: take smaller numbers."
        )
    step = n_cols if stride_m is None else stride_m
    down, across = math.ceil(n_rows / block_m), math.ceil(n_cols / block_n)
    figure = new_figure(0.55 * across * block_n + 1.2, 0.42 * down * block_m + 0.8)
    axes = figure.subplots()
    for row in range(down * block_m):
        for col in range(across * block_n):
            inside = row < n_rows and col < n_cols
            colour = PALETTE[(row // block_m + 2 * (col // block_n)) % 4] if inside else "white"
            axes.add_patch(cell(col, -row, colour, hatch=None if inside else "////"))
            if inside:
                text = str(row * step + col * stride_n)
                axes.text(
                    col + 0.5,
                    -row + 0.5,
                    text,
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=ink(colour),
                )
    for i in range(down):
        axes.text(
            -0.2, 1 - (i + 0.5) * block_m, f"axis 0: {i}", ha="right", va="center", fontsize=9
        )
    for j in range(across):
        axes.text((j + 0.5) * block_n, 1.3, f"axis 1: {j}", ha="center", fontsize=9)
    axes.set_xlim(-2.2, across * block_n + 0.1)
    axes.set_ylim(0.8 - down * block_m, 2)
    axes.axis("off")
    masked = down * block_m * across * block_n - n_rows * n_cols
    alt = (
        f"A matrix of {n_rows} x {n_cols} in tiles of {block_m} x {block_n}: a grid of {down} x {across} programs. The "
        f"element in row r and column c has offset r * {step} + c * {stride_n}. {masked} lanes past the edges are masked."
    )
    return Picture.of(figure, alt)
