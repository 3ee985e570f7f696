"""Specialized warps in time: who loads, who multiplies, and when the tensor cores have work."""

from dataclasses import dataclass

from matplotlib.patches import Patch

from course.display.colours import GREY, WORK, ink
from course.display.picture import Picture, new_figure
from course.display.shapes import box, label
from course.errors import CourseError

MOST_CONSUMERS, MOST_TILES = 3, 8
LOAD, DOT, SOFTMAX = 1.0, 1.0, 1.4
"""Made-up durations."""
BUFFERS = 2
"""Tiles of keys and values that shared memory holds."""


@dataclass(frozen=True)
class _Bar:
    row: str
    kind: str
    tile: int
    start: float
    end: float
    consumer: int = 0


def specialized(consumers: int = 2, tiles: int = 5) -> Picture:
    """Attention by specialized warps: one producer loads, each consumer computes rows of its own.

    consumers: groups of warps, 1 to 3; all take the same tiles of keys and values and share the
        tensor cores, which work for one of them at a time. tiles: of keys and values, 1 to 8.
    A sketch: the lengths are made up, and that the tensor cores are free while a consumer computes
    its softmax is not.
    """
    for name, number, most in (
        ("consumers", consumers, MOST_CONSUMERS),
        ("tiles", tiles, MOST_TILES),
    ):
        if type(number) is not int or not 1 <= number <= most:
            raise CourseError(
                f"draw.specialized: {name} is {number!r}, and must be a whole number of 1 to "
                f"{most}."
            )
    bars = _simulated(consumers, tiles)
    end = max(bar.end for bar in bars)
    rows = ["producer", *(f"consumer {number}" for number in range(consumers)), "tensor cores"]
    figure = new_figure(9, 0.42 * len(rows) + 1.0)
    axes = figure.subplots()
    for bar in bars:
        colour, y = WORK[bar.kind], -rows.index(bar.row)
        box(axes, bar.start, y + 0.07, bar.end - bar.start, 0.86, colour, edgecolor="white", lw=0.8)
        text = f"{bar.consumer}: {bar.tile}" if bar.row == "tensor cores" else str(bar.tile)
        label(axes, (bar.start + bar.end) / 2, y + 0.5, text, color=ink(colour))
    for number, name in enumerate(rows):
        text = f"{name}\nconsumer: tile" if name == "tensor cores" else name
        label(axes, -0.01 * end, -number + 0.5, text, ha="right", fontsize=9)
    line = 1 - len(rows) + 1.02
    axes.plot([0, end], [line, line], color=GREY, lw=0.8)
    busy = sum(bar.end - bar.start for bar in bars if bar.row == "tensor cores")
    names = {"load": "load k and v of a tile", "dot": "dot", "softmax": "softmax"}
    handles = [Patch(color=WORK[kind], label=name) for kind, name in names.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, fontsize=8.5, frameon=False)
    share = f"the tensor cores are busy {busy / end:.0%} of the time in this sketch"
    axes.set_title(f"{_groups(consumers)}: {share}", fontsize=9.5, loc="left")
    axes.set_xlim(-0.115 * end, end * 1.01)
    axes.set_ylim(0.9 - len(rows), 1.05)
    axes.axis("off")
    alt = (
        f"A sketch of {_groups(consumers)} and {tiles} tiles of keys and values. The producer "
        f"loads ahead, up to {BUFFERS} tiles. Each consumer multiplies, computes its softmax and "
        "multiplies again for each tile. "
        + (
            "While it computes the softmax the tensor cores idle"
            if consumers == 1
            else "While one computes its softmax the tensor cores work for another"
        )
        + f": {share}."
    )
    return Picture.of(figure, alt, colours=32)


def _groups(consumers: int) -> str:
    return f"one producer and {consumers} consumer{'s' if consumers > 1 else ''}"


def _simulated(consumers: int, tiles: int) -> list[_Bar]:
    """Who works when: the consumer that can begin first is served first."""
    bars: list[_Bar] = []
    loaded: list[float] = []
    free_from = [0.0] * consumers  # when each consumer can go on
    at = [0] * consumers  # operations that each has done: 3 for a tile
    ended = [[0.0] * tiles for _ in range(consumers)]
    cores = loading = 0.0
    while True:
        while len(loaded) < tiles:
            tile = len(loaded)
            old = tile - BUFFERS
            if old >= 0 and any(at[c] < 3 * (old + 1) for c in range(consumers)):
                break  # its buffer still holds a tile that somebody needs
            freed = max((ended[c][old] for c in range(consumers)), default=0.0) if old >= 0 else 0.0
            start = max(loading, freed)
            loading = start + LOAD
            loaded.append(loading)
            bars.append(_Bar("producer", "load", tile, start, loading))
        ready = [c for c in range(consumers) if at[c] < 3 * min(tiles, len(loaded))]
        if not ready:
            return bars
        begins = {}
        for c in ready:
            tile, operation = divmod(at[c], 3)
            begin = max(free_from[c], loaded[tile])
            begins[c] = begin if operation == 1 else max(begin, cores)
        c = min(ready, key=lambda each: (begins[each], each))
        tile, operation = divmod(at[c], 3)
        kind, length = ("softmax", SOFTMAX) if operation == 1 else ("dot", DOT)
        start, stop = begins[c], begins[c] + length
        bars.append(_Bar(f"consumer {c}", kind, tile, start, stop))
        if kind == "dot":
            cores = stop
            bars.append(_Bar("tensor cores", "dot", tile, start, stop, c))
        free_from[c] = stop
        at[c] += 1
        if operation == 2:
            ended[c][tile] = stop
