"""What came of experiments: how long a launch takes without one thing."""

from collections import Counter
from dataclasses import dataclass

from course.lowering.locations import Frame

from .clocks import Clocks

SPREAD = 0.1
"""From this spread of the launch's own times on, it is said that something else may use the GPU."""


@dataclass(frozen=True)
class Experiment:
    """A launch without one thing, or with one parameter changed."""

    kind: str
    """What it lacks or changes, as "loads" or "num_warps"."""
    lines: tuple[Frame, ...]
    """The lines that lack it; none if it holds for all of the kernel."""
    us: float
    """Its median time in microseconds."""
    cure: str = ""
    """The change that was made, as "num_warps=8", where the results stay as they were."""


@dataclass(frozen=True)
class Experiments:
    """All experiments with one launch."""

    us: float
    """The median time of the launch as it is, in microseconds."""
    spread: float
    """The range of the middle half of its times, over their median."""
    done: tuple[Experiment, ...]
    dropped: tuple[str, ...]
    """The kinds of those that could not be used, each with the reason."""
    clocks: Clocks | None
    empty_us: float | None
    """The time of a launch whose programs end at once."""
    seconds: float = 0
    """What all of it took."""

    @property
    def notes(self) -> list[str]:
        """Sentences on what was tried, and on how far the times can be trusted."""
        kinds = Counter(each.kind for each in self.done)
        tried = ", ".join(f"{kind} {number}" for kind, number in kinds.items()) or "none"
        notes = [f"{len(self.done)} experiments were made in {self.seconds:.0f} s: {tried}."]
        if self.dropped:
            notes.append(f"{len(self.dropped)} more could not be used: {'; '.join(self.dropped)}.")
        if self.spread > SPREAD:
            notes.append(
                f"Times of the same launch spread by {self.spread:.0%}: something else may use "
                "this GPU, so ask again when it is free."
            )
        return notes
