"""Limits of a seat by control groups, in both versions, and by this host's where it has them."""

import os
import subprocess
import sys

import pytest

from hub import cgroups
from hub.cgroups import Groups

PARENT = "room"


@pytest.fixture
def unified(tmp_path):
    """A tree of version 2, whose files are there once their folder is made."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").touch()
    for name in ("", "trial", "seat-01"):
        folder = tmp_path / PARENT / name
        folder.mkdir(exist_ok=True)
        for file in (
            "memory.max",
            "cpu.max",
            "pids.max",
            "cgroup.procs",
            "cgroup.subtree_control",
            "cpu.weight",
        ):
            (folder / file).touch()
    return tmp_path


def test_version_2_gets_memory_without_swap_cores_and_processes(unified):
    groups = Groups(PARENT, unified)
    assert groups.why_not == ""
    (unified / PARENT / "seat-01" / "memory.swap.max").touch()
    groups.create("seat-01", 3 * 2**30, 1.5)
    folder = unified / PARENT / "seat-01"
    assert (folder / "memory.max").read_text() == str(3 * 2**30)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert int((folder / "pids.max").read_text()) > 512
    assert (folder.parent / "cpu.weight").read_text() == "200"  # of two groups
    for control in (unified, unified / PARENT):
        assert (control / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"


def test_what_the_kernel_tells_of_a_group_is_read(unified):
    folder = unified / PARENT / "seat-01"
    (folder / "memory.peak").write_text("12345\n")
    (folder / "memory.events").write_text("oom 2\noom_kill 1\n")
    (folder / "cgroup.procs").write_text("7\n8\n")
    groups = Groups(PARENT, unified)
    assert groups.peak_bytes("seat-01") == 12345
    assert groups.killed("seat-01") == 1
    assert groups.pids("seat-01") == [7, 8]
    assert groups.pids("nobody") == []


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A tree of version 2 whose folders can be removed, as the kernel's can."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    monkeypatch.setattr(cgroups, "_write", lambda path, value: None)
    return tmp_path


def test_reading_what_a_group_tells_makes_no_group(empty):
    groups = Groups(PARENT, empty)
    assert (groups.killed("seat-01"), groups.peak_bytes("seat-01")) == (0, 0)
    assert groups.pids("seat-01") == [] and not groups.is_there("seat-01")
    assert not (empty / PARENT).exists()


def test_whether_groups_can_be_made_is_tried_once_and_the_rooms_own_stays(empty, monkeypatch):
    groups, tried = Groups(PARENT, empty), []
    monkeypatch.setattr(groups, "create", lambda name, *limits: tried.append(name))
    (empty / PARENT / "trial").mkdir(parents=True)
    assert groups.why_not == groups.why_not == ""
    assert tried == ["trial"]
    assert list((empty / PARENT).iterdir()) == []


def test_a_trial_that_fails_leaves_no_group(empty, monkeypatch):
    def refuses(path, value):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cgroups, "_write", refuses)
    assert Groups(PARENT, empty).why_not.endswith("(Permission denied)")
    assert not (empty / PARENT).exists()


def test_the_rooms_group_goes_with_the_last_seats(empty):
    groups = Groups(PARENT, empty)
    groups.create("seat-01", 2**30, 1.0)
    groups.create("seat-02", 2**30, 1.0)
    groups.remove("seat-01")
    assert (empty / PARENT / "seat-02").is_dir()
    groups.remove("seat-02")
    assert not (empty / PARENT).exists()


def test_a_host_without_control_groups_says_why(tmp_path):
    assert "control groups cannot be made here" in Groups(PARENT, tmp_path / "missing").why_not


EATS = "x = []\nwhile True: x.append(bytearray(b'x') * 2**24)"


def test_this_host_ends_what_takes_more_than_its_seat_has_and_nothing_else():
    groups, name = Groups(f"test-{os.getpid()}"), "seat-01"
    if groups.why_not:
        pytest.skip(f"needs control groups: {groups.why_not}")
    groups.create(name, 2**28, 1.0)
    try:
        eats = subprocess.Popen([sys.executable, "-c", EATS], preexec_fn=lambda: groups.join(name))
        assert eats.wait() == -9
        assert groups.killed(name) == 1
        assert 2**27 < groups.peak_bytes(name) <= 2**28
        sleeps = subprocess.Popen(["sleep", "600"], preexec_fn=lambda: groups.join(name))
        assert groups.pids(name) == [sleeps.pid]
    finally:
        groups.remove(name)
    assert sleeps.wait() == -9
    assert not groups.is_there(name)
