"""A launch compiled and interpreted: what it touches is counted as the compiled kernel does it."""

from dataclasses import dataclass
from typing import Any

from course.errors import CourseError
from course.lowering.api import Lowered, LowerError, Request, lower_again
from course.lowering.memory_requests import Requests, requests_of
from course.lowering.occupancy import Resources
from course.type_names import AnyValues, Kernel

from . import worker
from .launch import TRACE_S, LaunchRequest, packed, requested, value_of
from .records import LaunchCounts


@dataclass(frozen=True)
class Survey:
    """What a launch touches and computes."""

    launch: LaunchRequest
    counts: LaunchCounts
    resources: Resources | None
    """None if the kernel does not compile."""
    texts: dict[tuple[str, int], str]
    """The kernel's lines, by file and number."""
    notes: list[str]


def survey(
    caller: str, kernel: Kernel, grid: Any, args: Any, kwargs: AnyValues, target: str | None
) -> Survey:
    """Survey a launch, compiled for a target as `lower` takes it.

    caller: the function that was called, for messages. Raises CourseError if the launch is none,
    fails, or has something that the interpreter lacks.
    """
    launch = requested(caller, kernel, grid, args, kwargs)
    lowered: Lowered | None = None
    resources: Resources | None = None
    requests: list[Requests] = []
    texts, notes = {}, []
    try:
        again = Request.of(launch.reference, launch.args, launch.kwargs)
        lowered = lower_again(again, target)
        if (clusters := lowered.metadata["options"].get("num_ctas", 1)) > 1:
            raise CourseError(
                f"{caller} follows programs that run by themselves, and num_ctas={clusters} joins "
                "them: leave it out."
            )
        requests, resources = requests_of(lowered), lowered.resources
        texts = {line.frame: line.text.strip() for line in lowered.lines.source}
    except LowerError as error:
        known = error.kind == "refused"  # then its sentence says so
        notes.append(str(error) if known else f"It does not compile: {error}")
    with packed(launch) as packed_launch:
        ended = worker.survey.ended(packed_launch, requests, TRACE_S)
    if isinstance(ended.error, worker.LackingError):
        reason, line = ended.error.args
        beyond = f"{reason}: {caller} cannot follow {launch.name} beyond line {line}."
        raise CourseError("\n".join([beyond, *_resources(lowered)]))
    counts = value_of(ended)
    if counts.stopped:
        counted = "The programs that had ended by then were counted."
        none_ended = "No program had ended by then."
        notes.append(f"{counts.stopped} {counted if counts.programs else none_ended}")
    if any(access.guessed for access in counts.accesses):
        notes.append(
            "Where no compiled access was found, sectors are counted for 32 neighboring lanes at "
            "a time."
        )
    return Survey(launch, counts, resources, texts, notes)


def _resources(lowered: Lowered | None) -> list[str]:
    """What is known of a kernel that could not be run."""
    if lowered is None:
        return []
    lines = str(lowered.resources).split("\n")
    return [f"Compiled for {lowered.target.name}:", *(f"    {line}" for line in lines)]
