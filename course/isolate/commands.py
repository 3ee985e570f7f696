"""Run a script or a program in a fresh process, limited by the clock on the wall."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from .ended import ChildKind, Ended, How
from .pool import child_environment


def run_source(source: str, kind: ChildKind | None = None, timeout_s: float = 60) -> Ended[None]:
    """Run `source`, the text of a Python module, as a script in a fresh process.

    kind: None: the child chooses its mode itself, and arrives at this process's.
    The text is kept in a file for as long as the child runs, since Triton reads kernels from their
    files. At `timeout_s` seconds the child and what it started are killed.
    """
    with tempfile.TemporaryDirectory(prefix="course-child-") as folder:
        script = Path(folder) / "script.py"
        script.write_text(source)
        ended = _run([sys.executable, str(script)], child_environment(kind), timeout_s)
        # The folder's name is random and says nothing: what is shown names the script alone.
        here = f"{folder}/"
        stdout, stderr = (text.replace(here, "") for text in (ended.stdout, ended.stderr))
        return replace(ended, stdout=stdout, stderr=stderr)


def run_command(command: list[str], timeout_s: float = 60) -> Ended[None]:
    """Run a program, such as a disassembler; at `timeout_s` seconds it and what it started are
    killed.

    Raises OSError if it cannot be started.
    """
    return _run(command, dict(os.environ), timeout_s)


def _run(command: list[str], environ: dict[str, str], timeout_s: float) -> Ended[None]:
    start = time.monotonic()
    # A session of its own, so that at the time limit its own children end with it.
    process = subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    stopped = ""
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill_session(process)
        stdout, stderr = process.communicate()
        stopped = f"after {timeout_s:g} s"
    except BaseException:  # an interrupted cell must not leave the child behind
        _kill_session(process)
        process.wait()
        raise
    code = process.returncode
    how: How = "finished" if code == 0 else "crashed" if code < 0 else "failed"
    how = "out of time" if stopped else how
    return Ended(how, code, stdout, stderr, time.monotonic() - start, stopped=stopped)


def _kill_session(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
