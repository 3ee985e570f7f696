"""The memory and the cores that this session may use: by the machine, by control groups (cgroups)
and by limits of its own. And what its children get of them."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from .ended import ChildKind

MOST_CHILD_BYTES = 4 * 2**30
LEAST_CHILD_BYTES = 2**30
"""With less, two children with PyTorch and Triton could not do anything at all."""
MOST_ASLEEP_S = 20
LEAST_WALL_S = 120
"""What takes ten seconds on a quiet machine has taken a minute beside fifteen others on two
cores."""


def child_memory_bytes() -> int:
    """The memory that a child may take now: half of what is free to this session, at most 4 GiB."""
    return max(LEAST_CHILD_BYTES, min(MOST_CHILD_BYTES, free_memory_bytes() // 2))


def wall_s(timeout_s: float) -> float:
    """Seconds by the clock to wait for a child that may compute for `timeout_s` seconds.

    The clock only ends what sleeps or hangs, so it is generous, and more so if two children cannot
    have a core each.
    """
    return max(LEAST_WALL_S, 3 * timeout_s) * max(1.0, 2 / cores())


def asleep_s(kind: ChildKind) -> float:
    """Seconds by the clock in which a child may only wait: one that launches waits for the GPU."""
    return math.inf if kind == "launch" else MOST_ASLEEP_S


def free_memory_bytes(root: Path = Path("/")) -> int:
    """How much more memory this session could take."""
    lines = _read(root / "proc/meminfo").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    free = [int(fields["MemAvailable"].split()[0]) * 1024] if "MemAvailable" in fields else []
    for group in _groups("memory", root):
        for most, used, unused in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, usage = _read(group / most), _read(group / used)
            if limit.isdigit() and usage.isdigit():
                # The file cache counts as used, and is given up when memory is short.
                stat = dict(line.split() for line in _read(group / "memory.stat").splitlines())
                free.append(max(0, int(limit) - int(usage) + int(stat.get(unused, 0))))
    import resource  # which a page of the site lacks

    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        free.append(address_space)
    return min(free, default=2 * MOST_CHILD_BYTES)


def cores(root: Path = Path("/")) -> float:
    """How many cores this session may use at once; a control group may give it a part of one."""
    counts = [float(len(os.sched_getaffinity(0)))]
    for group in _groups("cpu", root):
        version_2 = _read(group / "cpu.max").split()
        version_1 = [_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")]
        for quota in (version_2, version_1):
            if len(quota) == 2 and all(part.isdigit() and int(part) for part in quota):
                counts.append(int(quota[0]) / int(quota[1]))
    return min(counts)


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of this process's control group and of those around it, in both versions of
    cgroups."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number != "0" and controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("" if number == "0" else controller)
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            yield folder
            if folder == base:
                break


def _read(path: Path) -> str:
    """A file's text; empty if there is no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
