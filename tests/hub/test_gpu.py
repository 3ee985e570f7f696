"""The seats' processes on the GPU, as a stand-in for NVIDIA's tool tells them."""

import os
import subprocess

import pytest

from hub import gpu
from hub.engine import Running


@pytest.fixture
def process():
    """A process, for which the containers below stand in: this control group has no seat."""
    with subprocess.Popen(["sleep", "600"]) as one:
        yield one
        one.kill()


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """Say which container's group a process is in."""

    def put(**container_of_pid):
        for pid, container in container_of_pid.items():
            (tmp_path / pid[1:]).mkdir()
            (tmp_path / pid[1:] / "cgroup").write_text(f"0::/machine/libpod-{container}.scope\n")
        monkeypatch.setattr(gpu, "PROC", tmp_path)

    return put


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Have the tool say this."""

    def tell(words):
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{words}\nEND\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return tell


CONTAINERS = {"seat-01": Running("a" * 64, 0, 0), "seat-03": Running("b" * 64, 0, 0)}


def test_processes_are_told_by_seat_with_the_largest_first(proc, told):
    proc(p11="a" * 64, p33="b" * 64, p99="c" * 64)
    told("11, 300\n33, 5000\n99, 9000\n77, 1")
    assert [(use.seat, use.pid, use.mib) for use in gpu.uses(CONTAINERS)] == [
        ("seat-03", 33, 5000),
        ("seat-01", 11, 300),
    ]


def test_a_process_whose_memory_the_driver_does_not_tell_is_still_told(proc, told):
    proc(p11="a" * 64)
    told("11, [N/A]")
    assert [(use.seat, use.mib) for use in gpu.uses(CONTAINERS)] == [("seat-01", 0)]


def test_the_button_ends_a_process_of_the_seat_that_it_names_alone(proc, process):
    proc(**{f"p{process.pid}": "a" * 64})
    assert not gpu.end(CONTAINERS, "seat-03", process.pid)
    assert not gpu.end(CONTAINERS, "", process.pid)
    assert process.poll() is None
    assert gpu.end(CONTAINERS, "seat-01", process.pid)
    assert process.wait(60) == -9


@pytest.mark.parametrize("words", ["", "No devices were found", "[N/A], [N/A]"])
def test_a_tool_that_knows_no_process_is_no_error(told, words):
    told(words)
    assert gpu.uses(CONTAINERS) == []


def test_a_host_without_the_tool_has_no_uses(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert gpu.uses(CONTAINERS) == []
