"""Sessions that share a GPU take turns to measure."""

import fcntl
import json
import os
import pwd
import subprocess
import sys
import threading
import time

import pytest

from course.errors import CourseError
from course.gpus import turn
from course.gpus.turn import gpu_turn, queue
from tests.support.processes import PATIENCE_S, python_path

HOLDS = """
import sys
from course.gpus.turn import gpu_turn
with gpu_turn("softmax"):
    print("begun", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_GPU_QUEUE", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder(folder):
    """Another session, which measures until it is told to stop."""
    environ = {**os.environ, "PYTHONPATH": python_path(), "COURSE_SEAT": "seat-03"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS], env=environ, stdin=pipe, stdout=pipe, text=True
    )
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.communicate()


def wait_behind(holder, end):
    """Ask for a turn while another session has its own, and end that once we are told to wait."""
    told, waiting = [], threading.Event()

    def say(text):
        told.append(text)
        waiting.set()

    def measure():
        with gpu_turn("matmul", say):
            told.append("measuring")

    thread = threading.Thread(target=measure)
    thread.start()
    assert waiting.wait(PATIENCE_S)
    end(holder)
    thread.join(PATIENCE_S)
    return told


def test_alone_nobody_waits_and_nothing_is_said(folder):
    told = []
    with gpu_turn("softmax", told.append):
        (ticket,) = queue(folder)
        assert ticket.what == "softmax"
    assert told == [] and list(folder.iterdir()) == []


def test_without_a_shared_folder_there_is_no_queue(monkeypatch):
    monkeypatch.delenv("COURSE_GPU_QUEUE", raising=False)
    with gpu_turn("softmax"), gpu_turn("softmax"):
        pass


def test_the_second_is_told_who_measures_and_what_and_then_has_its_turn(folder, holder):
    told = wait_behind(holder, lambda process: process.communicate("go on\n"))
    assert told[0].startswith("Waiting for the GPU: seat-03 has measured softmax for ")
    assert told[-2:] == ["It is your turn.", "measuring"]


def test_a_session_that_is_killed_lets_the_next_one_on(folder, holder):
    assert wait_behind(holder, lambda process: process.kill())[-1] == "measuring"


def test_the_queue_shows_who_measures_first_and_skips_who_is_gone(folder, holder):
    with pytest.raises(KeyboardInterrupt), gpu_turn("matmul", _interrupt):
        pass
    assert [(ticket.who, ticket.what) for ticket in queue(folder)] == [("seat-03", "softmax")]
    holder.kill()
    holder.wait()
    assert queue(folder) == []


def _interrupt(text):
    raise KeyboardInterrupt


def test_what_is_no_ticket_keeps_nobody_waiting(folder):
    (folder / "0.json").write_text("{}")
    (folder / "1.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "2.json")
    told = []
    with gpu_turn("softmax", told.append):
        pass
    assert told == []


def test_a_folder_that_cannot_be_used_is_one_sentence(folder, monkeypatch):
    monkeypatch.setenv("COURSE_GPU_QUEUE", str(folder / "missing"))
    with pytest.raises(CourseError, match="ask who leads the workshop"), gpu_turn("softmax"):
        pass


@pytest.mark.parametrize("kind", ["folder", "pipe", "deep", "not text"])
def test_what_is_no_ticket_stops_nobody_though_it_is_locked(folder, kind):
    path = folder / "0.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"[" * 4000 if kind == "deep" else b"\xff\xfe")
    held = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        told = []
        with gpu_turn("softmax", told.append):
            assert told == []
    finally:
        os.close(held)


def test_a_ticket_shows_neither_control_characters_nor_a_time_that_cannot_be(folder):
    path = folder / "0.json"
    path.write_text(json.dumps({"who": "\x1b[2Jme\n", "what": "\x07all"}))
    os.utime(path, (0, 0))
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (ticket,) = queue(folder)
    assert (ticket.who, ticket.what) == ("[2Jme", "all")
    assert time.time() - ticket.since <= turn.LONGEST_S + 60


def test_whose_a_ticket_is_the_system_says_and_not_the_ticket(folder, monkeypatch):
    path = folder / "0.json"
    path.write_text(json.dumps({"who": "the leader", "what": "softmax"}))
    monkeypatch.setattr(turn.os, "getuid", lambda: path.stat().st_uid + 1)
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (ticket,) = queue(folder)
    assert ticket.who == pwd.getpwuid(path.stat().st_uid).pw_name


def test_nobody_can_open_a_ticket_before_it_is_locked(folder, monkeypatch):
    """Whoever locked it first would keep it out of the queue for as long as it likes."""
    modes, chmod = [], os.fchmod

    def watched(descriptor, mode):
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        (hidden,) = folder.glob(".*.json")
        with open(hidden) as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        chmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", watched)
    with gpu_turn("softmax"):
        assert modes == [0o600]
