"""mbarrier: what one barrier counts, event by event, and which waits go on."""

from collections.abc import Callable

from course.display.colors import GRAY, LIGHT, WORK
from course.display.picture import Picture, new_axes
from course.display.shapes import cell, label
from course.simulating.barriers import Barrier

from .arguments import check_whole

TILE, HALF = 8192, 4096
"""Bytes of a tile of 64 x 64 float16, and of half of it."""
EVENTS: tuple[tuple[str, Callable[[Barrier], None]], ...] = (
    ("mbarrier.init(b, count=1)", lambda barrier: barrier.init(1)),
    (f"mbarrier.expect(b, {TILE})", lambda barrier: barrier.arrive(1, TILE)),
    (f"the first {HALF:,} bytes come", lambda barrier: barrier.came(HALF)),
    (f"the other {HALF:,} bytes come", lambda barrier: barrier.came(HALF)),
    (f"mbarrier.expect(b, {TILE})", lambda barrier: barrier.arrive(1, TILE)),
    (f"{TILE:,} bytes come", lambda barrier: barrier.came(TILE)),
)
COLUMNS = ("phase\nunder way", "arrivals\nmissing", "bytes\nmissing", "wait(b, 0)", "wait(b, 1)")
EVENT, COLUMN = 4.2, 1.6
"""Width of an event's words and of a column, where a row is 1 high."""
GOES_ON, WAITS = "goes on", "waits"

Row = tuple[str, str, str, str, str, str]
"""An event, and what stands in the columns behind it."""


def states() -> list[Row]:
    """Each event, and the barrier's state after it, as `simulate` keeps it."""
    barrier, rows = Barrier("b"), []
    for words, happens in EVENTS:
        happens(barrier)
        waits = [GOES_ON if barrier.has_ended(phase) else WAITS for phase in (0, 1)]
        counted = f"{barrier.missing}", f"{barrier.bytes_missing:,}"
        rows.append((words, f"{barrier.ended % 2}", *counted, waits[0], waits[1]))
    return rows


def mbarrier(until: int = len(EVENTS)) -> Picture:
    """What an mbarrier of one arrival counts while two tiles are copied, one after the other.

    until: the number of events to show, 1 to 6, to step through them.
    """
    check_whole("mbarrier", len(EVENTS), until=until)
    rows = states()[:until]
    axes = new_axes(9, 0.36 * (len(EVENTS) + 2))
    for place, words in enumerate(COLUMNS):
        label(axes, EVENT + (place + 0.5) * COLUMN, 0.6, words, fontsize=8.5)
    for number, (event, *state) in enumerate(rows):
        y = -1.0 - number
        label(axes, 0.0, y + 0.5, event, ha="left", family="monospace")
        for place, text in enumerate(state):
            color = {GOES_ON: WORK["dot"], WAITS: GRAY}.get(text, LIGHT)
            cell(axes, EVENT + place * COLUMN, y + 0.06, color, text, COLUMN, height=0.88)
    told = "; ".join(
        f"after {event}: phase {phase} is under way, {arrivals} arrivals and {size} bytes missing, "
        f"wait(b, 0) {zero}, wait(b, 1) {one}"
        for event, phase, arrivals, size, zero, one in rows
    )
    right = EVENT + len(COLUMNS) * COLUMN
    return Picture.of_sketch(axes, (-0.1, right + 0.1), (-len(EVENTS) - 0.1, 1.2), told, colors=32)
