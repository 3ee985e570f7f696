"""Measured speeds: what `bench` returns, what `make record` writes, what lessons show."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from course.errors import CourseError
from course.gpus.recorded import Recorded
from course.table import numbers

from .outdated import has_changed

FOLDER = Path(__file__).parent / "recorded"
OBSERVED = FOLDER / "observed"
"""The folder of all records that are not speeds, one file for each."""
Observation = TypeVar("Observation", bound=Recorded)


@dataclass(frozen=True)
class Timing:
    """One function at one size."""

    series: str
    """Which function, or which setting of it."""
    x: int
    """The size, or the setting that the study varies."""
    bytes: int
    """Bytes a call must move: every input read once, every output written once."""
    ms: float
    """Median time on the GPU, in milliseconds, the L2 cache emptied before each call."""
    ms_low: float
    """The 20th percentile."""
    ms_high: float
    """The 80th percentile."""
    operations: int = 0
    """Additions and multiplications of a call, where they are what takes the time."""

    @property
    def tb_s(self) -> float:
        """Terabytes (10^12 bytes) per second."""
        return self.bytes / self.ms / 1e9

    @property
    def work(self) -> int:
        """What its speed counts: the operations, or else the bytes."""
        return self.operations or self.bytes

    @property
    def speed(self) -> float:
        """Terabytes or teraflops per second: see `Speeds.unit`."""
        return self.work / self.ms / 1e9


@dataclass(frozen=True, repr=False)
class Speeds(Recorded):
    """The timings of several functions in one run on one machine. Prints as a table."""

    name: str
    x_name: str
    timings: tuple[Timing, ...]
    copy_tb_s: float
    """The copy roof: bytes read and written by a large copy on the device in the same run."""
    launch_us: dict[str, float]
    """Function -> microseconds that a call of it takes the CPU; and first calls, which compile."""
    source_hash: str = ""
    """`code_hash` of the operation's functions."""

    @property
    def outdated(self) -> bool:
        return self.recorded and has_changed(self.name, self.source_hash)

    @property
    def unit(self) -> str:
        """TFLOP/s where operations are counted, else TB/s."""
        return "TFLOP/s" if any(timing.operations for timing in self.timings) else "TB/s"

    @property
    def roof(self) -> float | None:
        """The copy roof, where bytes are counted."""
        return self.copy_tb_s if self.unit == "TB/s" else None

    @property
    def sizes(self) -> list[int]:
        """All sizes, the smallest first."""
        return sorted({timing.x for timing in self.timings})

    @property
    def series(self) -> list[str]:
        return list(dict.fromkeys(timing.series for timing in self.timings))

    def of(self, series: str) -> list[Timing]:
        return [timing for timing in self.timings if timing.series == series]

    def at(self, series: str, x: int) -> Timing:
        """The timing of one series at one size. Raises KeyError where it was not measured."""
        for timing in self.timings:
            if (timing.series, timing.x) == (series, x):
                return timing
        raise KeyError((series, x))

    def __str__(self) -> str:
        share = f" (share of the copy roof, {self.roof:.2f} TB/s)" if self.roof else ""
        table = numbers(self.rows(), least=12, label=str.rjust)
        return f"{self.name}: {self.unit}{share}\n{table}\n{self.source}"

    def rows(self) -> list[list[str]]:
        """The table: its head, and a row for each size. A percentage is of the copy roof."""
        cells = {(timing.series, timing.x): self._cell(timing.speed) for timing in self.timings}
        head = [self.x_name, *self.series]
        return [head] + [
            [f"{x:,}", *(cells.get((name, x), "") for name in self.series)] for x in self.sizes
        ]

    def _cell(self, speed: float) -> str:
        return f"{speed:.2f} ({speed / self.roof:.0%})" if self.roof else f"{speed:.0f}"

    def tops(self, names: Sequence[str]) -> str:
        """The copy roof and the highest speed of these series, as the end of a sentence."""
        tops, digits = [], 2 if self.roof else 0
        for name in names:
            top = max(self.of(name), key=lambda timing: timing.speed)
            speed = f"{top.speed:.{digits}f} {self.unit}"
            tops.append(f"{name} at most {speed} at {self.x_name} {top.x:,}")
        roof = f"; the copy roof is {self.roof:.2f} TB/s" if self.roof else ""
        return f"{roof}: {'; '.join(tops)}."


def recorded(name: str) -> Speeds:
    """The recorded speeds of one of the course's studies, such as recorded("vector_add").

    Raises CourseError naming what there is where nothing of that name was recorded.
    """
    path = FOLDER / f"{name}.json"
    if not str(name).isidentifier() or not path.is_file():
        raise CourseError(
            f"Nothing is recorded under {name!r}: there is {', '.join(names()) or 'nothing yet'}."
        )
    return Speeds.from_json(path.read_text())


def observation(kind: type[Observation], name: str) -> Observation:
    """The record of this name in OBSERVED, as observation(KernelMetrics, "ncu").

    Raises CourseError where nothing is recorded under it.
    """
    path = OBSERVED / f"{name}.json"
    if not path.is_file():
        raise CourseError(f"No {name} is recorded: `make record` does so on a GPU.")
    return kind.from_json(path.read_text())


def names() -> list[str]:
    """The names of all recorded results."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))
