"""Run Python in a process of its own: a crash, a hang or an endless loop there costs this process nothing."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

Kind = Literal["same", "compile", "interpret"]
"""What the child does with kernels: the same as this process, compile only, or interpret only."""


@dataclass(frozen=True)
class Ended:
    """How a child process ended, and what it printed."""

    how: Literal["finished", "failed", "crashed", "out of time"]
    code: int
    """The exit code; minus the signal's number where a signal ended it."""
    stdout: str
    stderr: str
    seconds: float

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the child, or None."""
        return signal.Signals(-self.code).name if self.code < 0 else None


def run_source(source: str, kind: Kind = "same", timeout_s: float = 60) -> Ended:
    """Run `source`, the text of a Python module, as a script in a child process.

    The text is kept in a file for as long as the child runs, since Triton reads kernels from their files.
    At `timeout_s` seconds the child and what it started are killed.
    """
    with tempfile.TemporaryDirectory(prefix="course-child-") as folder:
        script = Path(folder) / "apart.py"
        script.write_text(source)
        ended = _run([sys.executable, str(script)], _environment(kind), timeout_s)
        # The folder's name is random and says nothing: what is shown names the script alone.
        here = f"{folder}/"
        return replace(ended, stdout=ended.stdout.replace(here, ""), stderr=ended.stderr.replace(here, ""))


def _environment(kind: Kind) -> dict[str, str]:
    environ = dict(os.environ)
    environ.pop("COURSE_CHILD", None)
    if kind != "same":
        # Importing course in the child would otherwise choose the mode anew.
        environ["COURSE_CHILD"] = kind
    root = str(Path(__file__).resolve().parent.parent)
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environ.get("PYTHONPATH")]))
    return environ


def _run(command: list[str], environ: dict[str, str], timeout_s: float) -> Ended:
    start = time.monotonic()
    # A session of its own, so that at the time limit its own children end with it.
    process = subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill_session(process)
        stdout, stderr = process.communicate()
        return Ended("out of time", process.returncode, stdout, stderr, time.monotonic() - start)
    except BaseException:  # an interrupted cell must not leave the child behind
        _kill_session(process)
        process.wait()
        raise
    code = process.returncode
    how: Literal["finished", "failed", "crashed"] = "finished" if code == 0 else "crashed" if code < 0 else "failed"
    return Ended(how, code, stdout, stderr, time.monotonic() - start)


def _kill_session(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
