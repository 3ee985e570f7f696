"""How often atomics update the line of memory that most of them come to."""

from collections import defaultdict

import numpy as np

from .touched_memory import COMMON, REGIONS

MOST_KEPT = 2**20
"""Updates that are kept one by one, before they are counted."""


class UpdatedLines:
    """The lines that the requests of warps update, by tensor and by part of the grid."""

    def __init__(self) -> None:
        self._new: dict[tuple[int, int], list[np.ndarray]] = defaultdict(list)
        """(tensor, region of the grid) -> lines, as often as they were updated."""
        self._counted: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        """The same -> lines, and how often each was updated."""
        self._kept = 0

    def note(self, tensor: int, part: float, lines: np.ndarray) -> None:
        """lines: one for each request and line. part: where in the grid the program stands, from 0
        to 1."""
        self._new[tensor, int(part * REGIONS)].append(lines)
        self._kept += lines.size
        if self._kept > MOST_KEPT:
            self._count()

    def _count(self) -> None:
        for key, new in self._new.items():
            before, times = self._counted.get(key, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
            lines, which = np.unique(np.concatenate([before, *new]), return_inverse=True)
            weights = np.concatenate([times, np.ones(sum(map(len, new)), np.int64)])
            self._counted[key] = lines, np.bincount(which, weights, len(lines)).astype(np.int64)
        self._new.clear()
        self._kept = 0

    def most(self, times: float) -> dict[int, float]:
        """Tensor -> the updates of the line that is updated most often.

        times: how many programs each one that was followed stands for. What programs all over the
        grid update is updated so many times as often; other lines have neighbors alone.
        """
        self._count()
        found = {}
        for tensor in {tensor for tensor, _ in self._counted}:
            regions = [counted for (of, _), counted in self._counted.items() if of == tensor]
            every, which = np.unique(
                np.concatenate([lines for lines, _ in regions]), return_inverse=True
            )
            updates = np.bincount(which, np.concatenate([number for _, number in regions]))
            common = np.bincount(which) >= COMMON
            if every.size:
                found[tensor] = float((updates * np.where(common, times, 1)).max())
        return found
