"""One query of attention, tile by tile: how the accumulator is scaled when the maximum rises."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from course.display.colours import DARK, LIGHT, PALETTE, PINK, SKY, VERMILION, paler
from course.display.picture import Picture, new_figure
from course.display.shapes import cell, label
from course.errors import CourseError

MOST_KEYS, MOST_WIDTH, MOST_TILES = 12, 3, 4
ROWS = {
    "scores": 0.0, "exp(scores - m)": -1.15, "m": -2.5, "alpha": -3.3, "total": -4.1,
    "acc": -5.4,
}  # fmt: skip


def rescale(scores: Sequence[float], values: Sequence[Sequence[float]], block: int) -> Picture:
    """The output of one query, gathered tile after tile of `block` keys.

    scores: a score for each key, up to 12. values: for each key its value, 1 to 3 numbers.
    A tile that brings a new maximum m makes what was gathered smaller: total and acc are
    multiplied by alpha = exp(old m - new m), before the tile's own terms are added.
    (M. Milakov and N. Gimelshein, arXiv:1805.02867; T. Dao and others, arXiv:2205.14135.)
    """
    row, table = [float(score) for score in scores], [[*map(float, value)] for value in values]
    width = len(table[0]) if table else 0
    fits = 1 <= len(row) <= MOST_KEYS and len(table) == len(row) and 1 <= width <= MOST_WIDTH
    numbers = [*row, *(number for value in table for number in value)]
    if not fits or not all(map(math.isfinite, numbers)) or {*map(len, table)} != {width}:
        raise CourseError(
            f"draw.rescale takes 1 to {MOST_KEYS} finite scores, and for each a value of 1 to "
            f"{MOST_WIDTH} numbers."
        )
    if type(block) is not int or not 1 <= math.ceil(len(row) / max(block, 1)) <= MOST_TILES:
        raise CourseError(
            f"draw.rescale shows up to {MOST_TILES} tiles: block is {block!r} for {len(row)} keys."
        )
    pitch = max(block, width) + 1.9
    tiles = math.ceil(len(row) / block)
    figure = new_figure(min(9, 0.62 * pitch * tiles + 1.6), 3.6)
    axes = figure.subplots()
    maximum, total, acc = -math.inf, 0.0, [0.0] * width
    sentences = []
    for tile, start in enumerate(range(0, len(row), block)):
        part, x = row[start : start + block], tile * pitch
        before, maximum = maximum, max(maximum, *part)
        alpha = math.exp(before - maximum)
        p = [math.exp(score - maximum) for score in part]
        added = [sum(p[k] * table[start + k][d] for k in range(len(p))) for d in range(width)]
        kept, acc = acc, [old * alpha + new for old, new in zip(acc, added, strict=True)]
        _draw_cells(axes, x, ROWS["scores"], [f"{score:g}" for score in part], SKY)
        _draw_cells(axes, x, ROWS["exp(scores - m)"], [f"{each:.3f}" for each in p], PINK)
        colour = VERMILION if tile and alpha < 1 else DARK
        write = {"ha": "left", "fontsize": 9}
        label(axes, x, ROWS["m"] + 0.4, f"{maximum:g}", **write)
        label(axes, x, ROWS["alpha"] + 0.4, f"{alpha:.3f}" if tile else "—", color=colour, **write)
        grown = f"{total:.3f} · {alpha:.3f} + {sum(p):.3f} = " if tile else ""
        total = total * alpha + sum(p)
        label(axes, x, ROWS["total"] + 0.4, f"{grown}{total:.3f}", **write)
        shade = PALETTE[2]
        if tile:
            _draw_cells(axes, x, ROWS["acc"], [f"{each * alpha:.2f}" for each in kept],
                        paler(shade, 0.7) if alpha < 1 else paler(shade, 0.4))  # fmt: skip
            label(axes, x + width + 0.2, ROWS["acc"] + 0.5, "acc · alpha", ha="left", color=colour)
        _draw_cells(axes, x, ROWS["acc"] - 1.1, [f"{each:.2f}" for each in acc], shade)
        words = "+ p @ v" if tile else "p @ v"
        label(axes, x + width + 0.2, ROWS["acc"] - 0.6, words, ha="left", color=DARK)
        label(axes, x, 1.45, f"tile {tile}", ha="left", fontsize=9, weight="bold")
        sentences.append(
            f"after tile {tile} m = {maximum:g}"
            + (f", alpha = {alpha:.3f}" if tile else "")
            + f", total = {total:.3f}, acc = {_listed(acc)}"
        )
    out = _listed([each / total for each in acc])
    for name, y in ROWS.items():
        label(axes, -0.4, y + 0.4, name, ha="right", fontsize=9)
    label(axes, -0.4, ROWS["acc"] - 2.0, "acc / total", ha="right", fontsize=9)
    label(axes, 0, ROWS["acc"] - 2.0, f"{out}: the output", ha="left", fontsize=9)
    axes.set_xlim(-3.1, pitch * tiles)
    axes.set_ylim(ROWS["acc"] - 2.5, 1.9)
    axes.axis("off")
    alt = (
        f"One query and {len(row)} keys in tiles of {block}: {'; '.join(sentences)}. Divided at "
        f"the end: {out}."
    )
    return Picture.of(figure, alt, colours=32)


def _draw_cells(axes: Axes, x: float, y: float, texts: list[str], colour: str) -> None:
    for place, text in enumerate(texts):
        cell(axes, x + place, y, colour or LIGHT, text)


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"{number:.3f}" for number in numbers)
