"""One query of attention, tile by tile: how the accumulator is scaled when the maximum rises."""

import math
from collections.abc import Sequence

from course.display.colors import DARK, GREEN, PINK, SKY, VERMILION, paler
from course.display.picture import Picture, new_axes
from course.display.shapes import arrow, cells, label
from course.errors import CourseError

from .arguments import check_lists, check_numbers

MOST_KEYS, MOST_WIDTH, MOST_TILES = 12, 3, 4
LETTER = 0.065
"""Inches of a letter, about."""
ROWS = {
    "scores": 0.0, "exp(scores - m)": -1.15, "m": -2.5, "alpha": -3.3, "total": -4.1,
    "acc · alpha": -5.5, "acc": -6.7, "acc / total": -8.6,
}  # fmt: skip


def rescale(
    scores: Sequence[float], values: Sequence[Sequence[float]], block: int, *, alpha: str = "alpha"
) -> Picture:
    """The output of one query, gathered tile after tile of `block` keys.

    scores: a score for each key, up to 12. values: for each key its value, 1 to 3 numbers.
    alpha: what the factor is called beside the picture.
    A tile that brings a new maximum m makes what was gathered smaller: total and acc are
    multiplied by alpha = exp(old m - new m), before the tile's own terms are added.
    (M. Milakov and N. Gimelshein, arXiv:1805.02867; T. Dao and others, arXiv:2205.14135.)
    """
    check_lists("rescale", scores=scores)
    check_lists("rescale", 2, values=values)
    check_numbers("rescale", scores=scores, **{f"values[{i}]": v for i, v in enumerate(values)})
    row, table = [float(score) for score in scores], [[*map(float, value)] for value in values]
    width = len(table[0]) if table else 0
    fits = 1 <= len(row) <= MOST_KEYS and len(table) == len(row) and 1 <= width <= MOST_WIDTH
    if not fits or {*map(len, table)} != {width}:
        raise CourseError(
            f"draw.rescale takes 1 to {MOST_KEYS} finite scores, and for each a value of 1 to "
            f"{MOST_WIDTH} numbers."
        )
    if type(block) is not int or block < 1 or math.ceil(len(row) / block) > MOST_TILES:
        raise CourseError(
            f"draw.rescale shows up to {MOST_TILES} tiles: block is {block!r} for {len(row)} keys."
        )
    if not isinstance(alpha, str) or not alpha:
        raise CourseError(f"draw.rescale takes a name as alpha; it is {alpha!r}.")
    pitch = max(block, width) + 1.9
    tiles = math.ceil(len(row) / block)
    wide = min(9, 0.62 * pitch * tiles + 1.6)
    inch = wide / (pitch * tiles + 3.1)
    axes = new_axes(wide, 4.3)
    maximum, total, acc = -math.inf, 0.0, [0.0] * width
    sentences = []
    for tile, start in enumerate(range(0, len(row), block)):
        part, x = row[start : start + block], tile * pitch
        before, maximum = maximum, max(maximum, *part)
        factor = math.exp(before - maximum)
        p = [math.exp(score - maximum) for score in part]
        added = [sum(p[k] * table[start + k][d] for k in range(len(p))) for d in range(width)]
        kept = [each * factor for each in acc]
        acc = [old + new for old, new in zip(kept, added, strict=True)]
        label(axes, x, 1.45, f"tile {tile}", ha="left", fontsize=9, weight="bold")
        cells(axes, x, ROWS["scores"], SKY, [f"{score:g}" for score in part])
        cells(axes, x, ROWS["exp(scores - m)"], PINK, [f"{each:.3f}" for each in p])
        color = VERMILION if tile and factor < 1 else DARK
        write = {"ha": "left", "fontsize": 9}
        label(axes, x, ROWS["m"] + 0.5, f"{maximum:g}", **write)
        text = f"{factor:.3f}" if tile else "—"
        label(axes, x, ROWS["alpha"] + 0.5, text, color=color, **write)
        grown = f"{total:.3f} · {factor:.3f} + {sum(p):.3f} = " if tile else ""
        total = total * factor + sum(p)
        label(axes, x, ROWS["total"] + 0.5, f"{grown}{total:.3f}", **write)
        if tile:
            shade = paler(GREEN, 0.7) if factor < 1 else GREEN
            cells(axes, x, ROWS["acc · alpha"], shade, [f"{each:.3f}" for each in kept])
            # From the accumulator after a tile to what the next tile keeps of it.
            before_x = x - pitch + width
            top, bottom = ROWS["acc · alpha"] + 0.5, ROWS["acc"] + 0.5
            arrow(axes, (before_x, bottom), (x, top), color, 1.2, "-|>")
            middle = (before_x + x) / 2 - 0.2, (top + bottom) / 2 + 0.45
            label(axes, *middle, f"· {factor:.3f}", color=color)
        cells(axes, x, ROWS["acc"], GREEN, [f"{each:.3f}" for each in acc])
        terms = _terms(p, table[start:])
        if len(terms) * LETTER > (pitch - 0.6) * inch:
            terms = "exp(scores - m) @ values"
        terms = f"+ {terms}" if tile else terms
        label(axes, x, ROWS["acc"] - 0.35, terms, ha="left", color=DARK)
        sentences.append(
            f"after tile {tile} m = {maximum:g}"
            + (f", {alpha} = {factor:.3f}" if tile else "")
            + f", total = {total:.3f}, acc = {_listed(acc)}"
        )
    out = _listed([each / total for each in acc])
    for name, y in ROWS.items():
        text = name.replace("alpha", alpha)
        label(axes, -0.4, y + 0.5, text, ha="right", fontsize=9)
    last_x, y = pitch * (tiles - 1), ROWS["acc / total"] + 0.5
    label(axes, last_x, y, f"{out}: the output", ha="left", fontsize=9)
    alt = (
        f"One query and {len(row)} keys in tiles of {block}: {'; '.join(sentences)}. Divided at "
        f"the end: {out}."
    )
    return Picture.of_sketch(
        axes, (-3.1, pitch * tiles), (ROWS["acc / total"], 1.9), alt, colors=32
    )


def _terms(p: list[float], values: list[list[float]]) -> str:
    """What a tile adds: the factor of each of its keys, times that key's value."""
    vectors = [", ".join(f"{v:g}" for v in value) for value in values]
    return " + ".join(
        f"{factor:.3f} · {f'({vector})' if len(value) > 1 else vector}"
        for factor, vector, value in zip(p, vectors, values, strict=False)
    )


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"{number:.3f}" for number in numbers)
