"""What a task may take: CPU time, memory, processes, and time by the clock."""

import time
from typing import NamedTuple

from .descendants import Descendants
from .ended import How
from .messages import Task

MOST_PROCESSES = 512
"""A task that starts more is ended: looking after them would take too long."""
POLL_S = 0.05
"""How often a task is looked at."""
AWAKE_S = 0.2
"""CPU time after which a task counts as awake again: a loop that sleeps takes less in 20 s."""


class Overrun(NamedTuple):
    """Why a task was killed: the fields of `Ended` that say so."""

    how: How
    stopped: str
    starved: bool = False


class TaskLimits:
    """What a task may take. `over` is why one that takes more is stopped."""

    def __init__(self, task: Task, descendants: Descendants, start: float) -> None:
        self.task = task
        self.descendants, self.start = descendants, start
        self.next_look = start
        self._awake_at, self._awake_computed_s = start, 0.0
        self._could_run = False

    def over(self) -> Overrun | None:
        looked = time.monotonic()
        if looked < self.next_look:
            return None
        stop = self._look(looked - self.start)
        # Many processes take long to look at: most of the time is to be left to them.
        self.next_look = time.monotonic() + max(POLL_S, 4 * (time.monotonic() - looked))
        return stop

    def _look(self, elapsed_s: float) -> Overrun | None:
        task, pids = self.task, self.descendants.pids()
        if len(pids) > MOST_PROCESSES:
            return Overrun("out of memory", f"at {MOST_PROCESSES} processes")
        # Watched here and not by a limit on address space, which CUDA exceeds from its start.
        if self.descendants.memory_bytes(pids, task.memory_bytes) > task.memory_bytes:
            return Overrun("out of memory", f"at {task.memory_bytes / 2**30:.2g} GiB of memory")
        # CPU time, so that a busy machine changes nothing. Threads that compute side by side count
        # once.
        computed_s = min(self.descendants.computed_s(pids), elapsed_s)
        if computed_s >= task.timeout_s:
            return Overrun("out of time", f"after {task.timeout_s:g} s of computing")
        if self._asleep_s(pids) >= task.asleep_s:
            after = f"after {task.asleep_s:g} s in which it only waited"
            return Overrun("out of time", after, starved=True)
        if elapsed_s >= task.wall_s:
            after = f"after {task.wall_s:g} s, in which it computed for {computed_s:.1f} s"
            return Overrun("out of time", after, starved=True)
        return None

    def _asleep_s(self, pids: list[int]) -> float:
        """For how long it has only waited. What could run and has no core is not waiting: then two
        looks, one after the other, find a thread that could run."""
        now, computed_s = time.monotonic(), self.descendants.computed_s(pids)
        could_run_before, self._could_run = self._could_run, self.descendants.could_run(pids)
        both = could_run_before and self._could_run
        if both or computed_s - self._awake_computed_s >= AWAKE_S:
            self._awake_at, self._awake_computed_s = now, computed_s
        return now - self._awake_at
