"""The order of programs over the tiles of a matrix product, and what the first of them read."""

from course.display.picture import LIGHT, PALETTE, Picture, ink, new_figure
from course.errors import CourseError

from .program_grid import cell

MOST = 16


def order(tiles_m: int, tiles_n: int, group_m: int = 1, programs: int = 1) -> Picture:
    """The tiles of c = a @ b, each with the number of the program that owns it, and what the first `programs` of them read.

    tiles_m, tiles_n: rows and columns of tiles in c. group_m: rows of tiles in a group; programs are counted down the columns
    of a group, group after group. 1 counts row after row.
    At the left stand the rows of tiles of a, at the top the columns of tiles of b.
    """
    _check("tiles_m", tiles_m, MOST)
    _check("tiles_n", tiles_n, MOST)
    _check("group_m", group_m, None)
    _check("programs", programs, tiles_m * tiles_n)
    owners = {
        _tile(program, tiles_m, tiles_n, group_m): program for program in range(tiles_m * tiles_n)
    }
    first = {tile for tile, program in owners.items() if program < programs}
    rows, cols = {row for row, _ in first}, {col for _, col in first}
    figure = new_figure(max(0.44 * (tiles_n + 3), 4.2), 0.36 * (tiles_m + 2.5))
    axes = figure.subplots()
    for (row, col), program in owners.items():
        colour = PALETTE[5] if (row, col) in first else LIGHT
        axes.add_patch(cell(col, -row, colour))
        axes.text(
            col + 0.5,
            0.5 - row,
            str(program),
            ha="center",
            va="center",
            fontsize=8,
            color=ink(colour),
        )
    for row in range(tiles_m):
        axes.add_patch(cell(-1.4, -row, PALETTE[1] if row in rows else LIGHT))
    for col in range(tiles_n):
        axes.add_patch(cell(col, 1.4, PALETTE[2] if col in cols else LIGHT))
    axes.text(-1.6, 1 - tiles_m / 2, "a", ha="right", va="center", fontsize=11)
    axes.text(tiles_n / 2, 2.6, "b", ha="center", fontsize=11)
    title = f"read by the first {programs}: {len(rows)} rows of a + {len(cols)} columns of b = {len(rows) + len(cols)}"
    axes.text(-2.2, -tiles_m + 0.6, title, va="top", fontsize=9)
    axes.set_xlim(-2.4, tiles_n + 0.1)
    axes.set_ylim(-tiles_m - 0.2, 3.4)
    axes.axis("off")
    alt = (
        f"{tiles_m} x {tiles_n} tiles of c, in groups of {group_m} rows of tiles. The first {programs} programs own tiles in "
        f"{len(rows)} rows and {len(cols)} columns: they read {len(rows)} rows of tiles of a and {len(cols)} columns of b."
    )
    return Picture.of(figure, alt, colours=24)


def _check(name: str, value: object, most: int | None) -> None:
    if type(value) is not int or value < 1 or (most and value > most):
        raise CourseError(
            f"draw.order: {name} is {value!r}, and must be a whole number of 1 "
            + (f"to {most}." if most else "or more.")
        )


def _tile(program: int, tiles_m: int, tiles_n: int, group_m: int) -> tuple[int, int]:
    first_m = program // (group_m * tiles_n) * group_m
    height = min(tiles_m - first_m, group_m)
    within = program % (group_m * tiles_n)
    return first_m + within % height, within // height
