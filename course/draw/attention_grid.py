"""Attention as a picture: tiles of scores, and the key and value tiles that pass a query tile."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course.display.colors import GRAY, LIGHT, PALETTE, ink, paler
from course.display.picture import Picture, new_axes
from course.display.shapes import arrow, box, frame, label
from course.errors import CourseError

from .arguments import check_index, check_whole

MOST = 256
"""Queries, keys and elements of a block."""
MOST_TILES = 16
WIDTH, HEIGHT = 5.6, 3.9
"""Inches of the matrix alone, at most."""
LEGEND = 5.1
"""Inches that the legend's words need, less the room at the left."""

Kind = Literal["skipped", "computed whole", "computed with a mask"]
COLORS: dict[Kind, str] = {
    "skipped": LIGHT,
    "computed whole": PALETTE[5],
    "computed with a mask": PALETTE[1],
}
KEYS, QUERY = PALETTE[2], PALETTE[0]


@dataclass(frozen=True)
class _Scores:
    """Which keys a query sees, and what becomes of each tile of scores."""

    n_queries: int
    n_keys: int
    block_m: int
    block_n: int
    causal: bool
    window: int | None

    @property
    def tiles_m(self) -> int:
        return math.ceil(self.n_queries / self.block_m)

    @property
    def tiles_n(self) -> int:
        return math.ceil(self.n_keys / self.block_n)

    @property
    def height(self) -> int:
        return self.tiles_m * self.block_m

    @property
    def width(self) -> int:
        return self.tiles_n * self.block_n

    def seen(self, query: int) -> tuple[int, int]:
        """The first key that a query sees and the one after the last, equal if it sees none."""
        if not self.causal:
            return 0, self.n_keys
        end = max(0, query + self.n_keys - self.n_queries + 1)
        return max(0, end - self.window) if self.window else 0, end

    @cached_property
    def kinds(self) -> dict[tuple[int, int], Kind]:
        """What becomes of each tile, by its row and column."""
        rows, columns = range(self.tiles_m), range(self.tiles_n)
        return {(i, j): self._kind(i, j) for i in rows for j in columns}

    def _kind(self, i: int, j: int) -> Kind:
        queries = range(i * self.block_m, min((i + 1) * self.block_m, self.n_queries))
        first, end = j * self.block_n, (j + 1) * self.block_n
        spans = [self.seen(query) for query in queries]
        if all(max(low, first) >= min(high, end) for low, high in spans):
            return "skipped"
        whole = all(low <= first and end <= high for low, high in spans)
        return "computed whole" if whole else "computed with a mask"

    def iterations(self, i: int) -> list[int]:
        """The tiles of keys that the loop of program i takes."""
        return [j for j in range(self.tiles_n) if self.kinds[i, j] != "skipped"]


def attention(
    n_queries: int,
    n_keys: int,
    block_m: int,
    block_n: int,
    causal: bool = False,
    window: int | None = None,
    program: int | None = None,
) -> Picture:
    """The scores of one head in tiles: skipped, computed whole, or computed with a mask.

    block_m, block_n: queries and keys of a tile.
    causal: query m sees the keys n <= m + n_keys - n_queries, so that the last query sees all; the
    staircase is drawn. window: with causal, of these the last `window` alone.
    program: the query tile whose loop is shown, iteration by iteration.
    """
    scores = _Scores(n_queries, n_keys, block_m, block_n, causal, window)
    _check(scores, program)
    inch = min(WIDTH / scores.width, HEIGHT / scores.height)  # per element
    axes = new_axes(max(inch * scores.width, LEGEND) + 1.5, inch * scores.height + 1.75)
    _draw_strips(axes, scores, program, inch)
    for i, j in scores.kinds:
        _draw_tile(axes, scores, i, j, faint=program not in (None, i))
    if causal:
        _draw_staircase(axes, scores)
    if program is not None:
        _draw_iterations(axes, scores, program)
    kinds = [kind for kind in COLORS if kind in scores.kinds.values()]
    legend = {str(kind): _swatch(COLORS[kind]) for kind in kinds}
    if (scores.width, scores.height) != (n_keys, n_queries):
        _draw_padding(axes, scores)
        legend["past the end"] = _swatch("white", hatch="////")
    handles, names = [*legend.values()], [*legend]
    style = {"ncols": 4, "fontsize": 9, "frameon": False}
    axes.figure.legend(handles, names, loc="outside lower center", **style)
    axes.set_aspect("equal")
    axes.axis("off")
    return Picture.of_axes(axes, _alt(scores, program))


def _check(scores: _Scores, program: int | None) -> None:
    """Raise CourseError for what cannot be drawn."""
    names = ("n_queries", "n_keys", "block_m", "block_n")
    check_whole("attention", MOST, **{name: getattr(scores, name) for name in names})
    if not isinstance(scores.causal, bool):
        raise CourseError(f"draw.attention: causal must be True or False; it is {scores.causal!r}.")
    if max(scores.tiles_m, scores.tiles_n) > MOST_TILES:
        raise CourseError(
            f"draw.attention shows up to {MOST_TILES} x {MOST_TILES} tiles: take larger blocks."
        )
    if scores.window is not None:
        check_whole("attention", window=scores.window)
        if not scores.causal:
            raise CourseError("draw.attention takes a window with causal=True alone.")
    if program is not None:
        check_index("program", program, scores.tiles_m)


def _draw_strips(axes: Axes, scores: _Scores, program: int | None, inch: float) -> None:
    """The key and value tiles above, the query tiles at the left, with their names."""
    unit = 1 / inch  # an inch, in elements
    thick, gap = 0.24 * unit, 0.07 * unit
    edge = {"edgecolor": "white", "lw": 1.2}
    taken = set(range(scores.tiles_n)) if program is None else set(scores.iterations(program))
    for name, y in (("k", -2 * thick - 2 * gap), ("v", -thick - gap)):
        for j in range(scores.tiles_n):
            color = KEYS if j in taken else LIGHT
            box(axes, j * scores.block_n, y, scores.block_n, thick, color, **edge)
            if scores.block_n * inch > 0.2:
                middle = (j + 0.5) * scores.block_n
                label(axes, middle, y + thick / 2, str(j), color=ink(color))
        label(axes, -gap, y + thick / 2, name, ha="right", fontsize=9)
    above = -2 * thick - 4 * gap
    if program is not None and taken:
        start, end = min(taken) * scores.block_n, (max(taken) + 1) * scores.block_n
        arrow(axes, (start, above), (end, above), lw=1.2)
    title = "tiles of keys and values"
    label(axes, scores.width / 2, above - gap, title, va="bottom", fontsize=9)
    left = -thick - 4.2 * gap
    for i in range(scores.tiles_m):
        color = QUERY if program in (None, i) else LIGHT
        box(axes, left, i * scores.block_m, thick, scores.block_m, color, **edge)
        if scores.block_m * inch > 0.14:
            middle = (i + 0.5) * scores.block_m
            label(axes, left + thick / 2, middle, str(i), color=ink(color))
    title = "tiles of queries" if scores.height * inch > 1.2 else "queries"
    label(axes, left - gap, scores.height / 2, title, ha="right", fontsize=9, rotation=90)
    axes.set_xlim(left - 0.3 * unit, scores.width + 0.1 * unit)
    axes.set_ylim(scores.height + 0.05 * unit, above - 0.28 * unit)


def _draw_tile(axes: Axes, scores: _Scores, i: int, j: int, faint: bool) -> None:
    kind = scores.kinds[i, j]
    width, height = scores.block_n, scores.block_m
    x, y = j * width, i * height
    color = paler(COLORS[kind], 0.6) if faint else COLORS[kind]
    box(axes, x, y, width, height, color)
    if kind == "computed with a mask":
        pale = paler(color, 0.62)
        for query in range(y, y + height):
            first, end = scores.seen(query) if query < scores.n_queries else (0, 0)
            first, end = max(first, x), min(end, x + width, scores.n_keys)
            hidden = ((x, first), (end, x + width)) if first < end else ((x, x + width),)
            for left, right in hidden:
                if left < right:
                    box(axes, left, query, right - left, 1, pale, antialiased=False)
    frame(axes, x, y, width, height, edgecolor="white", lw=1.2, zorder=4)


def _draw_staircase(axes: Axes, scores: _Scores) -> None:
    """The border between the keys that a query sees and those it does not, step by step."""
    for side in (1, 0) if scores.window else (1,):
        xs, ys = [], []
        for query in range(scores.n_queries):
            border = min(scores.seen(query)[side], scores.n_keys)
            xs += [border, border]
            ys += [query, query + 1]
        axes.plot(xs, ys, color="black", lw=1.4, zorder=5, solid_joinstyle="miter")


def _draw_iterations(axes: Axes, scores: _Scores, program: int) -> None:
    """A frame around a program's tiles, and the iteration of its loop on each that it takes."""
    y = program * scores.block_m
    frame(axes, 0, y, scores.width, scores.block_m, edgecolor="black", lw=2, zorder=6)
    disc = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": "none"}
    for iteration, j in enumerate(scores.iterations(program)):
        x, middle = (j + 0.5) * scores.block_n, (program + 0.5) * scores.block_m
        label(axes, x, middle, str(iteration), bbox=disc, zorder=7)


def _draw_padding(axes: Axes, scores: _Scores) -> None:
    """The lanes past the last query and past the last key."""
    style = {"edgecolor": GRAY, "hatch": "////", "lw": 0, "zorder": 3}
    below, beside = scores.height - scores.n_queries, scores.width - scores.n_keys
    box(axes, 0, scores.n_queries, scores.width, below, "#FFFFFF99", **style)
    box(axes, scores.n_keys, 0, beside, scores.n_queries, "#FFFFFF99", **style)


def _swatch(color: str, hatch: str | None = None) -> Rectangle:
    return Rectangle((0, 0), 1, 1, facecolor=color, edgecolor=GRAY, hatch=hatch, lw=0.8)


def _alt(scores: _Scores, program: int | None) -> str:
    sentences = [
        f"The scores of {scores.n_queries} queries and {scores.n_keys} keys in tiles of "
        f"{scores.block_m} x {scores.block_n}: {scores.tiles_m} x {scores.tiles_n}."
    ]
    if scores.causal:
        shift = scores.n_keys - scores.n_queries
        last = f"m {'+' if shift > 0 else '-'} {abs(shift)}" if shift else "m"
        window = f"the last {scores.window} of " if scores.window else ""
        sentences.append(f"Query m sees {window}the keys up to {last}.")
    kinds = [*scores.kinds.values()]
    sentences.append("Tiles " + ", ".join(f"{kind}: {kinds.count(kind)}" for kind in COLORS) + ".")
    if program is not None:
        first = program * scores.block_m
        last_query = min(first + scores.block_m, scores.n_queries) - 1
        sentences.append(
            f"Program {program} keeps queries {first} to {last_query}, and its loop takes "
            f"{_iterations_text(scores, program)}."
        )
    return " ".join(sentences)


def _iterations_text(scores: _Scores, program: int) -> str:
    taken = scores.iterations(program)
    if not taken:
        return "no tile of keys"
    masked = [str(j) for j in taken if scores.kinds[program, j] == "computed with a mask"]
    tiles = f"tiles {taken[0]} to {taken[-1]}" if len(taken) > 1 else f"tile {taken[0]}"
    return f"{tiles} of the keys" + (f"; with a mask: {', '.join(masked)}" if masked else "")
