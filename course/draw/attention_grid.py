"""Attention as a picture: the tiles of the score matrix, and the strip of key and value tiles that slides past a query tile."""

import math

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course.display.picture import GREY, LIGHT, PALETTE, Picture, ink, new_figure
from course.errors import CourseError

MOST = 256
MOST_TILES = 16
WIDTH, HEIGHT = 5.6, 3.9
"""Of the matrix alone at most, in inches."""
LEGEND = 5.1
"""What its words need, less the room at the left."""

KINDS = {"skipped": LIGHT, "computed whole": PALETTE[5], "computed with a mask": PALETTE[1]}
KEYS, QUERY = PALETTE[2], PALETTE[0]


class _Scores:
    """Which keys a query sees, and what becomes of each tile."""

    def __init__(
        self,
        n_queries: int,
        n_keys: int,
        block_m: int,
        block_n: int,
        causal: bool,
        window: int | None,
    ) -> None:
        self.n_queries, self.n_keys, self.block_m, self.block_n = (
            n_queries,
            n_keys,
            block_m,
            block_n,
        )
        self.causal, self.window = causal, window
        self.down, self.across = math.ceil(n_queries / block_m), math.ceil(n_keys / block_n)

    def seen(self, query: int) -> tuple[int, int]:
        """The first key that a query sees and the one after the last, equal where it sees none."""
        if not self.causal:
            return 0, self.n_keys
        end = max(0, query + self.n_keys - self.n_queries + 1)
        return max(0, end - self.window) if self.window else 0, end

    def kind(self, i: int, j: int) -> str:
        rows = range(i * self.block_m, min((i + 1) * self.block_m, self.n_queries))
        first, end = j * self.block_n, (j + 1) * self.block_n
        spans = [self.seen(row) for row in rows]
        if all(max(low, first) >= min(high, end) for low, high in spans):
            return "skipped"
        whole = all(low <= first and end <= high for low, high in spans)
        return "computed whole" if whole else "computed with a mask"

    def turns(self, i: int) -> list[int]:
        """The tiles of keys that the loop of program i takes."""
        return [j for j in range(self.across) if self.kind(i, j) != "skipped"]


def attention(
    n_queries: int,
    n_keys: int,
    block_m: int,
    block_n: int,
    causal: bool = False,
    window: int | None = None,
    program: int | None = None,
) -> Picture:
    """The scores of one head in tiles of block_m queries x block_n keys: skipped, computed whole, or computed with a mask.

    causal: query m sees the keys n <= m + n_keys - n_queries, so that the last query sees all; the staircase is drawn.
    window: with causal, of these the last `window` alone. program: the query tile whose loop is shown, turn by turn.
    """
    sizes = {"n_queries": n_queries, "n_keys": n_keys, "block_m": block_m, "block_n": block_n}
    optional = {"window": window, "program": program}
    for name, size in (
        sizes | {name: given for name, given in optional.items() if given is not None}
    ).items():
        if type(size) is not int:
            raise CourseError(f"draw.attention takes whole numbers: {name} is {size!r}.")
    if not isinstance(causal, bool):
        raise CourseError(f"draw.attention: causal must be True or False; it is {causal!r}.")
    if min(sizes.values()) < 1:
        raise CourseError("draw.attention takes queries, keys and blocks of 1 or more.")
    if max(sizes.values()) > MOST:
        raise CourseError(
            f"draw.attention shows 1 to {MOST} queries and keys: take smaller numbers."
        )
    if max(math.ceil(n_queries / block_m), math.ceil(n_keys / block_n)) > MOST_TILES:
        raise CourseError(
            f"draw.attention shows up to {MOST_TILES} x {MOST_TILES} tiles: take larger blocks."
        )
    if window is not None and (not causal or window < 1):
        raise CourseError("draw.attention takes a window of 1 or more, and with causal=True alone.")
    scores = _Scores(n_queries, n_keys, block_m, block_n, causal, window)
    if program is not None and not 0 <= program < scores.down:
        raise CourseError(
            f"There is no program {program!r}: there are {scores.down} query tiles, counted from 0."
        )
    width, height = scores.across * block_n, scores.down * block_m
    inch = min(WIDTH / width, HEIGHT / height)
    figure = new_figure(max(inch * width, LEGEND) + 1.5, inch * height + 1.75)
    axes = figure.subplots()
    _draw_strips(axes, scores, program, inch)
    for i in range(scores.down):
        for j in range(scores.across):
            _draw_tile(axes, scores, i, j, faint=program not in (None, i))
    if causal:
        _draw_staircase(axes, scores)
    if program is not None:
        frame = Rectangle(
            (0, program * block_m), width, block_m, fill=False, edgecolor="black", lw=2, zorder=6
        )
        axes.add_patch(frame)
        for turn, j in enumerate(scores.turns(program)):
            place = ((j + 0.5) * block_n, (program + 0.5) * block_m)
            disc = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": "none"}
            axes.text(*place, str(turn), ha="center", va="center", fontsize=8, bbox=disc, zorder=7)
    kinds = _kinds(scores)
    patches = [_swatch(colour) for name, colour in KINDS.items() if name in kinds]
    names = [name for name in KINDS if name in kinds]
    if (width, height) != (n_keys, n_queries):
        _draw_padding(axes, scores)
        patches.append(_swatch("white", hatch="////"))
        names.append("past the end")
    figure.legend(patches, names, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    axes.set_aspect("equal")
    axes.axis("off")
    return Picture.of(figure, _alt(scores, program))


def _draw_strips(axes: Axes, scores: _Scores, program: int | None, inch: float) -> None:
    """The key and value tiles above, the query tiles at the left, with their names."""
    unit = 1 / inch  # an inch, in elements
    width, thick, gap = scores.across * scores.block_n, 0.24 * unit, 0.07 * unit
    taken = set(range(scores.across)) if program is None else set(scores.turns(program))
    for name, y in (("k", -2 * thick - 2 * gap), ("v", -thick - gap)):
        for j in range(scores.across):
            colour = KEYS if j in taken else LIGHT
            axes.add_patch(
                Rectangle(
                    (j * scores.block_n, y),
                    scores.block_n,
                    thick,
                    facecolor=colour,
                    edgecolor="white",
                    lw=1.2,
                )
            )
            if scores.block_n * inch > 0.2:
                place = ((j + 0.5) * scores.block_n, y + thick / 2)
                axes.text(*place, str(j), ha="center", va="center", fontsize=8, color=ink(colour))
        axes.text(-gap, y + thick / 2, name, ha="right", va="center", fontsize=9)
    above = -2 * thick - 4 * gap
    if program is not None and taken:
        ends = (min(taken) * scores.block_n, (max(taken) + 1) * scores.block_n)
        arrow = {"arrowstyle": "->", "color": "black", "lw": 1.2}
        axes.annotate(
            "", (ends[1], above), (ends[0], above), arrowprops=arrow, annotation_clip=False
        )
    axes.text(
        width / 2, above - gap, "tiles of keys and values", ha="center", va="bottom", fontsize=9
    )
    left = -thick - 4.2 * gap
    for i in range(scores.down):
        colour = QUERY if program in (None, i) else LIGHT
        axes.add_patch(
            Rectangle(
                (left, i * scores.block_m),
                thick,
                scores.block_m,
                facecolor=colour,
                edgecolor="white",
                lw=1.2,
            )
        )
        if scores.block_m * inch > 0.14:
            place = (left + thick / 2, (i + 0.5) * scores.block_m)
            axes.text(*place, str(i), ha="center", va="center", fontsize=8, color=ink(colour))
    middle = scores.down * scores.block_m / 2
    label = "tiles of queries" if 2 * middle * inch > 1.2 else "queries"
    axes.text(left - gap, middle, label, ha="right", va="center", fontsize=9, rotation=90)
    axes.set_xlim(left - 0.3 * unit, width + 0.1 * unit)
    axes.set_ylim(scores.down * scores.block_m + 0.05 * unit, above - 0.28 * unit)


def _draw_tile(axes: Axes, scores: _Scores, i: int, j: int, faint: bool) -> None:
    kind = scores.kind(i, j)
    x, y = j * scores.block_n, i * scores.block_m
    colour = _paler(KINDS[kind], 0.6) if faint else KINDS[kind]
    axes.add_patch(
        Rectangle((x, y), scores.block_n, scores.block_m, facecolor=colour, edgecolor="none")
    )
    if kind == "computed with a mask":
        pale = _paler(colour, 0.62)
        for row in range(y, y + scores.block_m):
            low, high = scores.seen(row) if row < scores.n_queries else (0, 0)
            low, high = (max(low, x), min(high, x + scores.block_n, scores.n_keys))
            hidden = (
                ((x, low), (max(high, x), x + scores.block_n))
                if low < high
                else ((x, x + scores.block_n),)
            )
            for start, end in hidden:
                if end > start:
                    axes.add_patch(
                        Rectangle(
                            (start, row),
                            end - start,
                            1,
                            facecolor=pale,
                            edgecolor="none",
                            antialiased=False,
                        )
                    )
    axes.add_patch(
        Rectangle(
            (x, y), scores.block_n, scores.block_m, fill=False, edgecolor="white", lw=1.2, zorder=4
        )
    )


def _swatch(colour: str, hatch: str | None = None) -> Rectangle:
    return Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=GREY, hatch=hatch, lw=0.8)


def _draw_padding(axes: Axes, scores: _Scores) -> None:
    """The lanes past the last query and past the last key."""
    width, height = scores.across * scores.block_n, scores.down * scores.block_m
    for x, y in ((0, scores.n_queries), (scores.n_keys, 0)):
        end = height if y else scores.n_queries
        lanes = Rectangle(
            (x, y),
            width - x,
            end - y,
            facecolor="#FFFFFF99",
            edgecolor=GREY,
            hatch="////",
            lw=0,
            zorder=3,
        )
        axes.add_patch(lanes)


def _draw_staircase(axes: Axes, scores: _Scores) -> None:
    """The border between the keys that a query sees and those it does not, step by step."""
    for edge in (1, 0) if scores.window else (1,):
        xs, ys = [], []
        for query in range(scores.n_queries):
            at = min(scores.seen(query)[edge], scores.n_keys)
            xs += [at, at]
            ys += [query, query + 1]
        axes.plot(xs, ys, color="black", lw=1.4, zorder=5, solid_joinstyle="miter")


def _paler(colour: str, share: float) -> str:
    """A colour mixed with white."""
    mixed = (round(int(colour[i : i + 2], 16) * (1 - share) + 255 * share) for i in (1, 3, 5))
    return "#" + "".join(f"{each:02X}" for each in mixed)


def _kinds(scores: _Scores) -> list[str]:
    return [scores.kind(i, j) for i in range(scores.down) for j in range(scores.across)]


def _alt(scores: _Scores, program: int | None) -> str:
    kinds = _kinds(scores)
    sentences = [
        f"The scores of {scores.n_queries} queries and {scores.n_keys} keys in tiles of {scores.block_m} x {scores.block_n}: "
        f"{scores.down} x {scores.across}."
    ]
    if scores.causal:
        step = scores.n_keys - scores.n_queries
        end = f"m {'+' if step > 0 else '-'} {abs(step)}" if step else "m"
        seen = f"Query m sees {f'the last {scores.window} of ' if scores.window else ''}the keys up to {end}."
        sentences.append(seen)
    sentences.append("Tiles " + ", ".join(f"{kind}: {kinds.count(kind)}" for kind in KINDS) + ".")
    if program is not None:
        rows = f"{program * scores.block_m} to {min((program + 1) * scores.block_m, scores.n_queries) - 1}"
        sentences.append(
            f"Program {program} keeps queries {rows}, and its loop takes {_turns_text(scores, program)}."
        )
    return " ".join(sentences)


def _turns_text(scores: _Scores, program: int) -> str:
    turns = scores.turns(program)
    if not turns:
        return "no tile of keys"
    masked = [str(j) for j in turns if scores.kind(program, j) == "computed with a mask"]
    tiles = (
        f"tiles {turns[0]} to {turns[-1]} of the keys"
        if len(turns) > 1
        else f"tile {turns[0]} of the keys"
    )
    return tiles + (f"; with a mask: {', '.join(masked)}" if masked else "")
