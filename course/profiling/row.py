"""A row of a profile: the launches of one kernel from one line with arguments of one kind."""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from course import DEVICE, MODE
from course.diagnosing.api import diagnose
from course.diagnosing.result import Diagnosis
from course.errors import CourseError
from course.lowering.api import Lowered, lower
from course.lowering.explorer import Explorer, explore
from course.tracing.api import cost, replay
from course.tracing.copies import Filled
from course.tracing.recorder import Launch
from course.tracing.replay import Replay
from course.tracing.result import Cost
from course.type_names import AnyValue, Function
from course.verifying.result import Verified

from .against import comparable


@dataclass(frozen=True)
class Place:
    """A line of the program that is on the way to a launch."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(repr=False, eq=False)
class Row:
    """The launches of one kernel from one line, with arguments of the same shapes and types."""

    name: str
    path: tuple[Place, ...]
    """The program's lines that lead to the launch, the outermost first."""
    target: str | None = None
    launches: int = 1
    us: float | None = None
    """What they took together on the GPU; None if that was not measured."""
    recorded: Launch | None = None
    problem: str = "it has not ended"
    """Why nothing was recorded."""
    gpu_name: str = ""
    """What the GPU's profiler calls the kernel."""
    devices: set[int] = field(default_factory=set)

    @property
    def launch(self) -> Launch:
        """The first of the launches, in outline: cost(*row.launch) and the like take it.

        Raises CourseError if it could not be recorded.
        """
        if self.recorded is None:
            raise CourseError(f"The launch of {self.name} was not recorded: {self.problem}.")
        return self.recorded

    @property
    def where(self) -> str:
        """The line that launches."""
        return str(self.path[-1]) if self.path else "?"

    @property
    def arguments(self) -> str:
        """What it was given, in short."""
        return self.recorded.row()[2] if self.recorded else "?"

    @cached_property
    def counted(self) -> Cost | str:
        """What `cost` counts of one launch, or why it cannot."""
        try:
            return self.cost()
        except CourseError as error:
            return str(error)

    @property
    def least_us(self) -> float | None:
        """The least that all the launches take by the GPU's roofs; None if that is not known."""
        return None if isinstance(self.counted, str) else self.launches * self.counted.least_us

    @property
    def gain_us(self) -> float:
        """The time without that of the roofs; the roofs' own where no time was measured."""
        least = self.least_us or 0
        return least if self.us is None else self.us - least

    def cost(self) -> Cost:
        """What one launch moves and computes: see `course.cost`."""
        return cost(*self.launch, target=self.target)

    def lower(self) -> Lowered:
        """The kernel through every stage of the compiler: see `course.lower`."""
        target = self.counted.gpu.target if isinstance(self.counted, Cost) else self.target
        return lower(*self.launch, target=target)

    def explore(self) -> Explorer:
        """Source and stages side by side: see `course.explore`."""
        lowered: Any = self.lower()
        return explore(lowered)

    def diagnose(self) -> Diagnosis:
        """What limits the launch: see `course.diagnose`."""
        launch = self._filled(DEVICE) if MODE.gpu else self.launch  # it is timed there
        return diagnose(*launch, target=self.target)

    def replay(self, **options: AnyValue) -> Replay:
        """The launch step by step: see `course.replay`. Numbers that were not kept are made up."""
        return replay(*self._filled("cpu"), **options)

    def verify(self, reference: Function, output: str | None = None) -> Verified:
        """Whether the launch computes what `reference` does: see `course.verify`.

        reference: a function in PyTorch of the floating-point tensors that the kernel reads, in the
            order of its parameters. Everything else stays as it was recorded.
        output: the parameter to compare; by default the first one that the kernel writes.
        """
        from .verified import verified

        return verified(self._filled(DEVICE), self.cost(), reference, output)

    def reproduce(self, path: str | Path, seed: int = 0) -> Path:
        """Write a file that repeats the launch by itself: see `to_file` of a recorded launch.

        The tensors' numbers lie beside it if they were kept: `course.profile(data=True)`. Otherwise
        they are made anew from the seed.
        """
        given = (*self.launch.args, *self.launch.kwargs.values())
        outline = any(isinstance(each, torch.Tensor) and each.is_meta for each in given)
        return self.launch.to_file(path, seed if outline else None)

    def _filled(self, device: str) -> Launch:
        return self.launch.copied(Filled(device, seed=1))  # and not 0, as `verify` draws from

    def summary(self) -> dict[str, Any]:
        """All of it as JSON: times in microseconds, and a hash of what each stage holds."""
        names = ("name", "arguments", "launches", "us", "least_us", "gain_us", "where")
        known = {name: getattr(self, name) for name in names}
        path = [f"{place} in {place.function}" for place in self.path]
        if isinstance(self.counted, str):
            return {**known, "path": path, "problem": self.counted}
        used, stages = self.counted.resources, self.lower().texts if self.counted.resources else {}
        return {
            **known,
            "path": path,
            "bound": self.counted.bound,
            "bytes": self.counted.distinct_loaded + self.counted.distinct_stored,
            "operations": self.counted.flops,
            "resources": asdict(used) if used else None,
            "stages": {
                name: sha256(comparable(text).encode()).hexdigest()[:16]
                for name, text in stages.items()
            },
        }

    def __repr__(self) -> str:
        head = f"{self.name}, launched {self.launches:,} times, {self.where}"
        return f"{head}\n    {self.arguments}\n    {self.counted}"
