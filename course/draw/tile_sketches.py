"""Sketches of matrices in tiles: which program owns which element, and in what order they come."""

import math
from itertools import product

from course.display.colors import LIGHT, PALETTE, PROGRAMS
from course.display.picture import Picture, new_axes
from course.display.shapes import cell, frame, label, masked_cell

from .arguments import check_whole

MOST_TILES = 16
"""Rows and columns, of elements or of tiles."""


def tiles(
    n_rows: int,
    n_cols: int,
    block_m: int,
    block_n: int,
    stride_m: int | None = None,
    stride_n: int = 1,
) -> Picture:
    """A matrix in tiles of block_m x block_n: one color a program, lanes past the edge hatched.

    Each element shows its offset, row * stride_m + column * stride_n, in elements; stride_m is
    n_cols by default. Each tile shows its program's ids.
    """
    check_whole("tiles", MOST_TILES, n_rows=n_rows, n_cols=n_cols, block_m=block_m, block_n=block_n)
    stride_m = n_cols if stride_m is None else stride_m
    tiles_m, tiles_n = math.ceil(n_rows / block_m), math.ceil(n_cols / block_n)
    height, width = tiles_m * block_m, tiles_n * block_n
    cell_width = max(0.45, min(0.62, 7 / width))  # inches
    axes = new_axes(cell_width * width + 1.6, 0.42 * height + 0.95)
    for row in range(height):
        for col in range(width):
            if row < n_rows and col < n_cols:
                program = row // block_m * tiles_n + col // block_n
                offset = str(row * stride_m + col * stride_n)
                cell(axes, col, -row, PROGRAMS[program % len(PROGRAMS)], offset, size=9)
            else:
                masked_cell(axes, col, -row)
    paper = {"facecolor": "white", "edgecolor": "none", "boxstyle": "round,pad=0.05", "alpha": 0.9}
    for i, j in product(range(tiles_m), range(tiles_n)):
        left, top = j * block_n, 1 - i * block_m
        frame(axes, left, top - block_m, block_n, block_m, edgecolor="black", lw=2, zorder=3)
        if block_m > 1 and block_n > 1:  # on the corner of four cells: it hides no number
            corner = left + block_n // 2, top - block_m // 2
            label(axes, *corner, f"({i}, {j})", fontsize=9, weight="bold", bbox=paper, zorder=4)
    for i in range(tiles_m):
        y = 1 - (i + 0.5) * block_m
        text = f"program_id(0)\n= {i}" if block_m > 1 else f"program_id(0) = {i}"
        label(axes, -0.15, y, text, ha="right", fontsize=9)
    for j in range(tiles_n):
        text = f"program_id(1) = {j}" if block_n * cell_width > 1.4 else f"program_id(1)\n= {j}"
        if block_n * cell_width < 1:
            text = f"(1) = {j}" if block_n > 1 else str(j)
        label(axes, (j + 0.5) * block_n, 1.2, text, va="bottom", fontsize=9)
    masked = height * width - n_rows * n_cols
    alt = (
        f"A matrix of {n_rows} x {n_cols} in tiles of {block_m} x {block_n}: a grid of {tiles_m} x "
        f"{tiles_n} programs. The element in row r and column c has offset r * {stride_m} + "
        f"c * {stride_n}. {masked} lanes past the edges are masked."
    )
    return Picture.of_sketch(axes, (-1.5 / cell_width, width + 0.1), (0.9 - height, 2.1), alt)


def order(tiles_m: int, tiles_n: int, group_m: int = 1, programs: int = 1) -> Picture:
    """The tiles of c = a @ b with their programs, and what the first `programs` of them read.

    tiles_m, tiles_n: rows and columns of tiles in c. group_m: rows of tiles in a group; programs
    are counted down the columns of a group, group after group. 1 counts row after row.
    At the left stand the rows of tiles of a, at the top the columns of tiles of b.
    """
    check_whole("order", MOST_TILES, tiles_m=tiles_m, tiles_n=tiles_n)
    check_whole("order", group_m=group_m)
    check_whole("order", tiles_m * tiles_n, programs=programs)
    places = [_place(program, tiles_m, tiles_n, group_m) for program in range(tiles_m * tiles_n)]
    rows, cols = ({*axis} for axis in zip(*places[:programs], strict=True))
    axes = new_axes(max(0.44 * (tiles_n + 3), 4.2), 0.36 * (tiles_m + 2.5))
    for program, (row, col) in enumerate(places):
        cell(axes, col, -row, PALETTE[5] if program < programs else LIGHT, str(program))
    for row in range(tiles_m):
        cell(axes, -1.4, -row, PALETTE[1] if row in rows else LIGHT)
    for col in range(tiles_n):
        cell(axes, col, 1.4, PALETTE[2] if col in cols else LIGHT)
    label(axes, -1.6, 1 - tiles_m / 2, "a", ha="right", fontsize=11)
    axes.text(tiles_n / 2, 2.6, "b", ha="center", fontsize=11)
    total = f"{len(rows)} rows of a + {len(cols)} columns of b = {len(rows) + len(cols)}"
    axes.text(-2.2, -tiles_m + 0.6, f"read by the first {programs}: {total}", va="top", fontsize=9)
    alt = (
        f"{tiles_m} x {tiles_n} tiles of c, in groups of {group_m} rows of tiles. The first "
        f"{programs} programs own tiles in {len(rows)} rows and {len(cols)} columns: they read "
        f"{len(rows)} rows of tiles of a and {len(cols)} columns of b."
    )
    return Picture.of_sketch(axes, (-2.4, tiles_n + 0.1), (-tiles_m - 0.2, 3.4), alt, colors=24)


def _place(program: int, tiles_m: int, tiles_n: int, group_m: int) -> tuple[int, int]:
    """The row and the column of a program's tile."""
    first_m = program // (group_m * tiles_n) * group_m
    height = min(tiles_m - first_m, group_m)
    within = program % (group_m * tiles_n)
    return first_m + within % height, within // height
