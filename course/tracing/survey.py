"""A launch compiled and interpreted: what it touches is counted as the compiled kernel does it."""

import re
from dataclasses import dataclass, replace
from typing import Any

from course.errors import CourseError
from course.lowering.api import Lowered, LowerError, Request, lower_again
from course.lowering.memory_requests import Requests, requests_of
from course.lowering.occupancy import Resources
from course.type_names import AnyValues, Kernel

from . import worker
from .launch import TRACE_S, LaunchRequest, packed, refuse_clusters, requested, value_of
from .program_sizes import program_sizes
from .records import LaunchCounts
from .sample import Plan


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
    caller: str,
    kernel: Kernel,
    grid: Any,
    args: Any,
    kwargs: AnyValues,
    target: str | None,
    maps: bool = False,
) -> Survey:
    """Survey a launch, compiled for a target as `lower` takes it.

    caller: the function that was called, for messages. maps: whether to note which program touched
        which element; then programs come in the order of the grid.

    Raises CourseError if the arguments are no launch, the kernel fails, or it uses what the
    interpreter cannot run.
    """
    launch = requested(caller, kernel, grid, args, kwargs)
    lowered: Lowered | None = None
    resources: Resources | None = None
    requests: list[Requests] = []
    texts, notes = {}, []
    try:
        again = Request.of(launch.reference, launch.args, launch.kwargs)
        lowered = lower_again(again, target)
        refuse_clusters(caller, lowered.metadata["options"].get("num_ctas", 1))
        requests, resources = requests_of(lowered), lowered.resources
        texts = {line.frame: line.text.strip() for line in lowered.lines.source}
    except LowerError as error:
        known = error.kind == "refused"  # then its sentence says so
        notes.append(str(error) if known else f"It does not compile: {error}")
    plan = Plan() if maps or lowered is None else planned(Plan(), launch, lowered)
    with packed(launch) as packed_launch:
        ended = worker.survey.ended(packed_launch, requests, plan, TRACE_S, maps)
    if isinstance(ended.error, worker.LackingError):
        reason, line = ended.error.args
        beyond = f"{reason}: {caller} cannot follow {launch.name} beyond line {line}."
        raise CourseError("\n".join([beyond, *_resources(lowered)]))
    counts = value_of(ended)
    if counts.stopped:
        counted = "The programs that had ended by then were counted."
        none_ended = "No program had ended by then."
        notes.append(f"{counts.stopped} {counted if counts.programs else none_ended}")
    notes += notes_of(counts, plan)
    if guessed := sorted({each.line for each in counts.accesses if each.guessed and lowered}):
        where = f"line{'s' * (len(guessed) > 1)} {', '.join(map(str, guessed))}"
        notes.append(
            f"No compiled access was found of {where}: the compiler may have left it out. Here it "
            "counts, with 32 neighboring lanes at a time."
        )
    return Survey(launch, counts, resources, texts, notes)


def planned(plan: Plan, launch: LaunchRequest, lowered: Lowered) -> Plan:
    """A plan for a launch, by how often its programs run their loops, as far as that is known.

    Programs that wait for others, in a loop around an atomic or a volatile load, are left in their
    order: out of it they would wait for ever.
    """
    waits = "scf.while" in lowered.ttir and re.search(r"tt.atomic|isVolatile = true", lowered.ttir)
    return replace(plan, fair=not waits).with_sizes(program_sizes(launch, lowered))


def notes_of(counts: LaunchCounts, plan: Plan) -> list[str]:
    """What is to be said of a promise that does not hold, and where some of a launch's programs
    were followed, and differ."""
    notes = []
    if counts.false_promise:
        notes.append(f"{counts.false_promise} No access that was followed goes elsewhere by it.")
    if not 0 < counts.programs < counts.all_programs:
        return notes
    widest = max(counts.accesses, key=lambda each: each.most - each.fewest, default=None)
    if widest and widest.fewest < widest.most:
        notes.append(
            f"Line {widest.line} ran {widest.fewest:,} to {widest.most:,} times in the "
            f"{counts.programs:,} programs followed."
        )
    if (sizes := plan.sizes) is not None and sizes.min() < sizes.max():
        notes.append(
            f"How often loops run was computed for all {counts.all_programs:,} programs, "
            f"{sizes.min():,} to {sizes.max():,} times: each program followed stands for those "
            "that run them as often."
        )
    return notes


def _resources(lowered: Lowered | None) -> list[str]:
    """What is known of a kernel that could not be run."""
    if lowered is None:
        return []
    lines = str(lowered.resources).split("\n")
    return [f"Compiled for {lowered.target.name}:", *(f"    {line}" for line in lines)]
