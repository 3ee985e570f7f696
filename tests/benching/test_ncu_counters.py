"""Counted sectors beside the GPU's counters, as recorded: counted so today, and within 1 %."""

from course.benching.result import observation
from tools.record.sectors import CASES, Sectors, counted

RECORDED = observation(Sectors, "sectors")


def test_the_counts_that_were_recorded_are_those_of_today():
    recorded = {row.case: (row.counted_loaded, row.counted_stored) for row in RECORDED.compared}
    assert {name: counted(name) for name in recorded} == recorded


def test_every_case_is_recorded_and_counted_right():
    errors = {row.case: row.error for row in RECORDED.compared}
    assert set(errors) == set(CASES)
    assert all(error <= 0.01 for error in errors.values())
    assert "vector add" in str(RECORDED) and "Recorded on NVIDIA H200" in str(RECORDED)
