"""Specialized warps in time: who loads, who multiplies, and when the tensor cores have work.

Two groups that are waiting for the same tile begin together, and nothing in a loop of `tl` parts
them again. So their dots run at the same time, each at half the speed, and so do their softmaxes.
"""

from dataclasses import dataclass, replace

from course.display.colors import DARK, GRAY, WORK
from course.display.picture import Picture
from course.display.shapes import arrow, label

from .arguments import check_whole
from .lanes import Lanes

MOST_CONSUMERS, MOST_TILES = 3, 8
LOAD, DOT, SOFTMAX = 0.5, 1.0, 1.4
"""Made-up durations; a load is that of k or v, and a dot takes so long if it has the tensor cores
alone."""
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
    what: str = ""
    """What is loaded, k or v; on the tensor cores, for whom they work."""


def specialized(consumers: int = 2, tiles: int = 5) -> Picture:
    """Attention by specialized warps: one producer loads, each consumer computes rows of its own.

    consumers: groups of warps, 1 to 3; all take the same tiles of keys and values. Dots that run
        at the same time share the tensor cores. tiles: of keys and values, 1 to 8.
    Who waits for whom is as in the course's v5: a consumer for the k or the v of its tile, the
    producer for a buffer that all consumers are done with, and no consumer for another. How long
    each takes is made up and not measured.
    Pictures of as many tiles have one scale, for one consumer and for two.
    """
    check_whole("specialized", MOST_CONSUMERS, consumers=consumers)
    check_whole("specialized", MOST_TILES, tiles=tiles)
    bars = _simulated(consumers, tiles)
    end = max(bar.end for bar in bars)
    shown = max(end, *(bar.end for bar in _simulated(2, tiles)))
    rows = {name: name for name in ("producer", *(f"consumer {c}" for c in range(consumers)))}
    lanes = Lanes(rows | {CORES: f"{CORES}\nwork for"}, shown, SIDE, 0.42)
    for bar in bars:
        text = bar.what if bar.row == CORES else f"{bar.what}{bar.tile}"
        lanes.bar(bar.row, bar.start, bar.end, WORK[bar.kind], text)
    line = 1.02 - len(rows)
    lanes.axes.plot([0, end], [line, line], color=GRAY, lw=0.8)
    for time, words, down in _handed_over(bars):
        ends = [(time, 1.0), (time, 1.02 - len(rows) + 0.9)]
        tail, tip = ends if down else ends[::-1]
        arrow(lanes.axes, tail, tip, DARK, 1.0, "-|>", shrinkA=0, shrinkB=0)
        label(lanes.axes, time, 1.16, words, fontsize=8.5)
    names = {"load k or v of a tile": "load", "dot (the number is the tile's)": "dot",
             "softmax": "softmax"}  # fmt: skip
    colors = {words: WORK[kind] for words, kind in names.items()}
    alt = (
        f"A sketch of {_groups(consumers)} and {tiles} tiles of keys and values, with durations "
        f"that are made up. The producer loads k and v ahead, up to {BUFFERS} tiles of each, and "
        "waits for an empty buffer after that. Each consumer multiplies, computes its softmax and "
        "multiplies again for each tile. "
        + (
            "While it computes the softmax the tensor cores idle"
            if consumers == 1
            else "All multiply at the same time, and the tensor cores idle while all compute their "
            "softmax"
        )
        + "."
    )
    sketch = "a sketch from the kernel's structure; the durations are made up, not measured"
    return lanes.picture(f"{_groups(consumers)}: {sketch}", colors, 3, alt, above=0.25)


def _groups(consumers: int) -> str:
    return f"one producer and {consumers} consumer{'s' if consumers > 1 else ''}"


def _handed_over(bars: list[_Bar]) -> list[tuple[float, str, bool]]:
    """When the first k is handed to the consumers, and when its buffer is given back, if it is
    needed again: the time, its words, and whether it goes down the picture."""
    loads = {(bar.tile, bar.what): bar for bar in bars if bar.kind == "load"}
    again = loads.get((BUFFERS, "k"))
    back = [] if again is None else [(again.start, "k0 empty", False)]
    return [(loads[0, "k"].end, "k0 full", True), *back]


def _last(bars: list[_Bar], row: str) -> int:
    """The place of a row's last bar."""
    return max(place for place, bar in enumerate(bars) if bar.row == row)


def _simulated(consumers: int, tiles: int) -> list[_Bar]:
    """Who works when: each begins as soon as what it waits for has come."""
    bars: list[_Bar] = []
    loads = [(tile, what) for tile in range(tiles) for what in "kv"]
    loaded: dict[tuple[int, str], float] = {}
    freed: dict[tuple[int, str], list[float]] = {load: [] for load in loads}
    free_from = [0.0] * consumers  # when each consumer can go on
    at = [0] * consumers  # operations that each has begun: 3 for a tile
    began: dict[int, float] = {}
    left: dict[int, float] = {}  # consumer -> what is left of its dot
    shown: list[tuple[int, int]] = []  # the dots of the last bar of the tensor cores
    time = loading = 0.0
    while True:
        while len(loaded) < len(loads):
            tile, what = loads[len(loaded)]
            ends = freed.get((tile - BUFFERS, what), [0.0] * consumers)
            if len(ends) < consumers:
                break  # its buffer still holds a tile that somebody needs
            start = max(loading, *ends)
            loading = loaded[tile, what] = start + LOAD
            bars.append(_Bar("producer", "load", tile, start, loading, what))
        for c in range(consumers):
            tile, operation = divmod(at[c], 3)
            if c in left or free_from[c] > time or tile == tiles:
                continue
            if operation == 1:
                free_from[c] = time + SOFTMAX
                bars.append(_Bar(f"consumer {c}", "softmax", tile, time, free_from[c]))
                at[c] += 1
            elif loaded.get((tile, "kv"[operation // 2]), time + 1) <= time:
                began[c], left[c] = time, DOT
                at[c] += 1
        events = [when for when in (*free_from, *loaded.values()) if when > time]
        events += [time + least * len(left) for least in left.values()]
        if not events:
            return bars
        passed, time = min(events) - time, min(events)
        dots = [(c, at[c]) for c in left]
        if dots and dots != shown:
            who = " and ".join(str(c) for c in sorted(left))
            bars.append(_Bar(CORES, "dot", 0, time - passed, time, who))
        elif dots:
            bars.append(replace(bars.pop(_last(bars, CORES)), end=time))
        shown = dots
        share = passed / max(1, len(left))
        left = {c: rest - share for c, rest in left.items()}
        for c in [c for c, rest in left.items() if rest < 1e-9]:
            tile, operation = divmod(at[c] - 1, 3)
            bars.append(_Bar(f"consumer {c}", "dot", tile, began[c], time))
            freed[tile, "kv"[operation // 2]].append(time)
            free_from[c] = time
            del left[c]
