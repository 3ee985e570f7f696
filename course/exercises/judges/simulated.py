"""What `simulate` says against an answer in Gluon, which is followed and launched nowhere."""

from dataclasses import replace
from typing import Any

from course.exercises.kinds import GluonExercise
from course.exercises.result import Judged, Verdict
from course.simulating.api import simulate
from course.simulating.faults import DeadlockError, HazardError, SimulationError, UnsupportedError
from course.type_names import Function, Kernel

from .slips import judged_wrong
from .worker import verified

NAMES: dict[str, str] = {
    "wrong phase": "A wait for the wrong phase",
    "no expect": "A missing mbarrier.expect",
    "bytes": "An mbarrier.expect of more bytes than come",
    "arrivals": "A missing mbarrier.arrive, a wait for the wrong phase, a barrier with a wrong "
    "count, or one arrival too many",
    "too many arrivals": "One arrival too many, or one wait too few",
    "early read": "A read that comes too early",
    "early refill": "A refill that comes too early",
    "no fence": "A missing fence",
    "no product wait": "A missing wait for a product",
    "no last wait": "A missing wait at the end",
}
"""`simulate`'s kind of fault -> what it is called here."""

VERDICTS: tuple[tuple[type[SimulationError], Verdict], ...] = (
    (DeadlockError, "deadlock"),
    (HazardError, "hazard"),
    (UnsupportedError, "left to the GPU"),
    (SimulationError, "wrong"),
)


def simulated(exercise: GluonExercise, answer: Function) -> Judged:
    """The verdict of an answer in Gluon on the exercise's cases, up to the first wrong one."""
    judged = _followed(exercise, answer)
    if judged.verdict == "right" and exercise.proof:
        proved = _followed(replace(exercise, launch=exercise.proof), answer)
        return judged if proved.verdict == "right" else proved
    return judged


def _followed(exercise: GluonExercise, answer: Function) -> Judged:
    stopped: list[SimulationError] = []

    def run(kernel: Kernel, grid: tuple[int], *args: Any, **options: Any) -> None:
        try:
            simulate(kernel, grid, *args, **options)
        except SimulationError as error:
            stopped.append(error)
            raise

    function = exercise.function(answer, run)
    outcomes = verified(exercise, function, exercise.cases)
    for error in stopped:
        return _judged(error, outcomes[-1].case)
    if outcomes[-1].verdict == "wrong":
        number = len(outcomes) - 1
        judged = judged_wrong(exercise, function, exercise.cases, number, outcomes[-1])
        return judged._replace(verdict="wrong")
    return Judged("right", f"Correct in all {len(outcomes)} cases, followed by simulate")


def _judged(error: SimulationError, case: str) -> Judged:
    (verdict,) = [verdict for kind, verdict in VERDICTS if isinstance(error, kind)][:1]
    text = str(error)
    if verdict == "left to the GPU":
        return Judged(verdict, f"{text}\nWrite it with what the lesson uses, and check it again.")
    name = NAMES.get(error.kind, "")
    lines = filter(None, [name and f"{name}.", text, f"The case: {case}."])
    return Judged(verdict, "\n".join(lines), error.kind)
