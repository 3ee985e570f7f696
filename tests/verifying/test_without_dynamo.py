"""To verify a function takes no torch._dynamo, and gets on with one that is there."""

from course.isolate.pool import call, cancel
from course.triton_internals.compiler import cache, known_by_its_files
from tests.support import child_tasks as tasks


def test_a_function_is_verified_without_loading_dynamo_and_keeps_it_away_once_it_is_loaded():
    cancel("interpret")  # a worker keeps what an earlier task has imported
    ended = call(tasks.verifies_without_dynamo, kind="interpret")
    assert ended.value == [True, True, False, True], ended.stderr


def test_triton_is_told_from_other_versions_without_reading_its_files(monkeypatch):
    def hashed():
        raise AssertionError

    monkeypatch.setattr(cache, "triton_key", hashed)
    with known_by_its_files():
        assert len(cache.triton_key()) > 1000
