"""Measured speeds, as dataclasses and as JSON: what `bench` returns, what `make record` writes, what lessons show."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from course.errors import CourseError

R = TypeVar("R")

FOLDER = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class Machine:
    """Where and when a result was measured."""

    gpu: str
    driver: str
    torch: str
    """The PyTorch that ran."""
    triton: str
    date: str
    pinned_torch: str = ""
    """The PyTorch that the course pinned at the time; it may be newer than the machine's."""

    def __str__(self) -> str:
        torch = self.torch
        if self.pinned_torch not in ("", torch.partition("+")[0]):
            torch += f" (the course pins {self.pinned_torch})"
        return f"{self.gpu}, driver {self.driver}, torch {torch}, triton {self.triton}, {self.date}"


def to_content(result: Any) -> dict[str, Any]:
    """A result as JSON takes it. `recorded` is not kept: what is read from a file is recorded."""
    content = asdict(result)
    del content["recorded"]
    return content


def from_content(kind: type[R], content: dict[str, Any]) -> R:
    """The result of this kind, with a `machine` and marked as `recorded`, that `to_content` was given."""
    return kind(**content | {"machine": Machine(**content["machine"]), "recorded": True})


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
        """Terabytes (10^12 bytes) a second."""
        return self.bytes / self.ms / 1e9

    @property
    def tflop_s(self) -> float:
        """Teraflops: 10^12 additions and multiplications a second."""
        return self.operations / self.ms / 1e9

    @property
    def work(self) -> int:
        """What its speed counts: the operations, or the bytes where none are given."""
        return self.operations or self.bytes

    @property
    def speed(self) -> float:
        """In the unit of `Speeds.unit`."""
        return self.work / self.ms / 1e9


@dataclass(frozen=True)
class Speeds:
    """The timings of several functions in one run on one machine. Prints as a table."""

    name: str
    x_name: str
    timings: tuple[Timing, ...]
    copy_tb_s: float
    """The copy roof: bytes read and written by a large device-to-device copy, measured in the same run."""
    machine: Machine
    launch_us: dict[str, float]
    """Time the CPU spends on one call, in microseconds, by function; and named first calls, which compile."""
    source_hash: str = ""
    """`code_hash` of the operation's functions."""
    recorded: bool = False
    """Read from a file, and not measured just now."""

    @property
    def unit(self) -> str:
        """TFLOP/s where operations are counted, else TB/s."""
        return "TFLOP/s" if any(timing.operations for timing in self.timings) else "TB/s"

    @property
    def series(self) -> list[str]:
        return list(dict.fromkeys(timing.series for timing in self.timings))

    def of(self, series: str) -> list[Timing]:
        return [timing for timing in self.timings if timing.series == series]

    def at(self, series: str, x: int) -> Timing:
        """The timing of one series at one size. KeyError where there is none."""
        for timing in self.timings:
            if (timing.series, timing.x) == (series, x):
                return timing
        raise KeyError((series, x))

    def __str__(self) -> str:
        xs = sorted({timing.x for timing in self.timings})
        width = max(len(self.x_name), len(f"{xs[-1]:,}"))
        columns = [max(len(name), 12) for name in self.series]
        roof = self.copy_tb_s if self.unit == "TB/s" else None
        lines = [
            f"{self.name}: {self.unit}"
            + (f" (share of the copy roof, {roof:.2f} TB/s)" if roof else ""),
            "  ".join(
                [
                    self.x_name.rjust(width),
                    *(name.rjust(w) for name, w in zip(self.series, columns, strict=True)),
                ]
            ),
        ]
        for x in xs:
            cells = []
            for name, w in zip(self.series, columns, strict=True):
                found = [t for t in self.of(name) if t.x == x]
                cells.append(self._cell(found[0], roof).rjust(w) if found else "".rjust(w))
            lines.append("  ".join([f"{x:,}".rjust(width), *cells]))
        lines.append(f"{'Recorded' if self.recorded else 'Measured now'} on {self.machine}.")
        return "\n".join(lines)

    __repr__ = __str__

    @staticmethod
    def _cell(timing: Timing, roof: float | None) -> str:
        return f"{timing.speed:.2f} ({timing.speed / roof:.0%})" if roof else f"{timing.speed:.0f}"

    def to_json(self) -> str:
        """As JSON text, a timing a line."""
        content = to_content(self)
        timings = ",\n".join("    " + json.dumps(timing) for timing in content.pop("timings"))
        head = json.dumps(content, indent=2)
        return head[: -len("\n}")] + ',\n  "timings": [\n' + timings + "\n  ]\n}\n"

    @classmethod
    def from_json(cls, text: str) -> "Speeds":
        content = json.loads(text)
        content["timings"] = tuple(Timing(**timing) for timing in content["timings"])
        return from_content(cls, content)


def recorded(name: str) -> Speeds:
    """The recorded speeds of one of the course's studies, such as recorded("vector_add").

    Raises CourseError naming what there is where nothing of that name was recorded.
    """
    path = FOLDER / f"{name}.json"
    if not name.isidentifier() or not path.is_file():
        raise CourseError(
            f"Nothing is recorded under {name!r}: there is {', '.join(names()) or 'nothing yet'}."
        )
    return Speeds.from_json(path.read_text())


def names() -> list[str]:
    """The names of all recorded results."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))
