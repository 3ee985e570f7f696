"""Runs at the start of every session of a seat: says why the last one ended, if memory was full."""

import contextlib
from pathlib import Path

from IPython.core.getipython import get_ipython

SEEN = Path("/tmp/ended-for-memory")
EVENTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def killed() -> int:
    """How often the kernel has ended something in this seat for want of memory."""
    for file in EVENTS:
        with contextlib.suppress(OSError):
            told = dict(line.split() for line in file.read_text().splitlines())
            return int(told.get("oom_kill", 0))
    return 0


def say_once(*_: object) -> None:
    assert shell is not None
    shell.events.unregister("pre_run_cell", say_once)
    print(
        "A session of yours was ended: your seat's memory was full. Close the notebooks that you do"
        " not need (Running Terminals and Kernels, on the left, then X), and run this one again"
        " from the top. What you had typed is still there."
    )


shell = get_ipython()
now = killed()
before = int(SEEN.read_text()) if SEEN.exists() else 0
if shell is not None and now > before:
    SEEN.write_text(str(now))
    shell.events.register("pre_run_cell", say_once)
