"""Tiles of a product that a mask throws away as a whole."""

from collections.abc import Iterator
from dataclasses import replace

from course.triton_internals.operation_counts import HIDDEN

from ..evidence import Evidence
from ..result import Finding
from ..time_model import Work

LEAST_PART = 0.25
"""The part of the tiles from which on they are named: half of those on a causal mask's diagonal
cannot be helped."""


def hidden(evidence: Evidence, work: Work) -> Iterator[Finding]:
    """A loop that multiplies tiles of which tl.where keeps nothing."""
    assert evidence.counts is not None
    tiles = evidence.counts.tiles
    total, gone = sum(tiles.values()), tiles.get(HIDDEN, 0)
    loop = max(evidence.loops, key=lambda each: each.dots, default=None)
    if loop is None or not loop.dots or gone < LEAST_PART * total or not gone:
        return
    yield Finding(
        "hidden tiles",
        f"{gone:,} of {total:,} tiles of a product are masked as a whole, {gone / total:.0%}",
        "what a program has loaded and computed for them is thrown away by tl.where.",
        "let the loop begin and end where the mask keeps something: compute both from the mask's "
        "bounds.",
        mended=_without(work, gone / total),
        place=loop.line,
        certain=2 * gone >= total,
    )


def _without(work: Work, part: float) -> Work:
    """The work without a part of its products, and of what goes with them."""
    left = 1 - part

    def of(amounts: dict[str, float]) -> dict[str, float]:
        return {name: left * amount for name, amount in amounts.items()}

    return replace(
        work,
        rounds=max(1, left * work.rounds),
        l2_sectors=left * work.l2_sectors,
        l1_sectors=left * work.l1_sectors,
        requests=left * work.requests,
        special=left * work.special,
        simple=of(work.simple),
        dot=of(work.dot),
        instructions=of(work.instructions),
    )
