"""A warp's threads above the sectors of memory that they touch, an arrow from each to its own."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course.gpus.limits import SECTOR_BYTES

from .colors import DARK, GRAY, LIGHT
from .shapes import arrow, box, cell, frame, label

LANE = 1.3
"""Width of a lane, and of a sector with the gap behind it; a sector alone is 1 wide."""
LANES_Y = 2.3
"""Where the lanes stand; the sectors stand at 0, and each is 1 high."""
LEFT, BELOW, ABOVE = -4.6, -1.0, 3.4
"""Where the picture ends."""

Lanes = Sequence[tuple[int, int]]
"""For each lane the first byte that it touches, and the byte after its last; equal if it asks for
nothing."""


def draw_lane_arrows(axes: Axes, lanes: Lanes, color: str) -> list[int]:
    """Draw which sectors of 32 bytes the lanes of a warp touch in one request; return those.

    The part of a sector that somebody asked for has the color, the rest of it is gray. All
    pictures have one scale: neighbors in memory touch, and between others there is one gap, as
    far apart as they may lie.
    """
    touched = sorted({sector for lane in lanes for sector in _sectors(*lane)})
    places = _places(touched)
    span = places[touched[-1]] + 1 if touched else 0.0
    width = max(len(lanes) * LANE, 32 * LANE, span)
    across = (width - len(lanes) * LANE) / 2
    shift = (width - span) / 2
    for sector in touched:
        box(axes, shift + places[sector], 0, 1, 1, LIGHT)
    for lane, (begin, end) in enumerate(lanes):
        x = across + lane * LANE
        cell(axes, x, LANES_Y, color if begin < end else LIGHT, str(lane), width=LANE)
        for sector in _sectors(begin, end):
            start = max(begin - sector * SECTOR_BYTES, 0) / SECTOR_BYTES
            stop = min(end - sector * SECTOR_BYTES, SECTOR_BYTES) / SECTOR_BYTES
            left = shift + places[sector]
            box(axes, left + start, 0, stop - start, 1, color)
            tip = left + (start + stop) / 2, 1.03
            tail = x + LANE / 2, LANES_Y - 0.03
            arrow(axes, tail, tip, color, 0.8, "-|>", mutation_scale=6, shrinkA=0, shrinkB=0)
    for sector in touched:
        frame(axes, shift + places[sector], 0, 1, 1, edgecolor="black", lw=0.8)
    _label_bytes(axes, touched, {sector: shift + place for sector, place in places.items()})
    label(axes, -0.4, LANES_Y + 0.5, "thread", ha="right", fontsize=9)
    label(axes, -0.4, 0.5, "sector", ha="right", fontsize=9)
    axes.set_xlim(LEFT, width + 0.3)
    axes.set_ylim(BELOW, ABOVE)
    axes.axis("off")
    return touched


def lane_legend(colors: dict[str, str]) -> list[Patch]:
    """What the colors of lanes and sectors mean, for a figure's legend.

    colors: of what is done, as {"load": "#0072B2"}.
    """
    asked = [
        Patch(color=color, label=f"bytes that a {what} asks for") for what, color in colors.items()
    ]
    return [
        *asked,
        Patch(facecolor=LIGHT, edgecolor="black", lw=0.8, label="moved along with them"),
    ]


def _sectors(begin: int, end: int) -> range:
    """The sectors that a lane's bytes lie in."""
    return range(begin // SECTOR_BYTES, -(-end // SECTOR_BYTES)) if begin < end else range(0)


def _places(touched: list[int]) -> dict[int, float]:
    """Where each sector begins in the picture."""
    places = dict.fromkeys(touched[:1], 0.0)
    for before, sector in pairwise(touched):
        places[sector] = places[before] + (1 if sector == before + 1 else LANE)
    return places


def sectors_text(touched: list[int]) -> str:
    """Sectors and how they lie, in words."""
    if len(touched) == 1:
        return "1 sector"
    count, step = f"{len(touched)} sectors", _step(touched)
    if step == 1:
        return f"{count} side by side"
    return f"{count}, one every {SECTOR_BYTES * step:,} bytes" if step else f"{count} with gaps"


def _step(touched: list[int]) -> int:
    """From each sector to the next; 0 if that is not always the same."""
    steps = {after - before for before, after in pairwise(touched)}
    return steps.pop() if len(steps) == 1 else 0


def _label_bytes(axes: Axes, touched: list[int], lefts: dict[int, float]) -> None:
    """Below the sectors: at which bytes they lie, and how far apart if that is always the same."""
    if not touched:
        label(axes, 16 * LANE, 0.5, "no thread asks for anything", color=GRAY, fontsize=9)
        return
    first, last = touched[0], touched[-1]
    left, right = lefts[first], lefts[last] + 1
    start, step = f"{SECTOR_BYTES * first:,}", _step(touched)
    if right - left < 9:
        end = f"{SECTOR_BYTES * (last + 1) - 1:,}"
        label(axes, (left + right) / 2, -0.45, f"bytes {start} to {end}", color=DARK)
        return
    label(axes, left, -0.45, f"byte {start}", ha="left", color=DARK)
    label(axes, right, -0.45, f"byte {SECTOR_BYTES * last:,}", ha="right", color=DARK)
    if step:
        text = f"a sector every {SECTOR_BYTES * step:,} bytes" if step > 1 else "side by side"
        label(axes, (left + right) / 2, -0.45, text, color=DARK)
