"""What it takes to train a small transformer with different kinds of attention, as recorded."""

from dataclasses import dataclass

from course.gpus.recorded import Recorded
from course.table import numbers

from .outdated import has_changed
from .result import observation

MILESTONES = (1, 3 / 4, 1 / 2, 1 / 4, 1 / 100)
"""Parts of the first loss: the table has the steps at which these are reached."""
LABELS = {"ours": "with our kernels", "torch": "with PyTorch's", "formula": "with the formula"}
"""Run -> how it is named."""


@dataclass(frozen=True)
class Run:
    """A model that was trained."""

    losses: tuple[float, ...]
    """Before each step."""
    ms: float
    """Milliseconds of a step, the median."""
    peak_bytes: int
    """The most memory that tensors took at a time."""


@dataclass(frozen=True, repr=False)
class Training(Recorded):
    """The same transformer trained with several kinds of attention: in bfloat16, with a causal
    mask, the same weights to begin with and the same texts. Prints as a table."""

    source_hash: str
    """The hash of the kernels that were run; see `course.benching.source_hash`."""
    blocks: int
    heads: int
    head_dim: int
    batch: int
    length: int
    words: int
    """How many different ones there are."""
    runs: dict[str, Run]

    @property
    def outdated(self) -> bool:
        return self.recorded and has_changed("training", self.source_hash)

    def _milestones(self) -> list[int]:
        losses = next(iter(self.runs.values())).losses
        reached = (
            next((step for step, loss in enumerate(losses) if loss <= part * losses[0]), None)
            for part in MILESTONES
        )
        return sorted({step for step in reached if step is not None})

    def __str__(self) -> str:
        rows = [["", *(LABELS[name] for name in self.runs)]]
        for step in self._milestones():
            losses = (f"{run.losses[step]:.3f}" for run in self.runs.values())
            rows.append([f"loss at step {step + 1}", *losses])
        rows.append(["ms for a step", *(f"{run.ms:.1f}" for run in self.runs.values())])
        gib = (f"{run.peak_bytes / 2**30:.2f}" for run in self.runs.values())
        rows.append(["memory at the most, GiB", *gib])
        model = (
            f"A transformer of {self.blocks} blocks of {self.heads} heads of {self.head_dim} "
            f"dimensions; {self.batch} texts of {self.length:,} words."
        )
        return f"{numbers(rows, least=18)}\n{model}\n{self.source}"


def training() -> Training:
    """The recorded training of a small transformer. Raises CourseError where none is recorded."""
    return observation(Training, "training")
