"""The processes that a process has started: their CPU time, their memory, and how all of them
end."""

import contextlib
import ctypes
import os
import resource
import signal
import time
from collections.abc import Iterator

LIBC = ctypes.CDLL(None)
PR_SET_CHILD_SUBREAPER = 36
KILL_S = 5
"""Seconds after which what cannot be killed is left alone, as another user's process is."""


class Descendants:
    """The processes that this one, and they, have started since this object was made.

    One whose parent has ended becomes a child of this process, and so stays among them, whatever
    its session.
    """

    def __init__(self) -> None:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._before = set(children(os.getpid()))
        self._computed_before_s = _reaped_s()

    def pids(self) -> list[int]:
        """Their process ids, parents before their children."""
        pids = [pid for pid in children(os.getpid()) if pid not in self._before]
        for pid in pids:  # grows on the way
            pids += children(pid)
        return pids

    def computed_s(self, pids: list[int]) -> float:
        """Seconds of CPU time that they have taken, and those among them that have ended."""
        return _reaped_s() - self._computed_before_s + sum(map(_cpu_s, pids))

    def could_run(self, pids: list[int]) -> bool:
        """Whether a thread of theirs runs, waits for a core, or waits for a disk."""
        return any(state in "RD" for pid in pids for state in _states(pid))

    def memory_bytes(self, pids: list[int], limit: int) -> int:
        """The memory that they take. A page that several share counts once if that decides on
        `limit`."""
        # Shared pages count for each process here; the exact figure takes milliseconds a process.
        resident = sum(map(_resident_bytes, pids))
        return resident if resident <= limit else sum(map(proportional_bytes, pids))

    def kill(self) -> None:
        """Kill all of them, and wait until they have ended."""
        deadline = time.monotonic() + KILL_S
        while (pids := self.pids()) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for pid in pids:
                # A child's child is not ours until its parent has ended.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.002)


def children(pid: int) -> list[int]:
    """The processes that a process has started and that live; none where it has ended."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as started:
                pids += map(int, started.read().split())
    return pids


def _reaped_s() -> float:
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    return reaped.ru_utime + reaped.ru_stime


def _cpu_s(pid: int) -> float:
    """Seconds of CPU time of a process, and of those of its children that it has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()  # the name before it may hold spaces
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0  # it has just ended


def _states(pid: int) -> Iterator[str]:
    """The state of each thread of a process, in the kernel's letters."""
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat") as stat:
                yield stat.read().rpartition(")")[2].split()[0]


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def proportional_bytes(pid: int) -> int:
    """The memory of a process, with its part of the pages that it shares; 0 where it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:"))
    except PermissionError:
        return _resident_bytes(pid)
    except (OSError, StopIteration):
        return 0
