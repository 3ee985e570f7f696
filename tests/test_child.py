"""A child process can end in every way there is, and this process goes on."""

import os
import time

import psutil
import pytest

from course.child import run_source


def test_a_finished_child_gives_its_output():
    ended = run_source("import sys; print('out'); print('err', file=sys.stderr)")
    assert (ended.how, ended.code, ended.stdout, ended.stderr) == ("finished", 0, "out\n", "err\n")
    assert ended.signal is None


def test_an_exception_is_a_failure_with_its_text():
    ended = run_source("1 / 0")
    assert ended.how == "failed"
    assert "ZeroDivisionError" in ended.stderr


def test_an_exit_code_is_kept():
    assert run_source("import os; os._exit(7)").code == 7


@pytest.mark.parametrize(
    ("code", "signal"),
    [
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import os; os.abort()", "SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    ],
)
def test_a_crash_names_its_signal(code, signal):
    ended = run_source(code)
    assert (ended.how, ended.signal) == ("crashed", signal)


def test_an_endless_child_is_ended_with_all_that_it_started():
    code = "import subprocess, sys\np = subprocess.Popen(['sleep', '600'])\nprint(p.pid, flush=True)\nwhile True: pass"
    start = time.monotonic()
    ended = run_source(code, timeout_s=2)
    assert ended.how == "out of time"
    assert time.monotonic() - start < 4
    grandchild = int(ended.stdout)
    assert not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE


def test_the_kind_decides_whether_kernels_are_interpreted():
    code = "import course, os; print(os.environ.get('TRITON_INTERPRET'))"
    assert run_source(code, kind="interpret").stdout.strip() == "1"
    assert run_source(code, kind="compile").stdout.strip() == "None"


def test_what_is_shown_names_no_temporary_folder():
    ended = run_source("print(__file__); 1 / 0")
    assert ended.stdout == "apart.py\n"
    assert "/tmp" not in ended.stderr


def test_bytes_that_are_no_text_do_no_harm():
    assert run_source("import sys; sys.stdout.buffer.write(bytes([255, 254, 65]))").stdout.endswith("A")


def test_the_child_reads_nothing_from_this_terminal():
    assert "EOFError" in run_source("input()").stderr


def test_this_environment_is_left_alone():
    before = dict(os.environ)
    run_source("import os; os.environ['COURSE_CHILD'] = 'x'", kind="compile")
    assert dict(os.environ) == before
