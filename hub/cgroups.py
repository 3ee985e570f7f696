"""Memory and CPU limits for a seat by Linux's control groups, in both their versions.

A seat has a group of its own below the room's. Everything that its server starts is in it, so
the limits hold for all of that together, and `course.isolate` reads them to limit a check.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
MOST_PROCESSES = 1024
"""Per seat; a check may start 512."""
KILL_S = 10


class Groups:
    """The control groups of a room's seats.

    room: the name of the group around them; each room of a host has its own.

    Groups are made and removed by `create`, `remove` and the first look at `why_not` alone: what
    only reads, as the board does every three seconds, changes nothing.
    """

    def __init__(self, room: str, root: Path = CGROUPS) -> None:
        self.root, self.room = root, room
        self.unified = (root / "cgroup.controllers").is_file()

    @cached_property
    def why_not(self) -> str:
        """Why this host cannot hold seats to limits; empty if it can. Makes a group to find out."""
        try:
            self.create("trial", 2**30, 1.0)
        except OSError as error:
            self.remove("trial")
            return f"control groups cannot be made here ({error.strerror})"
        # The room's own group stays: the hub may be making a seat's in it.
        self._end("trial")
        return ""

    def create(self, name: str, memory_bytes: int, cores: float) -> None:
        """Make a seat's group, or give the one that is there these limits. Raises OSError."""
        quota = int(cores * PERIOD_US)
        if self.unified:
            self._delegate()
            group = self._folder("", name)
            group.mkdir(parents=True, exist_ok=True)
            _write(group / "memory.max", memory_bytes)
            with contextlib.suppress(OSError):  # where the host has no swap
                _write(group / "memory.swap.max", 0)
            _write(group / "cpu.max", f"{quota} {PERIOD_US}")
            _write(group / "pids.max", MOST_PROCESSES)
            _write(group.parent / "cpu.weight", min(10_000, 100 * self._count("")))
            return
        for controller in ("memory", "cpu", "pids"):
            self._folder(controller, name).mkdir(parents=True, exist_ok=True)
        _write(self._folder("memory", name) / "memory.limit_in_bytes", memory_bytes)
        _write(self._folder("cpu", name) / "cpu.cfs_period_us", PERIOD_US)
        _write(self._folder("cpu", name) / "cpu.cfs_quota_us", quota)
        _write(self._folder("pids", name) / "pids.max", MOST_PROCESSES)
        _write(self._folder("cpu", "") / "cpu.shares", 1024 * self._count("cpu"))

    def join(self, name: str) -> None:
        """Move this process, and so all that it will start, into a seat's group."""
        for folder in self._folders(name):
            _write(folder / "cgroup.procs", os.getpid())

    def is_there(self, name: str) -> bool:
        """Whether a seat has a group."""
        return any(self._folders(name))

    def pids(self, name: str) -> list[int]:
        """The processes in a seat's group."""
        with contextlib.suppress(OSError, StopIteration):
            return [int(pid) for pid in _read(next(self._folders(name)) / "cgroup.procs").split()]
        return []

    def peak_bytes(self, name: str) -> int:
        """The most memory that a seat has taken; 0 where the host does not tell."""
        names = ("memory.peak", "memory.max_usage_in_bytes")
        for folder in self._folders(name):
            for text in filter(str.isdigit, (_read(folder / each) for each in names)):
                return int(text)
        return 0

    def killed(self, name: str) -> int:
        """How many processes of a seat the kernel has ended for want of memory."""
        for folder in self._folders(name):
            for file in ("memory.events", "memory.oom_control"):
                for line in _read(folder / file).splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def remove(self, name: str) -> None:
        """End what is left of a seat, and remove its group; with the last seat's, the room's."""
        self._end(name)
        for controller in self._controllers:
            with contextlib.suppress(OSError):
                self._folder(controller, "").rmdir()  # fails as long as another seat is in it

    def _end(self, name: str) -> None:
        """End a seat's processes and remove its group."""
        end = time.monotonic() + KILL_S
        while (pids := self.pids(name)) and time.monotonic() < end:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        for folder in self._folders(name):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _count(self, controller: str) -> int:
        """How many seats there are. A busy host gives each group its part, so the room's must weigh
        as much as all of them."""
        return sum(path.is_dir() for path in self._folder(controller, "").iterdir())

    @property
    def _controllers(self) -> tuple[str, ...]:
        """The trees in which a group lies, by their names below the root."""
        return ("",) if self.unified else ("memory", "cpu", "pids")

    def _folders(self, name: str) -> Iterator[Path]:
        """The folders of a seat's group that are there, that of its memory first."""
        for controller in self._controllers:
            if (folder := self._folder(controller, name)).is_dir():
                yield folder

    def _folder(self, controller: str, name: str) -> Path:
        return self.root / controller / self.room / name

    def _delegate(self) -> None:
        """Let the groups below have limits. In version 2 each folder on the way must say so."""
        (self.root / self.room).mkdir(exist_ok=True)
        for folder in (self.root, self.root / self.room):
            _write(folder / "cgroup.subtree_control", "+memory +cpu +pids")


def _write(path: Path, value: int | str) -> None:
    # Not by opening with "w": a file that is not there must be an error and no new file.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
