"""What processes that a test starts are given."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")

PATIENCE_S = 600
"""Far longer than anything takes on a busy machine: what has not happened by then never will."""

ROOT = Path(__file__).parents[2]


def python_path() -> str:
    """PYTHONPATH by which another Python finds the course, and whatever this one found by it. No
    part is empty, which would be the current folder."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def run(*command, cwd=ROOT, **options) -> subprocess.CompletedProcess[str]:
    """A command that has ended, and what it printed. options: as subprocess.run takes them."""
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, **options
    )


def first_answer(ask: Callable[[], Answer], process: subprocess.Popen[bytes], log: Path) -> Answer:
    """What ask() returns as soon as it does: a server that starts is not there at first, nor is
    its file complete, and ask() raises an OSError or a ValueError (JSON's too). Raises an
    AssertionError with the log where the server has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except (OSError, ValueError):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


def computed_s() -> float:
    """CPU seconds of this process, of those that it has started, and of those that these have
    waited for."""
    import psutil

    computed = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            computed += sum(process.cpu_times()[:4])
    return computed


def machine_computed_s() -> float:
    """CPU seconds of whatever has run on this machine since it started."""
    import psutil

    times = psutil.cpu_times()
    return times.user + times.nice + times.system
