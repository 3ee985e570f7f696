"""What tasks import of installed packages and the course, their worker imports once for all."""

import os
import sys
from pathlib import Path

import pytest

from course.isolate.huge_pages import COLLAPSE_AFTER
from course.isolate.messages import Task, pack_arguments, unpack_returned
from course.isolate.pool import Worker, child_environment
from tests.support import child_tasks as tasks

LINUX = tuple(map(int, os.uname().release.split(".")[:2]))
MODULE = "import os\nopen(__file__ + '.log', 'a').write('x')\nVALUE = {value}\n"
MODULES = {
    "installed/slow.py": MODULE.format(value=1),
    "installed/starts_a_thread.py": MODULE.format(value=1)
    + "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
    "installed/crashes.py": MODULE.format(value=1) + "os.abort()\n",
    "own/own_module.py": MODULE.format(value=1),
}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """One folder where packages are installed, and one of the learner's own."""
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    installed = tmp_path / "lib" / version / "site-packages"
    for name, text in MODULES.items():
        path = tmp_path / name.replace("installed", str(installed.relative_to(tmp_path)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return installed, tmp_path / "own"


@pytest.fixture
def worker(folders):
    worker = Worker("compile")
    yield worker
    worker.stop()


def imported(worker, folders, name):
    """What a task finds in a module; None if it did not come to its end."""
    return asked(worker, folders, tasks.value_in, name)


def asked(worker, folders, function, name):
    """What a task returns; None if it did not come to its end."""
    task = Task(
        function=f"{function.__module__}:{function.__name__}",
        arguments=pack_arguments((name,)),
        environ=child_environment("compile"),
        folder=os.getcwd(),
        path=[*sys.path, *map(str, folders)],
        timeout_s=60,
        wall_s=600,
        memory_bytes=2**32,
        asleep_s=60,
    )
    returned = worker.call(task).returned
    return unpack_returned(function, returned)[0] if returned else None


def times(folder, name):
    """How often a module was imported."""
    return len((folder / f"{name}.py.log").read_text())


def test_an_installed_module_is_imported_once_by_the_worker_and_again_when_it_changes(
    folders, worker, monkeypatch
):
    installed, own = folders
    assert [imported(worker, folders, "slow") for _ in range(4)] == [1, 1, 1, 1]
    assert times(installed, "slow") == 2  # by the first task, and then by the worker
    process = worker.process

    assert [imported(worker, folders, "own_module") for _ in range(3)] == [1, 1, 1]
    assert [imported(worker, folders, "starts_a_thread") for _ in range(3)] == [1, 1, 1]
    assert [imported(worker, folders, "crashes") for _ in range(3)] == [None, None, None]
    assert times(own, "own_module") == 3  # the learner may change it
    assert times(installed, "starts_a_thread") == times(installed, "crashes") == 3
    assert worker.process is process

    (installed / "slow.py").write_text(MODULE.format(value=2000))
    assert imported(worker, folders, "slow") == 2000
    monkeypatch.setenv("READ_BY_A_PACKAGE", "1")
    process = worker.process
    assert imported(worker, folders, "slow") == 2000
    assert worker.process is not process  # another variable, another worker


def test_a_module_of_the_course_is_imported_by_one_task_for_all(worker, folders):
    was_there = asked(worker, folders, tasks.was_imported, "course.simulating.api")
    again = asked(worker, folders, tasks.was_imported, "course.simulating.api")
    assert (was_there, again) == (False, True)


@pytest.mark.skipif(LINUX < (6, 1), reason="needs Linux 6.1, which makes huge pages when asked to")
def test_a_worker_that_forks_often_moves_its_memory_into_huge_pages(folders, worker):
    def huge_kb():
        rollup = Path(f"/proc/{worker.process.pid}/smaps_rollup").read_text()
        return int(rollup.partition("AnonHugePages:")[2].split()[0])

    for _ in range(COLLAPSE_AFTER - 1):
        assert imported(worker, folders, "slow") == 1
    process, before = worker.process, huge_kb()
    # It has moved when it answers the second.
    assert [imported(worker, folders, "slow") for _ in range(2)] == [1, 1]
    assert worker.process is process and huge_kb() > before + 10_000
