"""Specialized warps in time: who loads, who multiplies, and when the tensor cores have work."""

from dataclasses import dataclass

from matplotlib.patches import Patch

from course.display.colors import GRAY, WORK, ink
from course.display.picture import Picture, new_axes
from course.display.shapes import box, label

from .whole_number import check_whole

MOST_CONSUMERS, MOST_TILES = 3, 8
LOAD, DOT, SOFTMAX = 0.5, 1.0, 1.4
"""Made-up durations; a load is that of k or v."""
BUFFERS = 2
"""Tiles of k, and of v, that shared memory holds."""
SIDE = 1.05
"""Inches for the names of rows."""


@dataclass(frozen=True)
class _Bar:
    row: str
    kind: str
    tile: int
    start: float
    end: float
    consumer: int = 0
    what: str = ""
    """What is loaded: k or v."""


def specialized(consumers: int = 2, tiles: int = 5) -> Picture:
    """Attention by specialized warps: one producer loads, each consumer computes rows of its own.

    consumers: groups of warps, 1 to 3; all take the same tiles of keys and values and share the
        tensor cores, which work for one of them at a time. tiles: of keys and values, 1 to 8.
    Who waits for whom is as in the kernel: a consumer for the k or the v of its tile, the producer
    for a buffer that all consumers are done with. How long each takes is made up and not measured.
    Pictures of as many tiles have one scale, for one consumer and for two.
    """
    check_whole("specialized", "consumers", consumers, MOST_CONSUMERS)
    check_whole("specialized", "tiles", tiles, MOST_TILES)
    bars = _simulated(consumers, tiles)
    end = max(bar.end for bar in bars)
    shown = max(end, *(bar.end for bar in _simulated(2, tiles)))
    rows = ["producer", *(f"consumer {number}" for number in range(consumers)), "tensor cores"]
    axes = new_axes(9, 0.42 * len(rows) + 1.0)
    for bar in bars:
        color, y = WORK[bar.kind], -rows.index(bar.row)
        box(axes, bar.start, y + 0.07, bar.end - bar.start, 0.86, color, edgecolor="white", lw=0.8)
        text = f"{bar.what}{bar.tile}"
        if bar.row == "tensor cores":
            text = f"{bar.consumer}: {bar.tile}"
        label(axes, (bar.start + bar.end) / 2, y + 0.5, text, color=ink(color))
    for number, name in enumerate(rows):
        text = f"{name}\nconsumer: tile" if name == "tensor cores" else name
        label(axes, -0.01 * shown, -number + 0.5, text, ha="right", fontsize=9)
    line = 1 - len(rows) + 1.02
    axes.plot([0, end], [line, line], color=GRAY, lw=0.8)
    names = {"load": "load k or v of a tile", "dot": "dot (the number is the tile's)",
             "softmax": "softmax"}  # fmt: skip
    handles = [Patch(color=WORK[kind], label=name) for kind, name in names.items()]
    axes.figure.legend(
        handles=handles, loc="outside lower left", ncols=3, fontsize=8.5, frameon=False
    )
    sketch = "a sketch from the kernel's structure; the durations are made up, not measured"
    axes.set_title(f"{_groups(consumers)}: {sketch}", fontsize=9.5, loc="left")
    alt = (
        f"A sketch of {_groups(consumers)} and {tiles} tiles of keys and values, with durations "
        f"that are made up. The producer loads k and v ahead, up to {BUFFERS} tiles of each. Each "
        "consumer multiplies, computes its softmax and "
        "multiplies again for each tile. "
        + (
            "While it computes the softmax the tensor cores idle"
            if consumers == 1
            else "While one computes its softmax the tensor cores work for another"
        )
        + "."
    )
    across, up = (-SIDE / (9 - SIDE) * shown, shown * 1.01), (0.9 - len(rows), 1.05)
    return Picture.of_sketch(axes, across, up, alt, colors=32)


def _groups(consumers: int) -> str:
    return f"one producer and {consumers} consumer{'s' if consumers > 1 else ''}"


def _simulated(consumers: int, tiles: int) -> list[_Bar]:
    """Who works when: the consumer that can begin first is served first."""
    bars: list[_Bar] = []
    loads = [(tile, what) for tile in range(tiles) for what in "kv"]
    loaded: dict[tuple[int, str], float] = {}
    freed: dict[tuple[int, str], list[float]] = {load: [] for load in loads}
    free_from = [0.0] * consumers  # when each consumer can go on
    at = [0] * consumers  # operations that each has done: 3 for a tile
    cores = loading = 0.0
    while True:
        while len(loaded) < len(loads):
            tile, what = loads[len(loaded)]
            ends = freed.get((tile - BUFFERS, what), [0.0] * consumers)
            if len(ends) < consumers:
                break  # its buffer still holds a tile that somebody needs
            start = max(loading, *ends)
            loading = loaded[tile, what] = start + LOAD
            bars.append(_Bar("producer", "load", tile, start, loading, what=what))
        begins = {}
        for c in range(consumers):
            tile, operation = divmod(at[c], 3)
            came = loaded.get((tile, "v" if operation == 2 else "k"))
            if came is not None:
                begin = max(free_from[c], came)
                begins[c] = begin if operation == 1 else max(begin, cores)
        if not begins:
            return bars
        c = min(begins, key=lambda each: (begins[each], each))
        tile, operation = divmod(at[c], 3)
        kind, length = ("softmax", SOFTMAX) if operation == 1 else ("dot", DOT)
        start, stop = begins[c], begins[c] + length
        bars.append(_Bar(f"consumer {c}", kind, tile, start, stop))
        if kind == "dot":
            cores = stop
            bars.append(_Bar("tensor cores", "dot", tile, start, stop, c))
            freed[tile, "v" if operation == 2 else "k"].append(stop)
        free_from[c] = stop
        at[c] += 1
