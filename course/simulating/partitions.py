"""The partitions of a program, of which one runs at a time.

Each is a thread of Python that holds a baton: it runs until it has to wait, or until it has done
something that others may see, and then hands the baton on. So a run is the same every time, and one
kernel can be tried in several orders.
"""

import ctypes
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from .faults import DeadlockError, Fault, Lack, SimulationError

if TYPE_CHECKING:
    from .copy_names import Store
    from .kernel_values import Value
    from .shared_memory import Pending


Effect = Callable[[], None]
"""Lets something asynchronous take effect: a copy's data arrive, a product has its value."""


@dataclass
class UnderWay:
    """What the warps of a partition have under way, of each kind the oldest first."""

    products: list[Effect] = field(default_factory=list)
    stores: "list[Store]" = field(default_factory=list)
    """Copies by TMA out of shared memory."""
    group: "list[tuple[Pending, Effect]]" = field(default_factory=list)
    """Copies by threads (cp.async) since the last commit_group."""
    groups: list[list[Effect]] = field(default_factory=list)
    """Copies by threads, by the commit_group that ended them."""


Order = Literal["in order", "backwards", "shuffled"]
"""Who goes next: the first partition that can, the last one, or one by lot (always the same)."""
ORDERS: tuple[Order, ...] = ("in order", "backwards", "shuffled")

MOST_STEPS = 1_000_000
"""Lines, accesses to memory, arrivals and waits of one program; with more it counts as endless."""


class _Stopped(BaseException):
    """Ends a partition because another one has failed."""


@dataclass(eq=False)
class Partition:
    """A function of a kernel that runs in warps of its own."""

    name: str
    run: "Callable[[], Value]"
    num_warps: int = 4
    waits_for: Callable[[], bool] | None = None
    """Whether what it waits for is there; None while it waits for nothing."""
    lacks: Callable[[], Lack] | None = None
    """What it waits for."""
    ended: bool = False
    result: "Value" = None
    under_way: UnderWay = field(default_factory=UnderWay)

    @property
    def ready(self) -> bool:
        return not self.ended and (self.waits_for is None or self.waits_for())


class Turns:
    """Runs the partitions of one program to their ends, one at a time."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._lot = random.Random(0)
        self._baton = threading.Condition()
        self._holder: Partition | None = None
        self._error: BaseException | None = None
        self._steps = 0
        self._threads: list[tuple[threading.Thread, Partition]] = []
        self.partitions: list[Partition] = []

    @property
    def current(self) -> Partition:
        """The partition that runs now."""
        assert self._holder is not None
        return self._holder

    def run(self, partitions: list[Partition]) -> "list[Value]":
        """What the partitions return. Raises what the first one raises, or DeadlockError.

        Where it is interrupted, the partitions are stopped as well.
        """
        outside, before = self._holder, self.partitions
        self.partitions = partitions
        threads = [
            threading.Thread(target=self._life, args=(partition,), daemon=True)
            for partition in partitions
        ]
        self._holder = self._next()
        self._threads += zip(threads, partitions, strict=True)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            self._stop()
            raise
        self._holder, self.partitions = outside, before
        if self._error:
            raise self._error
        return [partition.result for partition in partitions]

    def step(self) -> None:
        """Count something that the program does. Raises SimulationError where it never ends."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise SimulationError(
                f"The program has not ended after {MOST_STEPS:,} steps: look for a loop that never "
                "ends, or simulate less work."
            )

    def pause(self) -> None:
        """Let another partition run, if there is one that can."""
        self._hand_on(self.current)

    def wait(self, condition: Callable[[], bool], lacks: Callable[[], Lack]) -> None:
        """Let the others run until `condition` holds."""
        partition = self.current
        partition.waits_for, partition.lacks = condition, lacks
        self._hand_on(partition)
        partition.waits_for = None

    def _stop(self) -> None:
        """End all partitions, those that wait and those that compute."""
        self._fail(_Stopped())
        for thread, partition in self._threads:
            with self._baton:
                self._baton.wait_for(partial(getattr, partition, "ended"), 0.1)
            # Not is_alive(), which an interrupted join turns false in Python 3.11.
            if thread.ident is not None and not partition.ended:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(_Stopped)
                )

    def _life(self, partition: Partition) -> None:
        try:
            self._take(partition)
            partition.result = partition.run()
        except _Stopped:
            pass
        except BaseException as error:
            self._fail(error)
        partition.ended = True
        with self._baton:
            try:
                self._holder = self._next() if self._error is None else None
            except BaseException as error:  # also what another partition's condition raises
                self._error = self._error or error
            self._baton.notify_all()

    def _hand_on(self, partition: Partition) -> None:
        self.step()
        with self._baton:
            self._holder = self._next()
            self._baton.notify_all()
        self._take(partition)

    def _take(self, partition: Partition) -> None:
        with self._baton:
            self._baton.wait_for(lambda: self._holder is partition or self._error is not None)
            if self._error is not None:
                raise _Stopped

    def _fail(self, error: BaseException) -> None:
        with self._baton:
            self._error = self._error or error
            self._baton.notify_all()

    def _next(self) -> Partition | None:
        ready = [partition for partition in self.partitions if partition.ready]
        waiting = [partition for partition in self.partitions if not partition.ended]
        if not waiting:
            return None
        if not ready:
            raise _deadlock(self.partitions)
        if self._order == "shuffled":
            return self._lot.choice(ready)
        return ready[0 if self._order == "in order" else -1]


def _deadlock(partitions: list[Partition]) -> DeadlockError:
    """Nobody can go on: what each partition waits for, and the fault that says most."""
    lines, faults = ["Deadlock: nobody can go on."], set[Fault]()
    for partition in partitions:
        lack = partition.lacks() if partition.lacks and not partition.ended else None
        lines.append(f"    {partition.name} {lack.words if lack else 'has ended'}")
        faults.update(lack.faults if lack else ())
    return DeadlockError("\n".join(lines), next(each for each in get_args(Fault) if each in faults))
