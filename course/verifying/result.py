"""What `verify` returns: the outcome of every case, and the work that a function did."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from course.tracing.bounds import Problem
from course.tracing.races import Activity

CaseVerdict = Literal["right", "wrong", "left to the GPU"]


@dataclass(frozen=True)
class WorkDone:
    """What a function did on one case, counted in the interpreter."""

    kernels: Activity
    torch_operations: tuple[str, ...]
    """PyTorch operations that compute, by their names: not allocations, fills, views and copies."""
    torch_copies: int
    result_stored: bool
    """Whether a kernel stored to the tensor that was returned."""
    others_stored: int
    """The other tensors that kernels stored to; views of one count once."""


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one case."""

    case: str
    dtype: str
    verdict: CaseVerdict
    reason: str = ""
    """Why it is wrong, with the first wrong index, or why it was not run."""
    problem: Problem | None = None
    """Where it is wrong."""
    note: str = ""
    """What is off though it is right, and why: rounding alone takes it as far."""
    work: WorkDone | None = None
    """What it did, where the interpreter was watched and it is not wrong."""
    error: float = 0.0
    """The largest error as a fraction of what is allowed: at most 1 where it is right."""
    lacking: str = ""
    """What the interpreter lacks to run it, where that is why it is left to the GPU."""
    again: Callable[[], Problem | None] | None = field(default=None, repr=False)
    """Where it is right, and another run may tell otherwise: what that finds to be wrong."""
    keeps_memory: bool = False
    """Whether a launch was given memory that is no input and was not allocated in this call."""


@dataclass(frozen=True)
class Verified:
    """The outcome of every case. Prints as a small table, or as the first failure."""

    function: str
    outcomes: tuple[CaseOutcome, ...]
    advice: tuple[str, ...] = ()
    """Where it is wrong, what to look at in the text of its kernels."""
    sanitizers: tuple[str, ...] = ()
    """What Triton's sanitizers say, a sentence of each that was asked."""

    @property
    def right(self) -> bool:
        """No case is wrong, and at least one was run."""
        verdicts = {outcome.verdict for outcome in self.outcomes}
        return "right" in verdicts and "wrong" not in verdicts

    @property
    def wrong(self) -> list[CaseOutcome]:
        return [outcome for outcome in self.outcomes if outcome.verdict == "wrong"]

    def __str__(self) -> str:
        ran = [outcome for outcome in self.outcomes if outcome.verdict != "left to the GPU"]
        if not ran:
            lines = [f"{self.function}: no case was run."]
        elif not self.wrong:
            lines = [f"{self.function}: right in all {len(ran)} cases.", *_error_table(ran)]
            lines += self._notes()
        else:
            first = self.wrong[0]
            lines = [
                f"{self.function}: wrong in {len(self.wrong)} of {len(ran)} cases.",
                f"First wrong case: {first.case}.",
                *(f"    {line}" for line in (*first.reason.splitlines(), *self.advice)),
            ]
        return "\n".join([*lines, *self.sanitizers, *self.left()])

    __repr__ = __str__

    def _notes(self) -> list[str]:
        """The first note, and how many others there are."""
        noted = [outcome for outcome in self.outcomes if outcome.note]
        if not noted:
            return []
        others = f" So it is in {len(noted) - 1} more." if len(noted) > 1 else ""
        return [f"In the case {noted[0].case}, {noted[0].note}{others}"]

    def left(self) -> list[str]:
        """The cases left to the GPU, a line for each reason."""
        cases: dict[str, list[str]] = {}
        for outcome in self.outcomes:
            if outcome.verdict == "left to the GPU":
                cases.setdefault(outcome.reason, []).append(outcome.case)
        return [
            f"Left to the GPU, since {reason}: {one if not others else f'{len(others) + 1} cases'}."
            for reason, (one, *others) in cases.items()
        ]


def _error_table(outcomes: Sequence[CaseOutcome]) -> list[str]:
    lines = ["    dtype       cases   largest error, of what is allowed"]
    for dtype in dict.fromkeys(outcome.dtype for outcome in outcomes):
        errors = [outcome.error for outcome in outcomes if outcome.dtype == dtype]
        lines.append(f"    {dtype:10}  {len(errors):5}   {max(errors):4.0%}")
    return lines
