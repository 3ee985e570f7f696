"""Which of the kernel's variables a value of the TTGIR is, and on which line it was made."""

from collections.abc import Set
from dataclasses import dataclass

from .locations import Frame, printed_frames


@dataclass(frozen=True)
class Origin:
    """Where a value of the IR comes from in the reader's own source."""

    line: int = 0
    """0 if it comes from none."""
    name: str = ""
    """The variable that it is, or a part of."""
    callers: tuple[str, ...] = ()
    """The variables that the calls which led there were assigned to."""


@dataclass(frozen=True)
class Origins:
    """Finds the origins of values."""

    own: Set[Frame]
    """The reader's own lines."""
    returns: Set[Frame]
    """The lines of `return` statements, whose values are the caller's."""

    def of(self, location: str, named: str) -> Origin:
        """The origin of a value by its location, and by the location that names it."""
        frames = [frame for frame, _ in printed_frames(location) if frame in self.own]
        line = frames[0][1] if frames else 0
        names = [(frame, name) for frame, name in printed_frames(named) if frame in self.own]
        while names and not names[0][1] and names[0][0] in self.returns:
            names.pop(0)
        if not names or not names[0][1]:  # as what a call of tl.store makes on its way
            return Origin(line)
        return Origin(line, names[0][1], tuple(name for _, name in names[1:] if name))
