"""What threads read and write in shared memory, until a fence orders it for copies and products.

Threads work through the generic proxy, TMA and tensor cores through the asynchronous one.
fence_async_shared orders the accesses of the threads that call it, and those that were handed to
them through a barrier before.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .barriers import Barrier
from .faults import HazardError
from .partitions import Partition

Act = Literal["read by load", "written by store"]


@dataclass(eq=False)
class Access:
    """An access of threads to a piece of shared memory."""

    act: Act
    view: np.ndarray
    threads: Partition
    known_to: set[Partition]
    """The partitions whose fence orders it."""

    def repeats(self, other: "Access") -> bool:
        """Whether `other` is an earlier access of the same threads to the same memory."""
        return (
            (self.act, self.threads) == (other.act, other.threads)
            and self.view.__array_interface__ == other.view.__array_interface__
        )  # fmt: skip


class Accesses:
    """The accesses of threads that no fence has ordered yet."""

    def __init__(self) -> None:
        self._unfenced: list[Access] = []

    def note(self, act: Act, view: np.ndarray, name: str, threads: Partition) -> None:
        """Raises HazardError where no barrier orders it after what another partition did there."""
        for old in self._unfenced:
            writes = "written by store" in (act, old.act)
            if writes and threads not in old.known_to and np.shares_memory(old.view, view):
                raise HazardError(
                    f"{name} is {act} in {threads.name}, and was {old.act} in {old.threads.name}: "
                    "no barrier orders the two."
                )
        access = Access(act, view, threads, {threads})
        self._unfenced = [old for old in self._unfenced if not access.repeats(old)]
        self._unfenced.append(access)

    def fence(self, threads: Partition) -> None:
        self._unfenced = [old for old in self._unfenced if threads not in old.known_to]

    def hand_over(self, barrier: Barrier, threads: Partition) -> None:
        """Who waits for this phase of the barrier will know what the arriving threads know."""
        barrier.handed_over += [old for old in self._unfenced if threads in old.known_to]

    def take_over(self, barrier: Barrier, threads: Partition) -> None:
        """Threads have waited for a barrier."""
        barrier.taken_over = [old for old in barrier.taken_over if old in self._unfenced]
        for access in barrier.taken_over:
            access.known_to.add(threads)

    def share(self, before: Partition, after: list[Partition]) -> None:
        """Partitions begin, or go on, after everything that another one has done."""
        for access in self._unfenced:
            if before in access.known_to:
                access.known_to.update(after)

    def refuse(self, view: np.ndarray, name: str, use: str) -> None:
        """Raise HazardError if the asynchronous proxy cannot use this memory yet."""
        for access in self._unfenced:
            harmless = access.act == "read by load" and use != "copied into"
            if not harmless and np.shares_memory(access.view, view):
                raise HazardError(
                    f"{name} was {access.act} and is {use} with no fence_async_shared in between.",
                    "no fence",
                )
