"""Locks: what programs wait for until another program has let go of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course.tracing.records import AccessCounts

if TYPE_CHECKING:
    from .evidence import Evidence


@dataclass(frozen=True)
class Lock:
    """Elements of one tensor that programs set, wait for and release."""

    access: AccessCounts
    """The atomic that sets it, in a loop that ends when it could."""
    number: int
    """Locks side by side: the elements of the tensor, so there may be fewer."""
    turns: float
    """How often each is taken, if they are taken alike."""
    trips: float
    """Trips to L2 that wait for one another while it is held."""


def locks_of(evidence: Evidence) -> list[Lock]:
    """The locks of a kernel, as far as the trace has counted what is done with them."""
    waited = {call for loop in evidence.loops if loop.kind == "while" for call in loop.exchanges}
    locks = []
    for place, access in enumerate(evidence.accesses):
        tensor = evidence.argument(access)
        if access.call in waited and tensor is not None and (number := tensor.numel()):
            turns = access.executions / number
            locks.append(Lock(access, number, turns, _trips(evidence, place)))
    return locks


def _trips(evidence: Evidence, place: int) -> float:
    """Trips to L2 from taking a lock to the next program's taking it.

    The atomic that takes it is one, and so is the one that releases it, which waits until what was
    stored can be seen; loads in between go together, and are one each time that they run.
    """
    accesses = evidence.accesses
    taken = accesses[place]
    after = accesses[place + 1 :]
    own = [number for number, each in enumerate(after) if each.tensor == taken.tensor]
    held = after[: own[-1]] if own else after
    loads = [each.executions / taken.executions for each in held if each.kind == "load"]
    return 2 + max(loads, default=0)
