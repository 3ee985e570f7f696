"""A child process can end in every way there is, and this process goes on."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import psutil
import pytest

from course.errors import CourseError
from course.isolate.commands import run_source
from course.isolate.limits import MOST_PROCESSES, TaskLimits
from course.isolate.messages import Task, pack_arguments, unpack_returned
from course.isolate.pool import Worker, call, cancel, child_environment
from tests.support import child_tasks as tasks
from tests.support.processes import PATIENCE_S, python_path


def ask(function, *args, **limits):
    return call(function, *args, kind="interpret", **limits)


def test_a_value_comes_back_and_what_was_printed():
    assert ask(tasks.give_back, {"a": [1, 2.5, None, "x"]}).value == {"a": [1, 2.5, None, "x"]}
    ended = ask(tasks.say, "out")
    assert (ended.how, ended.code, ended.signal) == ("finished", 0, None)
    assert ended.stdout == ended.stderr == "out\n"


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
        (tasks.give_what_cannot_be_packed, [], "failed", 1),
    ],
)
def test_every_end_is_a_value_and_the_worker_stays(function, args, how, code):
    before = ask(tasks.pid_of_worker).value
    ended = ask(function, *args)
    assert (ended.how, ended.code, ended.value) == (how, code, None)
    assert ask(tasks.pid_of_worker).value == before


def test_an_exception_comes_with_its_line():
    assert ask(tasks.fail).exception == "RuntimeError: on purpose"


def test_a_hang_is_ended_at_its_limit_with_all_that_it_started(tmp_path):
    ended = ask(tasks.hang_with_a_child, str(tmp_path / "pids"), timeout_s=1)
    assert (ended.how, ended.stopped, ended.starved) == (
        "out of time",
        "after 1 s of computing",
        False,
    )
    child, task, worker = map(int, (tmp_path / "pids").read_text().split())
    assert gone(child)
    assert gone(task)
    assert psutil.pid_exists(worker)


def test_what_has_left_its_session_ends_too(tmp_path):
    assert (
        ask(tasks.hang_in_another_session, str(tmp_path / "pid"), timeout_s=1).how == "out of time"
    )
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_it_starts_computes_on_its_account():
    assert ask(tasks.compute_in_a_child, timeout_s=1).stopped == "after 1 s of computing"


def test_time_in_which_it_does_not_compute_does_not_count():
    """As on a machine that is busy with something else."""
    assert ask(tasks.sleep, 2, timeout_s=1).value == "slept"


def test_what_waits_is_stopped_in_the_end_and_nothing_is_known_of_it():
    ended = ask(tasks.sleep, 600, timeout_s=1, wall_s=1.5)
    assert (ended.how, ended.starved) == ("out of time", True)
    assert re.fullmatch(r"after 1\.5 s, in which it computed for 0\.\d s", ended.stopped)


def test_what_only_waits_is_stopped_before_the_clock_stops_it():
    ended = ask(tasks.sleep_again_and_again, asleep_s=1)
    assert (ended.how, ended.starved) == ("out of time", True)
    assert ended.stopped == "after 1 s in which it only waited"


@pytest.mark.parametrize(("states", "waits"), [("SS", True), ("RT", True), ("RR", False)])
def test_a_process_that_could_run_and_has_no_core_does_not_wait(states, waits):
    class Starved:
        def pids(self):
            return []

        def memory_bytes(self, *_):
            return 0

        def computed_s(self, _):
            return 0.0

        def could_run(self, _):
            return looks.pop(0) == "R"

    looks = list(states)
    limits = TaskLimits(task(tasks.hang, asleep_s=5), Starved(), time.monotonic())
    for _ in states:
        limits._awake_at -= 10
        limits.next_look = 0
        stop = limits.over()
    assert (stop is not None) == waits


def test_memory_is_limited_and_not_address_space():
    ended = ask(tasks.hold_memory, 2**31, memory_bytes=2**30)
    assert (ended.how, ended.stopped) == ("out of memory", "at 1 GiB of memory")
    assert ask(tasks.take_memory, 2**28, memory_bytes=2**30).value == 2


def test_what_forks_take_counts():
    assert ask(tasks.take_memory_in_a_fork, 2**30, memory_bytes=2**30).how == "out of memory"


def test_what_forks_share_counts_once():
    assert ask(tasks.take_memory_and_fork, 2**28, 4, memory_bytes=2**30).value == 2**28


def test_a_value_that_is_too_large_does_not_come_back():
    assert ask(tasks.give_many, 10**6).value == "x" * 10**6
    ended = ask(tasks.give_many, 2 * 10**8)
    assert ended.how == "failed"
    assert ended.exception == "ValueError: it returns 200 MB, and 100 MB can come back"


def test_a_task_reaches_no_socket_and_answers_keep_their_order():
    assert ask(tasks.forge_an_answer).value == 0
    assert ask(tasks.give_back, 7).value == 7


def test_what_else_is_written_to_the_pipe_of_the_value_is_not_the_value():
    assert ask(tasks.forge_a_value).value >= 1


def test_a_value_that_cannot_be_read_is_a_failure():
    ended = ask(tasks.break_what_packs)
    assert (ended.how, ended.value) == ("failed", None)
    assert ask(tasks.give_back, 7).value == 7


def test_a_fork_that_returns_is_not_heard():
    assert ask(tasks.return_from_a_fork_too).value == "the task's"


def test_a_worker_that_its_task_stops_goes_on():
    assert ask(tasks.stop_the_worker).value == "went on"


def test_one_thread_computes():
    assert ask(tasks.threads).value == 1


def test_very_many_processes_are_ended():
    class Many:
        def pids(self):
            return list(range(MOST_PROCESSES + 1))

    limits = TaskLimits(task(tasks.hang, memory_bytes=1), Many(), time.monotonic())
    assert limits.over() == ("out of memory", "at 512 processes", False)


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


def task(function, *args, **limits):
    return Task(
        function=f"tests.support.child_tasks:{function.__name__}",
        arguments=pack_arguments(args),
        environ=child_environment("interpret"),
        folder=os.getcwd(),
        path=sys.path,
        **{"timeout_s": 60, "wall_s": 600, "asleep_s": 600, "memory_bytes": 2**32} | limits,
    )


def value_of(worker, function, *args):
    return unpack_returned(function, worker.call(task(function, *args)).returned)[0]


def test_an_idle_worker_ends_and_the_next_call_starts_one():
    worker = Worker("interpret", idle_s=0.3)
    first = value_of(worker, tasks.pid_of_worker)
    assert worker.process.wait(PATIENCE_S) == 0
    assert value_of(worker, tasks.pid_of_worker) != first
    worker.stop()


@pytest.fixture
def interrupts():
    """Python raises KeyboardInterrupt at SIGINT, which a process in the background may have been
    started to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_call_ends_its_task(tmp_path, interrupts):
    """As when a reader presses Kernel > Interrupt."""
    worker = Worker("interpret")
    worker.call(task(tasks.give_back, 1))
    pids = tmp_path / "pids"

    def interrupt():
        written(pids)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        worker.call(task(tasks.hang_with_a_child, str(pids)))
    assert all(gone(int(pid)) for pid in pids.read_text().split())
    assert value_of(worker, tasks.give_back, 2) == 2
    worker.stop()


def test_a_call_of_another_thread_can_be_ended(tmp_path):
    said = []

    def hang():
        try:
            ask(tasks.hang_with_a_child, str(tmp_path / "pids"))
        except CourseError as error:
            said.append(str(error))

    thread = threading.Thread(target=hang)
    thread.start()
    pids = written(tmp_path / "pids")
    cancel("interpret")
    thread.join(PATIENCE_S)
    assert said == ["The helper process that is to interpret kernels was interrupted."]
    assert all(map(gone, pids))
    assert ask(tasks.give_back, 5).value == 5


def test_nothing_is_left_when_the_caller_is_killed(tmp_path):
    script = (
        IMPORTS + f"call(tasks.hang_with_a_child, {str(tmp_path / 'pids')!r}, kind='interpret')\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", script])
    pids = written(tmp_path / "pids")
    caller.kill()
    caller.wait()
    assert all(map(gone, pids))


def written(path):
    """The three process ids that `hang_with_a_child` writes, when it has."""
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists() or len(path.read_text().split()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [int(pid) for pid in path.read_text().split()]


def gone(pid):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


IMPORTS = "from course.isolate.pool import call\nfrom tests.support import child_tasks as tasks\n"


def test_a_script_without_a_main_guard_may_call(tmp_path):
    (tmp_path / "script.py").write_text(
        IMPORTS + "print(call(tasks.give_back, 4, kind='compile').value)\n"
    )
    environ = {**os.environ, "PYTHONPATH": python_path()}
    ended = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, env=environ
    )
    assert (ended.stdout, ended.stderr) == ("4\n", "")


def test_a_script_runs_in_a_fresh_process():
    ended = run_source("import sys; print('out'); print('err', file=sys.stderr)")
    assert (ended.how, ended.code, ended.stdout, ended.stderr) == ("finished", 0, "out\n", "err\n")


def test_what_a_script_shows_names_no_temporary_folder():
    ended = run_source("print(__file__); 1 / 0")
    assert ended.stdout == "script.py\n"
    assert "/tmp" not in ended.stderr


def test_a_scripts_bytes_that_are_no_text_do_no_harm():
    assert run_source("import sys; sys.stdout.buffer.write(bytes([255, 254, 65]))").stdout.endswith(
        "A"
    )


def test_a_script_that_hangs_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    pids, communicate = tmp_path / "pids", subprocess.Popen.communicate

    def when_it_has_begun(process, timeout=None):
        if timeout is None:
            return communicate(process)
        written(pids)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", when_it_has_begun)
    ended = run_source(IMPORTS + f"tasks.hang_with_a_child({str(pids)!r})", timeout_s=2)
    assert (ended.how, ended.stopped) == ("out of time", "after 2 s")
    child, script, _ = written(pids)
    assert gone(child)
    assert gone(script)


def test_a_script_reads_nothing_from_this_terminal():
    assert "EOFError" in run_source("input()").stderr


def test_a_worker_that_is_still_starting_ends_at_once():
    worker = Worker("interpret")
    worker._start()
    process = worker.process
    worker.stop()
    assert process.returncode == -signal.SIGTERM  # and not 0, when it has imported PyTorch


def test_a_worker_that_has_been_started_is_the_one_that_answers():
    worker = Worker("interpret")
    worker.start()
    process = worker.process
    worker.start()
    assert worker.process is process
    assert value_of(worker, tasks.pid_of_worker) == process.pid
    worker.stop()


def test_a_worker_ends_without_taking_apart_what_it_imported():
    worker = Worker("interpret")
    value_of(worker, tasks.pid_of_worker)
    before = sum(psutil.Process(worker.process.pid).cpu_times()[:2])
    worker._socket.shutdown(socket.SHUT_RDWR)
    _, status, used = os.wait4(worker.process.pid, 0)
    worker.process.returncode = os.waitstatus_to_exitcode(status)
    worker.stop()
    assert status == 0
    assert used.ru_utime + used.ru_stime - before < 0.1
