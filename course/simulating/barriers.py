"""mbarriers: what is counted, what is waited for.

A barrier is in a phase, 0 and 1 in turn, which ends when as many have arrived as it was initialized
for and all the bytes that were announced have come. `wait(barrier, phase)` goes on once the phase
of that number has ended; the phase before the first one counts as ended.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, SupportsIndex

from .faults import Fault, HazardError, Lack, OnlyKnown
from .partitions import Effect

if TYPE_CHECKING:
    from .proxies import Access


@dataclass
class Barrier:
    """One mbarrier."""

    name: str
    count: int = 0
    """Arrivals that end a phase; 0 before it is initialized."""
    missing: int = 0
    bytes_missing: int = 0
    before: str = "before mbarrier.init"
    """Why it cannot be used, while `count` is 0."""
    ended: int = 0
    """Phases that have ended."""
    copies: list[Effect] = field(default_factory=list)
    """Copies under way that will signal it."""
    handed_over: "list[Access]" = field(default_factory=list)
    """What those knew who have arrived in this phase."""
    taken_over: "list[Access]" = field(default_factory=list)
    """What those knew who had arrived in phases that have ended."""

    def init(self, count: int) -> None:
        """Begin in the first phase, which is number 0."""
        self.count = self.missing = count
        self.bytes_missing = self.ended = 0

    def invalidate(self) -> None:
        """Give its memory back."""
        self.count, self.before = 0, "after mbarrier.invalidate, without another mbarrier.init"

    def arrive(self, count: int, announced: int = 0) -> None:
        self._initialized("arrive at")
        if count > self.missing:
            raise HazardError(
                f"{self.name} is initialized for {self.count} arrivals per phase, and more arrive "
                "in one phase.",
                "too many arrivals",
            )
        self.missing -= count
        self.bytes_missing += announced
        self._end_phase()

    def came(self, count: int) -> None:
        """So many of the announced bytes have come."""
        self.bytes_missing -= count
        self._end_phase()

    def has_ended(self, phase: int) -> bool:
        self._initialized("wait for")
        if phase not in (0, 1):
            raise HazardError(
                f"{self.name} is waited for at phase {phase}: a phase is 0 or 1, so take & 1.",
                "no such phase",
            )
        return self.ended % 2 != phase

    def waited_for(self, phase: int) -> Lack:
        """What a wait for it lacks."""
        lacking: dict[Fault, str] = {}
        if self.missing:
            lacking["arrivals"] = f"{self.missing} of {self.count} arrivals"
        if self.bytes_missing > 0:
            lacking["bytes"] = f"{self.bytes_missing:,} bytes"
        if self.bytes_missing < 0:
            announced = f"an mbarrier.expect for {-self.bytes_missing:,} bytes that have come"
            lacking["no expect"] = announced
        missing = f"still lacks {' and '.join(lacking.values())}"
        if not lacking:
            lacking["wrong phase"] = missing = "is another one"
        ended = {0: "none has", 1: "one has"}.get(self.ended, f"{self.ended} have")
        words = (
            f"waits for a phase {phase} of {self.name} to end: {ended} ended so far, "
            f"and the one under way {missing}"
        )
        return Lack(tuple(lacking), words)

    def _end_phase(self) -> None:
        if not self.missing and not self.bytes_missing:
            self.ended += 1
            self.missing = self.count
            self.taken_over += self.handed_over
            self.handed_over = []

    def _initialized(self, act: str) -> None:
        if not self.count:
            raise HazardError(f"The kernel must not {act} {self.name} {self.before}.")


@dataclass
class Barriers(OnlyKnown):
    """What allocate_mbarrier gives: one barrier, or several to index."""

    barriers: list[Barrier]
    name: str
    missing: str = ""
    """Why there is no such barrier, where the index was out of range."""

    @classmethod
    def named(cls, name: str, count: int) -> "Barriers":
        """So many new barriers, not initialized."""
        names = [name] if count == 1 else [f"{name}[{i}]" for i in range(count)]
        return cls([Barrier(each) for each in names], name)

    def index(self, number: SupportsIndex) -> "Barriers":
        """One of them. A number out of range does harm where it is used, and not before."""
        place = int(number)
        name, count = f"{self.name}[{place}]", len(self.barriers)
        if not 0 <= place < count:
            return Barriers([], name, f"{self.name} has {count} barriers, and no number {place}.")
        return Barriers([self.barriers[place]], name)

    @property
    def one(self) -> Barrier:
        """The barrier that is meant."""
        if self.missing:
            raise HazardError(self.missing)
        if len(self.barriers) != 1:
            raise HazardError(f"{self.name} are several barriers: take one by .index(…).")
        return self.barriers[0]
