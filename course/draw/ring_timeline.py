"""A ring of buffers in time: who fills which buffer, who reads it, and who waits for whom."""

from dataclasses import dataclass

from course.display.colors import GRAY, WORK, paler
from course.display.picture import Picture

from .arguments import check_whole
from .lanes import Lanes, fitting

MOST_TILES, MOST_SLOTS = 8, 4
ISSUE, COPY, USE = 0.3, 2.0, 1.0
"""Made-up durations: to issue a copy, of the copy itself, and of the consumer's work on a tile."""
SIDE = 1.1
"""Inches for the names of rows."""
LETTER = 0.068
"""Inches of a letter, about."""


@dataclass(frozen=True)
class Tile:
    """When what happens to one tile."""

    number: int
    slot: int
    phase: int
    """The phase of `full` that the consumer waits for: 0 and 1 in turn, round by round."""
    asked: float
    """The producer begins to wait for `empty`."""
    issued: float
    """It has waited, and issues the copy."""
    arrived: float
    wanted: float
    """The consumer begins to wait for `full`."""
    begun: float
    freed: float
    """The consumer arrives at `empty`."""


def tiles_in_time(tiles: int, slots: int) -> list[Tile]:
    """The tiles of a ring in order, one producer and one consumer, with the durations above."""
    ring: list[Tile] = []
    asked = wanted = 0.0
    for number in range(tiles):
        issued = max(asked, ring[number - slots].freed) if number >= slots else asked
        arrived = issued + COPY
        begun = max(wanted, arrived)
        freed = begun + USE
        phase = number // slots % 2
        ring.append(
            Tile(number, number % slots, phase, asked, issued, arrived, wanted, begun, freed)
        )
        asked, wanted = issued + ISSUE, freed
    return ring


def ring(tiles: int = 6, slots: int = 2, until: int | None = None) -> Picture:
    """A ring of buffers: the producer's waits, the copies, the consumer's waits and its work.

    tiles: 1 to 8. slots: buffers in the ring, 1 to 4. until: the number of tiles that the consumer
        has given back, to step through the rounds; by default all of them.
    Who waits for whom is as in a kernel where each buffer has a barrier `full` and a barrier
    `empty`. How long each takes is made up and not measured.
    """
    check_whole("ring", MOST_TILES, tiles=tiles, until=tiles if until is None else until)
    check_whole("ring", MOST_SLOTS, slots=slots)
    steps = tiles_in_time(tiles, slots)
    end = steps[-1].freed
    now = end if until is None or until >= tiles else steps[until - 1].freed
    rows = ["producer", *(f"buffer {slot}" for slot in range(slots)), "consumer"]
    slowest = tiles_in_time(tiles, 1)[-1].freed  # one scale, whatever the number of buffers
    lanes = Lanes(dict(zip(rows, rows, strict=True)), slowest, SIDE, 0.46)

    def bar(row: str, start: float, stop: float, color: str, text: str) -> None:
        stop = min(stop, now)
        if stop > start:
            lanes.bar(row, start, stop, color, fitting(text, (stop - start) * lanes.inch, LETTER))

    load, work = WORK["load"], WORK["softmax"]
    for tile in steps:
        name = f"buffer {tile.slot}"
        bar("producer", tile.asked, tile.issued, GRAY, f"empty[{tile.slot}]")
        bar("producer", tile.issued, tile.issued + ISSUE, load, f"{tile.number}")
        bar(name, tile.issued, tile.arrived, load, f"copy {tile.number}")
        bar(name, tile.arrived, tile.begun, paler(load, 0.6), f"{tile.number}")
        bar(name, tile.begun, tile.freed, work, f"read {tile.number}")
        bar("consumer", tile.wanted, tile.begun, GRAY, f"full[{tile.slot}]")
        bar("consumer", tile.begun, tile.freed, work, f"phase {tile.phase}")
    colors = {
        "a copy is issued, and under way": load,
        "the tile has come": paler(load, 0.6),
        "it is read": work,
        "waits for a barrier": GRAY,
    }
    buffers = f"{slots} buffer{'s' if slots > 1 else ''}"
    what = f"A ring of {buffers}: a sketch; the durations are made up, not measured"
    return lanes.picture(what, colors, 4, _words(steps, buffers, now))


def _words(steps: list[Tile], buffers: str, now: float) -> str:
    """The picture in words: the waits that have begun before `now`."""
    waits = [
        f"for tile {tile.number} the producer waits for empty[{tile.slot}]"
        for tile in steps
        if tile.asked < min(tile.issued, now)
    ] + [
        f"for tile {tile.number} the consumer waits for full[{tile.slot}], phase {tile.phase}"
        for tile in steps
        if tile.wanted < min(tile.begun, now)
    ]
    read = sum(tile.freed <= now for tile in steps)
    return (
        f"A sketch of a ring of {buffers}, until {read} of {len(steps)} tiles are read: "
        f"{'; '.join(waits)}."
    )
