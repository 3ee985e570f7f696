"""A child process can end in every way there is, and this process goes on."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from course.child import Worker, _environment, call, run_source
from course.errors import CourseError
from tests import child_tasks as tasks
from tests.processes import python_path


def ask(function, *args, **limits):
    return call(function, *args, kind="interpret", **limits)


def test_a_value_comes_back_and_what_was_printed():
    assert ask(tasks.give_back, {"a": [1, 2.5, None, "x"]}).value == {"a": [1, 2.5, None, "x"]}
    ended = ask(tasks.say, "out")
    assert (ended.how, ended.code, ended.stdout, ended.stderr, ended.signal) == ("finished", 0, "out\n", "out\n", None)


@pytest.mark.parametrize(
    ("function", "args", "how", "code"),
    [
        (tasks.segfault, [], "crashed", -signal.SIGSEGV),
        (tasks.abort, [], "crashed", -signal.SIGABRT),
        (tasks.killed_from_outside, [], "crashed", -signal.SIGKILL),
        (tasks.leave, [3], "failed", 3),
        (tasks.leave, ["a sentence"], "failed", 1),
        (tasks.leave_at_once, [7], "failed", 7),
        (tasks.fail, [], "failed", 1),
        (tasks.give_what_json_cannot_say, [], "failed", 1),
    ],
)
def test_every_end_is_a_value_and_the_worker_stays(function, args, how, code):
    before = ask(tasks.pid_of_worker).value
    ended = ask(function, *args)
    assert (ended.how, ended.code, ended.value) == (how, code, None)
    assert ask(tasks.pid_of_worker).value == before


def test_an_exception_comes_with_its_line():
    assert ask(tasks.fail).exception == "RuntimeError: on purpose"


def test_a_hang_is_ended_within_the_limit_with_all_that_it_started(tmp_path):
    start = time.monotonic()
    ended = ask(tasks.hang_with_a_child, str(tmp_path / "pids"), timeout_s=1)
    assert ended.how == "out of time"
    assert time.monotonic() - start < 3
    child, task, worker = map(int, (tmp_path / "pids").read_text().split())
    assert gone(child)
    assert gone(task)
    assert not gone(worker)


def test_memory_is_limited_and_not_address_space():
    ended = ask(tasks.take_memory, 2**31, memory_bytes=2**30)
    assert ended.how == "out of memory"
    assert ask(tasks.take_memory, 2**28, memory_bytes=2**30).value == 2


def test_output_without_end_is_cut():
    ended = ask(tasks.print_without_end, timeout_s=1)
    assert ended.how == "out of time"
    assert 100_000 < len(ended.stdout) <= 200_000


def test_a_worker_that_died_is_replaced():
    worker = ask(tasks.pid_of_worker).value
    os.kill(worker, signal.SIGKILL)
    assert ask(tasks.give_back, 5).value == 5
    assert ask(tasks.pid_of_worker).value != worker


def test_a_task_that_kills_the_worker_is_an_error_and_not_a_hang():
    with pytest.raises(CourseError, match="ended without an answer"):
        ask(tasks.kill_the_worker)
    assert ask(tasks.give_back, 5).value == 5


def test_the_kinds_are_what_they_say(monkeypatch):
    assert call(tasks.kind, kind="interpret").value == ["CPU", True, "1"]
    assert call(tasks.kind, kind="compile").value == ["CPU", False, "0"]


def test_the_child_sees_this_moments_environment_and_leaves_it_alone(monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", "/somewhere/else")
    before = dict(os.environ)
    assert ask(tasks.environment, "TRITON_CACHE_DIR").value == "/somewhere/else"
    assert dict(os.environ) == before


def request(function, *args):
    return {
        "function": f"tests.child_tasks:{function.__name__}", "args": args, "environ": _environment("interpret"),
        "folder": os.getcwd(), "path": sys.path, "timeout_s": 60, "memory_bytes": 2**32,
    }  # fmt: skip


def test_an_idle_worker_ends_and_the_next_call_starts_one():
    worker = Worker("interpret", idle_s=0.3)
    first = worker.call(request(tasks.pid_of_worker)).value
    deadline = time.monotonic() + 10
    while worker.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert worker.process.poll() == 0
    assert worker.call(request(tasks.pid_of_worker)).value != first
    worker.stop()


def test_an_interrupted_call_ends_its_task(tmp_path):
    """As when a reader presses Kernel > Interrupt."""
    worker = Worker("interpret")
    worker.call(request(tasks.give_back, 1))
    pids = tmp_path / "pids"

    def interrupt():
        while not pids.exists() or len(pids.read_text().split()) < 3:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        worker.call(request(tasks.hang_with_a_child, str(pids)))
    assert all(gone(int(pid)) for pid in pids.read_text().split())
    assert worker.call(request(tasks.give_back, 2)).value == 2
    worker.stop()


def test_nothing_is_left_when_the_caller_is_killed(tmp_path):
    pids = tmp_path / "pids"
    script = IMPORTS + f"call(tasks.hang_with_a_child, {str(pids)!r}, kind='interpret')\n"
    caller = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 60
    while (not pids.exists() or len(pids.read_text().split()) < 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    caller.kill()
    caller.wait()
    assert all(gone(int(pid)) for pid in pids.read_text().split())


def gone(pid, within_s=3):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


IMPORTS = "from course.child import call\nfrom tests import child_tasks as tasks\n"


def test_a_script_without_a_main_guard_may_call(tmp_path):
    (tmp_path / "script.py").write_text(IMPORTS + "print(call(tasks.give_back, 4, kind='compile').value)\n")
    environ = {**os.environ, "PYTHONPATH": python_path()}
    ended = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, env=environ, timeout=60)
    assert (ended.stdout, ended.stderr) == ("4\n", "")


def test_a_script_runs_in_a_fresh_process():
    ended = run_source("import sys; print('out'); print('err', file=sys.stderr)")
    assert (ended.how, ended.code, ended.stdout, ended.stderr) == ("finished", 0, "out\n", "err\n")


def test_what_a_script_shows_names_no_temporary_folder():
    ended = run_source("print(__file__); 1 / 0")
    assert ended.stdout == "script.py\n"
    assert "/tmp" not in ended.stderr


def test_a_scripts_bytes_that_are_no_text_do_no_harm():
    assert run_source("import sys; sys.stdout.buffer.write(bytes([255, 254, 65]))").stdout.endswith("A")


def test_a_script_that_hangs_is_ended_with_all_that_it_started():
    code = "import subprocess, sys\np = subprocess.Popen(['sleep', '600'])\nprint(p.pid, flush=True)\nwhile True: pass"
    ended = run_source(code, timeout_s=2)
    assert ended.how == "out of time"
    assert gone(int(ended.stdout))


def test_a_script_reads_nothing_from_this_terminal():
    assert "EOFError" in run_source("input()").stderr
