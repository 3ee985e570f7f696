"""How a child process ended."""

import re
import signal
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from course.errors import CourseError

ChildKind = Literal["compile", "interpret", "launch"]
"""What a child does with kernels: compile only, interpret only, or launch on the GPU."""

How = Literal["finished", "failed", "crashed", "out of time", "out of memory"]

T = TypeVar("T")


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How a child process ended, and what it printed."""

    how: How
    code: int
    """The exit code; minus the signal's number where a signal ended it."""
    stdout: str
    stderr: str
    seconds: float
    value: T | None = None
    """What the function returned, if it finished."""
    error: CourseError | None = None
    """The CourseError that the function raised, if it raised one."""
    stopped: str = ""
    """The limit at which it was stopped, as in "after 10 s of computing"; empty if it ended by
    itself."""
    starved: bool = False
    """Whether the clock on the wall stopped it before it had computed for as long as it may: the
    machine is too busy, or it waits for something. Nothing follows from that."""

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the child, or None."""
        return signal.Signals(-self.code).name if self.code < 0 else None

    @property
    def exception(self) -> str:
        """The line of the exception that ended it: the first after the last traceback's frames."""
        return self._told[0]

    @property
    def own_line(self) -> str:
        """The line of the learner's code that the exception names, as "Line 3 of its cell: …"; or
        nothing."""
        return self._told[1] if self._told[1].startswith("Line ") else ""

    @property
    def _told(self) -> tuple[str, str]:
        """The first two lines of what the exception says, without the module of its class."""
        if self.error is not None:
            return f"{type(self.error).__qualname__}: {self.error}", ""
        _, traceback, after = self.stderr.rpartition("Traceback (most recent call last):\n")
        lines = [line for line in after.splitlines() if not line.startswith(" ")]
        first, second = [*lines, "", ""][:2] if traceback else ("", "")
        return re.sub(r"^(?:\w+\.)+(?=\w+(?::|$))", "", first), second

    def sentence(self, subject: str) -> str:
        """How it ended, in a sentence about `subject`, as "The process". Its end is left to the
        caller to add to, so there is no full stop."""
        if self.how == "finished":
            return f"{subject} finished"
        if self.stopped:
            return f"{subject} was stopped {self.stopped}"
        if self.how == "crashed":
            return f"{subject} was killed by {self.signal}"
        return f"{subject} failed: {self.exception.rstrip('.') or f'exit code {self.code}'}"
