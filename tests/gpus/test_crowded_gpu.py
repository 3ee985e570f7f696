"""A session that holds more than its part of a shared GPU is told so when it asks to measure."""

import sys
from types import SimpleNamespace

import pytest

from course.gpus.crowded_gpu import memory_notice
from course.gpus.turn import gpu_turn


@pytest.fixture
def holding(monkeypatch):
    """Pretend that this session holds so many GB of a GPU that has 80."""

    def hold(gigabytes, initialized=True):
        cuda = SimpleNamespace(
            is_initialized=lambda: initialized,
            memory_reserved=lambda: int(gigabytes * 1e9),
            mem_get_info=lambda: (0, 80 * 10**9),
        )
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    monkeypatch.setenv("COURSE_SEATS", "20")
    return hold


def test_more_than_its_part_is_told_before_the_turn(holding, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_GPU_QUEUE", str(tmp_path))
    holding(5.5)
    told = []
    with gpu_turn("softmax", told.append):
        pass
    assert told == [memory_notice()]
    assert "holds 5.5 GB of the GPU, and its part of the room's is 4.0 GB" in told[0]


def test_its_part_or_less_is_its_own_business(holding):
    holding(4.0)
    assert memory_notice() == ""


def test_a_session_that_has_not_used_the_gpu_is_not_asked(holding):
    holding(50, initialized=False)
    assert memory_notice() == ""


def test_a_session_that_shares_with_nobody_is_not_told(holding, monkeypatch):
    holding(50)
    monkeypatch.delenv("COURSE_SEATS")
    assert memory_notice() == ""
