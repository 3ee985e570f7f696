"""The seats' processes on the GPU, as a stand-in for NVIDIA's tool tells them."""

import os
import subprocess

import pytest

from hub import gpu
from hub.settings import Settings

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="needs root: only it has processes of other users"
)


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path, seats=3)


@pytest.fixture
def process(settings):
    """Start a process of a seat, or of nobody's."""
    started = []

    def start(seat):
        user = settings.user(seat) if seat else 0
        started.append(subprocess.Popen(["sleep", "600"], user=user, cwd="/"))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Have the tool tell of these processes, each with its MiB."""

    def tell(**mib_of_pid):
        lines = "\n".join(f"{pid[1:]}, {mib}" for pid, mib in mib_of_pid.items())
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return tell


def test_processes_are_told_by_seat_with_the_largest_first(settings, process, told):
    small, large, foreign = process("seat-01"), process("seat-03"), process("")
    told(**{f"p{small.pid}": 300, f"p{large.pid}": 5000, f"p{foreign.pid}": 9000})
    uses = gpu.uses(settings, serving={"seat-01"})
    assert [(use.seat, use.mib, use.orphan) for use in uses] == [
        ("seat-03", 5000, True),
        ("seat-01", 300, False),
    ]


def test_a_process_whose_memory_the_driver_does_not_tell_is_still_told(settings, process, told):
    secret, known = process("seat-01"), process("seat-02")
    told(**{f"p{secret.pid}": "[N/A]", f"p{known.pid}": 300})
    uses = gpu.uses(settings, serving={"seat-02"})
    assert [(use.seat, use.mib) for use in uses] == [("seat-02", 300), ("seat-01", 0)]
    assert [use.pid for use in gpu.end_orphans(settings, serving={"seat-02"})] == [secret.pid]


def test_an_orphan_is_ended_and_nothing_else(settings, process, told):
    live, orphan, foreign = process("seat-01"), process("seat-02"), process("")
    told(**{f"p{each.pid}": 100 for each in (live, orphan, foreign)})
    assert [use.pid for use in gpu.end_orphans(settings, serving={"seat-01"})] == [orphan.pid]
    assert orphan.wait(60) == -9
    assert live.poll() is None and foreign.poll() is None


def test_the_button_ends_a_process_of_the_seat_that_it_names_alone(settings, process):
    ours, foreign = process("seat-01"), process("")
    assert not gpu.end(settings, "seat-02", ours.pid)
    assert not gpu.end(settings, "", foreign.pid)
    assert gpu.end(settings, "seat-01", ours.pid)
    assert ours.wait(60) == -9 and foreign.poll() is None


@pytest.mark.parametrize("words", ["", "No devices were found", "[N/A], [N/A]"])
def test_a_tool_that_knows_no_process_is_no_error(settings, told, words, tmp_path):
    told()
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{words}'\n")
    assert gpu.uses(settings, set()) == []


def test_a_host_without_the_tool_has_no_uses(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert gpu.uses(settings, set()) == []
