"""Specialized warps in time: who loads, who multiplies, and when the tensor cores have work."""

from dataclasses import dataclass

from course.display.colors import GRAY, WORK
from course.display.picture import Picture

from .arguments import check_whole
from .lanes import Lanes

MOST_CONSUMERS, MOST_TILES = 3, 8
LOAD, DOT, SOFTMAX = 0.5, 1.0, 1.4
"""Made-up durations; a load is that of k or v."""
BUFFERS = 2
"""Tiles of k, and of v, that shared memory holds."""
CORES = "tensor cores"
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
    check_whole("specialized", MOST_CONSUMERS, consumers=consumers)
    check_whole("specialized", MOST_TILES, tiles=tiles)
    bars = _simulated(consumers, tiles)
    end = max(bar.end for bar in bars)
    shown = max(end, *(bar.end for bar in _simulated(2, tiles)))
    rows = {name: name for name in ("producer", *(f"consumer {c}" for c in range(consumers)))}
    lanes = Lanes(rows | {CORES: f"{CORES}\nconsumer: tile"}, shown, SIDE, 0.42)
    for bar in bars:
        text = f"{bar.consumer}: {bar.tile}" if bar.row == CORES else f"{bar.what}{bar.tile}"
        lanes.bar(bar.row, bar.start, bar.end, WORK[bar.kind], text)
    line = 1.02 - len(rows)
    lanes.axes.plot([0, end], [line, line], color=GRAY, lw=0.8)
    names = {"load k or v of a tile": "load", "dot (the number is the tile's)": "dot",
             "softmax": "softmax"}  # fmt: skip
    colors = {words: WORK[kind] for words, kind in names.items()}
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
    sketch = "a sketch from the kernel's structure; the durations are made up, not measured"
    return lanes.picture(f"{_groups(consumers)}: {sketch}", colors, 3, alt)


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
            bars.append(_Bar(CORES, "dot", tile, start, stop, c))
            freed[tile, "v" if operation == 2 else "k"].append(stop)
        free_from[c] = stop
        at[c] += 1
