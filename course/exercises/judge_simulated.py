"""What `simulate` says against an answer in Gluon, which is followed and launched nowhere."""

import math
from typing import Any

from course.simulating.api import simulate
from course.simulating.problems import DeadlockError, HazardError, SimulationError, UnsupportedError
from course.verifying.api import verify

from .kinds import Answer, GluonKernel
from .name_slip import slip_of
from .result import Judged, Verdict

NAMES = (
    ("gone on to another phase", "A wait for the wrong phase"),
    ("an mbarrier.expect for", "A missing mbarrier.expect"),
    (" bytes", "An mbarrier.expect of more bytes than come"),
    ("initialized for", "One arrival too many, or one wait too few"),
    ("arrivals", "A missing arrive, a wait for the wrong phase, or a barrier with a wrong count"),
    ("before anything was written to it", "An early read"),
    ("is read while it is still copied into", "An early read"),
    ("is multiplied while it is still copied into", "An early read"),
    ("is copied into while it is still", "An early refill"),
    ("no fence_async_shared in between", "A missing fence"),
    ("before warpgroup_mma_wait", "A missing wait for a product"),
    ("when the program ends", "A missing wait at the end"),
)
"""What a mistake is called, by what `simulate` says of it; the first that fits."""

VERDICTS: tuple[tuple[type[SimulationError], Verdict], ...] = (
    (DeadlockError, "deadlock"),
    (HazardError, "hazard"),
    (UnsupportedError, "left to the GPU"),
    (SimulationError, "wrong"),
)


def simulated(exercise: GluonKernel, answer: Answer) -> Judged:
    """The verdict of an answer in Gluon on the exercise's cases, up to the first wrong one."""
    stopped: list[SimulationError] = []

    def run(kernel: Answer, grid: tuple[int], *args: Any, **options: Any) -> None:
        try:
            simulate(kernel, grid, *args, **options)
        except SimulationError as error:
            stopped.append(error)
            raise

    function = exercise.run_by(run, answer)
    verified = verify(
        function,
        exercise.reference,
        exercise.cases,
        absolute=exercise.absolute,
        first_wrong_only=True,
        case_s=math.inf,  # the child has its limit
    )
    for error in stopped:
        return _judged(error, verified.outcomes[-1].case)
    for outcome in verified.wrong:
        wrong = len(verified.outcomes) - 1
        slip = slip_of(exercise, function, exercise.cases, wrong)
        lines = [outcome.reason, slip, f"The case: {outcome.case}."]
        return Judged("wrong", "\n".join(filter(None, lines)))
    return Judged("right", f"Correct in all {len(verified.outcomes)} cases, followed by simulate")


def _judged(error: SimulationError, case: str) -> Judged:
    (verdict,) = [verdict for kind, verdict in VERDICTS if isinstance(error, kind)][:1]
    text = str(error)
    if verdict == "left to the GPU":
        return Judged(verdict, f"{text}\nWrite it with what the lesson uses, and check it again.")
    name = next((name for words, name in NAMES if words in text), "")
    return Judged(
        verdict, "\n".join(filter(None, [name and f"{name}.", text, f"The case: {case}."]))
    )
