"""Warps that take turns: while one waits for memory, another computes."""

from course.display.colors import LIGHT, WORK, paler
from course.display.picture import Picture

from .arguments import check_whole
from .lanes import Lanes

MOST_WARPS = 8
WAIT = 5
"""How many times as long as it computes a warp waits for memory."""
END = 24
COMPUTES, WAITS = WORK["softmax"], paler(WORK["load"], 0.6)


def turns(warps: int = 4) -> Picture:
    """Warps of a multiprocessor in time: each computes, and then waits for what it has loaded.

    The last row says when any of them computes. The times are made up, and one warp computes at a
    time: a real multiprocessor picks up to four in each cycle.
    """
    check_whole("turns", MOST_WARPS, warps=warps)
    rows = {str(warp): f"warp {warp}" for warp in range(warps)}
    lanes = Lanes(rows | {"any": "any of them"}, end=END, side=1, pitch=0.34)
    ready = dict.fromkeys(rows, 0)
    for time in range(END):
        lanes.bar("any", time, time + 1, LIGHT, "")
        warp = min(ready, key=lambda each: ready[each])
        if ready[warp] <= time:
            ready[warp] = time + 1 + WAIT
            lanes.bar(warp, time, time + 1, COMPUTES, "")
            lanes.bar(warp, time + 1, min(ready[warp], END), WAITS, "")
            lanes.bar("any", time, time + 1, COMPUTES, "")
    busy = min(warps / (1 + WAIT), 1)
    alt = (
        f"A sketch of {warps} warps in time: each computes for one unit of time and waits {WAIT} "
        f"for memory. Some warp computes in {busy:.0%} of the time."
    )
    colors = {"computes": COMPUTES, "waits for memory": WAITS, "no warp computes": LIGHT}
    title = f"{warps} warps on a multiprocessor: computing {busy:.0%} of the time (a sketch)"
    return lanes.picture(title, colors, 3, alt)
