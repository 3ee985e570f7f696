"""What attention with large heads costs in power, as recorded: the clock that is left to it."""

from dataclasses import dataclass

from course.errors import CourseError
from course.gpus.recorded import Recorded

from .result import FOLDER
from .timed_code import has_changed

FILE = FOLDER / "observed" / "attention_power.json"


@dataclass(frozen=True)
class Load:
    """One way to compute the same attention: what its kernel does, and how it runs in a row."""

    cycles: int
    """From the first program's start to the last one's end, in one launch by itself."""
    instructions: int
    """Of all warps, in that launch."""
    tensor_percent: float
    """Of the cycles in which a multiprocessor works, those in which its tensor cores do."""
    ms: float
    """Time of a launch, one after the other, for a second and more."""
    mhz: float
    """The multiprocessors' clock meanwhile."""
    watts: float
    """The card's power meanwhile."""


@dataclass(frozen=True, repr=False)
class AttentionPower(Recorded):
    """Attention without a mask, in float16, on random numbers. Prints as a table."""

    source_hash: str
    """Of the kernel that was run; see `course.benching.source_hash`."""
    head_dim: int
    length: int
    """Queries, and keys."""
    heads: int
    """Of all batches."""
    loads: dict[str, Load]

    @property
    def outdated(self) -> bool:
        return self.recorded and has_changed("attention_power", self.source_hash)

    def __str__(self) -> str:
        rows = {
            "cycles, by itself": [f"{load.cycles:,}" for load in self.loads.values()],
            "instructions of warps": [f"{load.instructions:,}" for load in self.loads.values()],
            "tensor cores at work": [f"{load.tensor_percent:.0f}%" for load in self.loads.values()],
            "in a row: ms": [f"{load.ms:.3f}" for load in self.loads.values()],
            "clock, MHz": [f"{load.mhz:,.0f}" for load in self.loads.values()],
            "power, W": [f"{load.watts:.0f}" for load in self.loads.values()],
        }
        width = max(map(len, rows))
        columns = [max(15, len(name)) for name in self.loads]
        table = {"": list(self.loads)} | rows
        lines = [
            "  ".join(
                [f"{label:{width}}", *(f"{c:>{n}}" for c, n in zip(cells, columns, strict=True))]
            )
            for label, cells in table.items()
        ]
        return "\n".join([*lines, self.source])


def attention_power() -> AttentionPower:
    """The recorded power of attention. Raises CourseError where none is recorded."""
    if not FILE.exists():
        raise CourseError(
            "No power of attention is recorded: `make record` records it on a GPU of compute"
            " capability 9.0."
        )
    return AttentionPower.from_json(FILE.read_text())
