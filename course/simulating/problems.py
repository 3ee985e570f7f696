"""What goes wrong in a kernel that waits for the wrong thing, or for nothing."""

from typing import Self

from course.errors import CourseError


class SimulationError(CourseError):
    """A kernel that would be wrong, or would never end, on a GPU. Says where, and why."""

    def placed(self, place: str) -> Self:
        """The same error with the kernel's line, unless it has one."""
        return self if "\n    In " in str(self) or not place else type(self)(f"{self}\n    {place}")


class DeadlockError(SimulationError):
    """Every partition that has not ended waits."""


class HazardError(SimulationError):
    """Memory is read before its data is there, or overwritten while it is still read."""
