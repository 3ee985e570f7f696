"""The kernels of a training step as Proton sees them: a tree with times, as recorded."""

from collections.abc import Iterator
from dataclasses import dataclass

from course.gpus.recorded import Recorded

from .result import FOLDER

FILE = FOLDER / "observed" / "profile.json"


@dataclass(frozen=True)
class Node:
    """A scope, or a kernel: the leaves are kernels."""

    name: str
    us: float
    """The GPU's time for one step, in microseconds: its own, or that of all below it."""
    launches: float
    """Launches in one step: its own, or those of all below it."""
    children: tuple["Node", ...] = ()

    def rows(self, whole: float, depth: int = 0) -> Iterator[str]:
        """This node and all below it, the longest first, a line each.

        whole: the time of the step, in microseconds.
        """
        name = "    " * depth + self.name
        yield f"{self.us:9,.0f} us {self.us / whole:5.0%} {self.launches:4.0f} x  {name}"
        for child in sorted(self.children, key=lambda child: -child.us):
            yield from child.rows(whole, depth + 1)

    def at(self, *names: str) -> "Node":
        """The node below this one along these names. Raises KeyError where there is none."""
        if not names:
            return self
        for child in self.children:
            if child.name == names[0]:
                return child.at(*names[1:])
        raise KeyError(names[0])


@dataclass(frozen=True, repr=False)
class StepProfile(Recorded):
    """One training step in several versions, on one machine. Prints as trees."""

    steps: dict[str, Node]
    """Version -> its tree."""

    def __str__(self) -> str:
        trees = (self.tree(version) for version in self.steps)
        return "\n\n".join([*trees, self.source])

    def tree(self, version: str) -> str:
        """One version's tree as text."""
        step = self.steps[version]
        return "\n".join([version, *step.rows(step.us)])


def step_profile() -> StepProfile:
    """The recorded profile of a training step, as it was written first and as it was mended."""
    return StepProfile.from_json(FILE.read_text())
