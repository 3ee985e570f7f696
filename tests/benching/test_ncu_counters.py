"""The recorded comparison of counted sectors with a GPU's counters: still what is counted today, and within 5 %."""

import pytest

from course.benching.ncu_counters import CASES, counted, sectors


@pytest.mark.parametrize("each", sectors().compared, ids=lambda each: each.case)
def test_what_was_recorded_is_what_is_counted(each):
    assert counted(CASES[each.case]) == (each.counted_loaded, each.counted_stored)


def test_every_case_is_recorded_and_counted_right():
    compared = {each.case: each.error for each in sectors().compared}
    assert set(compared) == set(CASES)
    assert all(error <= 0.01 for error in compared.values())
    assert "vector add" in str(sectors()) and "Recorded on NVIDIA H200" in str(sectors())
