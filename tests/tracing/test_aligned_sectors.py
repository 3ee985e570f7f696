"""The sectors that the runs of a request would take if each began with a sector."""

import numpy as np
import pytest

from course.tracing.coalescing import _aligned_sectors


@pytest.mark.parametrize(
    "addresses, sectors",
    [
        (range(4, 132, 4), 4),  # 128 bytes, which touch five sectors
        (range(0, 128, 4), 4),
        (range(0, 256, 8), 32),  # every other element: a run each
        ([*range(20, 52, 4), *range(1012, 1044, 4)], 2),  # two rows that begin within a sector
        ([4, 4, 8, 8], 1),  # lanes that ask for the same
        ([-1, -1, 0, 4], 1),
        ([-1, -1], 0),
    ],
)
def test_runs_of_bytes_are_counted_as_if_each_began_with_a_sector(addresses, sectors):
    assert _aligned_sectors(np.array([[*addresses]]), itemsize=4) == sectors


def test_a_run_ends_with_its_request():
    assert _aligned_sectors(np.array([[0, 4], [8, 12]]), itemsize=4) == 2
