"""Which programs of a grid are followed, in which order, and how many each of them stands for."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from course.triton_internals.interpreter import Grid, Program

MOST_SAMPLED = 1024
"""Programs of a grid that are all run; of a larger grid a sample of so many is."""
CLUSTERS = 16
"""A sample's clusters of neighbors: evenly spread, with the first program and the last."""
LEAST_TOGETHER = 16
"""Programs in a cluster at least, since neighbors share sectors."""
SIZES = 16
"""One in so many programs of a sample is chosen by its size: the largest, the smallest, and others
between them."""


@dataclass(frozen=True)
class Plan:
    """How much of a launch is followed, and in which order."""

    most: int = MOST_SAMPLED
    """Programs of a grid that are all run; of a larger grid a sample of so many is."""
    operations: float = 300_000
    """Operations of the interpreter after which no further program is followed."""
    fair: bool = False
    """Whether programs come in an order whose beginning stands for the whole grid. Otherwise they
    come as a GPU starts them, as those need that wait for one another."""
    packed: bytes = b""

    def with_sizes(self, sizes: np.ndarray | None) -> "Plan":
        """The same where it is known how much each program has to do."""
        packed = b"" if sizes is None else zlib.compress(sizes.astype("<i8").tobytes(), 1)
        return replace(self, packed=packed)

    @property
    def sizes(self) -> np.ndarray | None:
        """How much each program has to do, in the order of the grid; None if it is not known."""
        return np.frombuffer(zlib.decompress(self.packed), "<i8") if self.packed else None

    def programs(self, grid: Grid, also: Iterable[Program] = ()) -> list[Program]:
        """The programs of a grid to follow: all, or a sample and those in `also`."""
        x, y, z = grid
        total = x * y * z
        chosen = list(_spread(total) if self.fair and total <= self.most else range(total))
        if total > self.most:
            chosen = _sample(total, self.most, self.sizes)
            chosen = list(dict.fromkeys([*chosen, *(i + x * (j + y * k) for i, j, k in also)]))
        if not self.fair:
            chosen.sort()
        return [(n % x, n // x % y, n // (x * y)) for n in chosen]


def _sample(total: int, most: int, sizes: np.ndarray | None) -> list[int]:
    """Numbers of programs: one of each cluster in turn; behind the first of each, those chosen by
    their sizes, the smallest of which comes before all: it stands for those of no more than itself,
    wherever the others are cut off, and takes least."""
    clusters = min(CLUSTERS, most // LEAST_TOGETHER)
    length = most // clusters
    starts = [i * (total - length) // (clusters - 1) for i in _spread(clusters)]
    first, *rest = ([start + i for start in starts] for i in _spread(length))
    smallest, *spanning = _spanning(sizes, most // SIZES) or [starts[0]]
    others = (n for turn in rest for n in turn)
    return list(dict.fromkeys([smallest, *first, *spanning, *others]))


def _spread(count: int) -> list[int]:
    """The numbers below `count`, the first, the last, and then each far from those before it."""
    bits = max(1, (count - 1).bit_length())
    mirrored = (int(f"{n:0{bits}b}"[::-1], 2) for n in range(2**bits))
    return list(dict.fromkeys([0, count - 1, *(n for n in mirrored if n < count)]))


def _spanning(sizes: np.ndarray | None, most: int) -> list[int]:
    """A program of each of so many sizes, between the smallest and the largest; these two first."""
    if sizes is None:
        return []
    different, first = np.unique(sizes, return_index=True)
    wanted = np.linspace(different[0], different[-1], max(2, most))
    return [int(first[np.searchsorted(different, wanted[i])]) for i in _spread(len(wanted))]


def weights(sizes: np.ndarray | None, followed: list[int], total: int) -> np.ndarray:
    """How many programs each one that was followed stands for, together the whole grid.

    sizes: how much each program has to do, if that is known. One between two sizes that were
        followed is stood for by both, in parts such that its own size is met, and a larger one by
        the largest, as often as it is larger.
    followed: numbers of programs in the grid. Without sizes, and of a whole sample, what lies
        between two runs of neighbors is stood for by the halves of these that face it: work that
        only the first programs have, or the last, is not taken for that of others.
    """
    if len(followed) == total:
        return np.ones(total)
    if sizes is None and len(followed) >= MOST_SAMPLED:
        return _by_place(np.asarray(followed), total)
    if sizes is None:
        return np.full(len(followed), total / len(followed))
    there, which, times = np.unique(sizes[followed], return_inverse=True, return_counts=True)
    larger = np.maximum(1, sizes / max(1, there[-1]))
    right = np.searchsorted(there, np.minimum(sizes, there[-1]))
    left = np.maximum(0, right - 1)
    apart = np.maximum(1, there[right] - there[left])
    part = np.clip((there[right] - sizes) / apart, 0, 1) * (left < right)
    stood_for = np.bincount(right, (1 - part) * larger, len(there))
    stood_for += np.bincount(left, part, len(there))
    return stood_for[which] / times[which]


def _by_place(followed: np.ndarray, total: int) -> np.ndarray:
    """How many programs each one stands for that lies in a run of neighbors."""
    order = np.argsort(followed)
    numbers, weight = followed[order], np.ones(len(followed))
    ends = np.flatnonzero(np.diff(numbers) > 1)
    firsts, lasts = [0, *(ends + 1)], [*ends, len(numbers) - 1]
    before = np.diff([-1, *numbers])[firsts] - 1.0
    behind = np.append(before[1:], total - 1 - numbers[-1])
    before[1:], behind[:-1] = before[1:] / 2, behind[:-1] / 2
    for first, last, left, right in zip(firsts, lasts, before, behind, strict=True):
        half = (last - first) // 2 + 1
        weight[first : first + half] += left / half
        weight[last + 1 - half : last + 1] += right / half
    out = np.empty(len(followed))
    out[order] = weight
    return out
