"""What goes wrong in a kernel that waits for the wrong thing, or for nothing."""

from typing import Literal, NamedTuple, NoReturn, Self

from course.errors import CourseError

Fault = Literal[
    "wrong phase", "no expect", "bytes", "arrivals", "too many arrivals", "no such phase",
    "early read", "early refill", "no fence", "no product wait", "no last wait", "other",
]  # fmt: skip
"""What was done wrong. The first four are what a wait lacks that never ends: nothing, since its
barrier has gone on; an announcement of bytes that came; bytes; arrivals. The first of them that any
partition lacks says most."""


class Lack(NamedTuple):
    """What a partition waits for that never comes."""

    faults: tuple[Fault, ...]
    words: str


class SimulationError(CourseError):
    """A kernel cannot be followed any further. Says where, and why; its kind is a `Fault`."""

    def __init__(self, problem: str, kind: Fault = "other") -> None:
        super().__init__(problem, kind=kind)
        self.is_placed = False

    def placed(self, place: str) -> Self:
        """The same error with the kernel's line, unless it has one."""
        if place and not self.is_placed:
            self.args, self.is_placed = (f"{self}\n    {place}",), True
        return self


class DeadlockError(SimulationError):
    """Every partition that has not ended waits: on a GPU the kernel would never end."""


class HazardError(SimulationError):
    """Memory is used too early or too late: on a GPU the result could be wrong."""


class UnsupportedError(SimulationError):
    """The simulation does not know what the kernel does, which may be right on a GPU."""


class OnlyKnown:
    """A value of a simulated kernel, which refuses the methods that it lacks in a sentence."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)  # Python and NumPy ask whether these are there
        raise UnsupportedError(f"simulate does not know {type(self).__name__}.{name}.")
