"""A launch both compiled and run in the interpreter, so that what it touches is counted as the compiled kernel touches it."""

from dataclasses import asdict, dataclass
from typing import Any

from course.errors import CourseError
from course.lowering.api import Lowered, LowerError, Request, lower_again
from course.lowering.memory_requests import requests_of
from course.lowering.occupancy import Resources

from . import worker as tasks
from .launching import TRACE_S, Asked, asked, run


@dataclass(frozen=True)
class Traced:
    """What was found."""

    launch: Asked
    content: dict[str, Any]
    """See `tasks.survey`."""
    resources: Resources | None
    """None where it does not compile."""
    texts: dict[tuple[str, int], str]
    """The kernel's lines, by file and number."""
    notes: list[str]


def traced(
    asker: str, kernel: Any, grid: Any, args: Any, kwargs: dict[str, Any], target: str | None
) -> Traced:
    """Trace a launch, compiled for a target as `lower` takes it. Raises CourseError where it is none, or fails.

    asker: the function that was called, for its messages.
    """
    launch = asked(asker, kernel, grid, args, kwargs)
    request = Request.of(launch.reference, launch.args, launch.kwargs)
    requests: list[dict[str, Any]] = []
    lowered: Lowered | None = None
    resources, texts, notes = None, {}, []
    try:
        lowered = lower_again(request, target)
        if (clusters := lowered.metadata["options"].get("num_ctas", 1)) > 1:
            raise CourseError(
                f"{asker} follows programs that run by themselves, and num_ctas={clusters} joins them: leave it out."
            )
        requests, resources = [asdict(each) for each in requests_of(lowered)], lowered.resources
        texts = {line.frame: line.text.strip() for line in lowered.lines.source}
    except LowerError as error:
        notes.append(
            str(error) if "does not compile" in str(error) else f"It does not compile: {error}"
        )
    content = run(tasks.survey, launch, requests, TRACE_S)
    if "lacking" in content:
        raise CourseError("\n".join([_beyond(asker, launch, content), *_compiled(lowered)]))
    if content["stopped"]:
        counted = (
            "The programs that had ended by then were counted."
            if content["programs"]
            else "No program had ended by then."
        )
        notes.append(f"{content['stopped']} {counted}")
    if any(each["guessed"] for each in content["accesses"]):
        notes.append(
            "Where no compiled access was found, sectors are counted for 32 neighbouring lanes at a time."
        )
    return Traced(launch, content, resources, texts, notes)


def _beyond(asker: str, launch: Asked, content: dict[str, Any]) -> str:
    """That the interpreter cannot run a launch to its end, by no fault of the kernel."""
    return (
        f"{content['lacking']}: {asker} cannot follow {launch.name} beyond line {content['line']}."
    )


def _compiled(lowered: Lowered | None) -> list[str]:
    """What is known of a kernel all the same."""
    if lowered is None:
        return []
    return [
        f"Compiled for {lowered.target.name}:",
        *(f"    {line}" for line in str(lowered.resources).split("\n")),
    ]
