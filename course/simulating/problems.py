"""What goes wrong in a kernel that waits for the wrong thing, or for nothing."""

from typing import NoReturn, Self

from course.errors import CourseError


class SimulationError(CourseError):
    """A kernel cannot be followed any further. Says where, and why."""

    def placed(self, place: str) -> Self:
        """The same error with the kernel's line, unless it has one."""
        return self if "\n    In " in str(self) or not place else type(self)(f"{self}\n    {place}")


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
