"""What a first diagnosis costs: two workers that start side by side and import little."""

import pytest
import torch

from course import diagnose
from course.isolate import pool
from course.isolate.pool import Worker, call
from course.lowering.worker import compile_kernel
from tests.diagnosing import kernels_sectors
from tests.support import child_tasks as tasks

ROW = kernels_sectors.copy_row_kernel, (256,), torch.empty(2**18), torch.empty(2**18), 1, 1024
NOT_NEEDED = {
    "IPython",
    "course.benching",
    "course.draw",
    "course.exercises",
    "course.lessons",
    "ipywidgets",
    "matplotlib",
    "torch._dynamo",
    "torch._inductor",
}


@pytest.fixture
def no_workers(monkeypatch):
    """No worker runs yet."""
    workers = {}
    monkeypatch.setattr(pool, "_workers", workers)
    yield
    for worker in workers.values():
        worker.stop()


def test_both_workers_have_been_started_before_one_is_waited_for(no_workers, monkeypatch):
    started = []

    def waits(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Worker, "_start", lambda worker: started.append(worker.kind))
    monkeypatch.setattr(type(compile_kernel), "ended", waits)
    with pytest.raises(KeyboardInterrupt):
        diagnose(*ROW, target="H200")
    assert started == ["compile", "interpret"]


def test_the_workers_import_nothing_that_a_copy_does_not_need(no_workers):
    diagnose(*ROW, target="H200")
    for kind in ("compile", "interpret"):
        there = {*call(tasks.modules, kind=kind).value}
        assert "course.lowering" in there
        assert not there & NOT_NEEDED


def test_nothing_is_hashed_for_a_cache_that_ends_with_its_compilation():
    assert call(tasks.compiles_without_hashing, kind="compile").value == 0
