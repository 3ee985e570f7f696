"""Nothing is left in the temporary folder by what was killed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from course.isolate.pool import call
from tests.support.processes import ROOT, python_path


def leaves_files(how: str) -> None:
    """Write into the temporary folder, as a compilation does, and then be killed or never end."""
    folder = Path(tempfile.mkdtemp(prefix="course-lower-"))
    (folder / "kernel.ptx").write_text("half a ker")
    (folder / "link").symlink_to(ROOT)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    while how != "done":
        pass


@pytest.mark.parametrize(
    ("how", "ends"), [("done", "finished"), ("killed", "crashed"), ("endless", "out of time")]
)
def test_a_task_leaves_nothing_however_it_ends(tmp_path, monkeypatch, how, ends):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert call(leaves_files, how, kind="compile", timeout_s=1).how == ends
    assert os.listdir(tmp_path) == []
    assert (ROOT / "course").is_dir()


def test_a_task_leaves_nothing_when_its_session_is_killed(tmp_path):
    source = (
        "from course.isolate.pool import call; from tests.setup.test_leftovers import"
        " leaves_files\n"
    )
    source += "call(leaves_files, 'endless', kind='compile', timeout_s=600)"
    environ = {**os.environ, "PYTHONPATH": python_path(), "TMPDIR": str(tmp_path)}
    session = subprocess.Popen([sys.executable, "-c", source], env=environ)
    try:
        until(lambda: list(tmp_path.rglob("kernel.ptx")))
    finally:
        session.kill()
        session.wait()
    until(lambda: not os.listdir(tmp_path))


def test_where_no_folder_can_be_made_the_task_runs_all_the_same(monkeypatch):
    monkeypatch.setenv("TMPDIR", "/proc/nowhere")
    assert call(os.getcwd, kind="compile").how == "finished"


def until(happens) -> None:
    """Wait; the time is for a machine that is very busy."""
    deadline = time.monotonic() + 120
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.05)
