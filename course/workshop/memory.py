"""How much memory a session takes at its peak, with all the processes that it has started."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

EVERY_S = 0.2


class Peak:
    """The largest memory of a process and its descendants that was seen, in bytes."""

    def __init__(self) -> None:
        self.bytes = 0


@contextlib.contextmanager
def peak_of(pid: int) -> Iterator[Peak]:
    """Look at a process five times a second; pages that several processes share count once."""
    peak, stop = Peak(), threading.Event()

    def watch() -> None:
        while not stop.wait(EVERY_S):
            peak.bytes = max(peak.bytes, tree_bytes(pid))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def tree_bytes(pid: int) -> int:
    """The memory of a process and of its descendants, in bytes."""
    pids = [pid]
    for each in pids:  # grows on the way
        pids += children(each)
    return sum(map(_proportional_bytes, pids))


def children(pid: int) -> list[int]:
    """The processes that a process has started and that live; none where it has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def _proportional_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
