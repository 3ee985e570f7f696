"""What runs in the child: a launch, surveyed or recorded, as JSON."""

import base64
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np

from course.lowering.arguments import Described
from course.lowering.kernel_reference import Reference
from course.lowering.memory_requests import Requests
from course.triton_internals.interpreter import Program
from course.triton_internals.operation_counts import operations_counted

from .accesses import name_of
from .coalescing import Survey
from .copies import launching
from .downsample import Panel, packed
from .observer import Failure, Watch, watched
from .steps import Recorded

Json = dict[str, Any]

UNDEFINED = (
    "Masked lanes that are loaded without `other` are undefined: here they hold infinities, or the largest and smallest "
    "integers, and a GPU may put anything there."
)


def survey(
    reference: Reference,
    args: list[Described],
    kwargs: dict[str, Described],
    grid: Any,
    file: str,
    requests: Any,
    seconds: float,
) -> Json:
    """What `Survey.to_json` says, with "operations", the tensors' panels, and "stopped" where it did not come to its end.

    Where the kernel fails it is a "problem" alone; and "lacking", with "line", where it is the interpreter that cannot run it.
    """
    launch, listing = launching(reference, args, kwargs, tuple(grid), file)
    with operations_counted() as operations:
        watch = Watch(listing, [_requests(each) for each in requests], operations=operations)
        failure = watched(watch, launch, seconds)
    if not watch.surveys:
        return {"problem": _nothing_ran(seconds)}
    if failure is not None and failure.lacking:
        return {"lacking": failure.text.rstrip("."), "line": failure.line}
    if failure is not None and not failure.stopped:
        place = f"{listing.functions[0].name} fails in program {name_of(failure.program)}, line {failure.line}"
        return {
            "problem": f"{place}: {failure.text.rstrip('.')}. replay, with the same arguments, opens there."
        }
    if failure is not None:
        watch.last.forget_unfinished()
    content = watch.last.to_json()
    content["operations"] = {name: dict(found) for name, found in vars(operations).items()}
    content["stopped"] = str(failure) if failure else ""
    content["programs"] -= bool(failure)  # the last one has not come to its end
    content["tensors"] = _tensors(watch.last)
    return content


def _requests(content: Json) -> Requests:
    """From JSON, which has lists for tuples."""
    return Requests(**content | {"path": tuple(tuple(call) for call in content["path"])})


def _tensors(survey: Survey) -> list[Json]:
    return [
        {
            "name": argument.name, "dtype": argument.dtype, "shape": list(argument.shape),
            "bytes": argument.elements * argument.itemsize, "outside": noted.outside, **_panel(Panel(argument.shape), noted),
        }
        for argument, noted in zip(survey.arguments.all, survey.maps, strict=True)
    ]  # fmt: skip


def _panel(panel: Panel, noted: Any) -> Json:
    """A tensor's cells, packed: in each the program that read or wrote its first such element, from 1; 0 for none."""

    def programs(found: np.ndarray) -> str:
        numbers = np.flatnonzero(found)
        return packed(panel.first(numbers, found[numbers], 0))

    def marked(numbers: np.ndarray) -> str:
        return packed(np.flatnonzero(panel.touched(numbers)))

    twice, unwritten = np.flatnonzero(noted.twice), noted.unwritten_reads
    return {
        "cells": list(panel.cells), "patch": list(panel.patch),
        "reader": programs(noted.reader), "writer": programs(noted.writer),
        "twice": marked(twice), "shared": marked(np.flatnonzero(noted.read_by_several)), "unwritten": marked(unwritten),
        "counts": {"twice": twice.size, "unwritten": unwritten.size},
    }  # fmt: skip


def replay(
    reference: Reference,
    args: list[Described],
    kwargs: dict[str, Described],
    grid: Any,
    file: str,
    programs: Any,
    element: Any,
    seconds: float,
) -> Json:
    """See `content_of`. programs: those to record; element: a tensor's name and an index, whose last writer is to be shown."""
    launch, listing = launching(reference, args, kwargs, tuple(grid), file)
    wanted = {tuple(program) for program in programs}
    for _ in range(2):  # once more where the program to be shown turns out to be another one
        watch = Watch(listing, record={(0, program) for program in wanted})
        failure = watched(watch, launch, seconds)
        if not watch.surveys:
            return {"problem": _nothing_ran(seconds)}
        try:
            opened = opened_at(watch.last, failure, element)
        except LookupError as error:
            return {"problem": str(error)}
        if opened is None or opened in watch.recorded:
            break
        wanted.add(opened)
    return content_of(watch, 0, failure, opened, element)


def _nothing_ran(seconds: float) -> str:
    return f"The launch was stopped after {seconds:g} s, before a program ran: this machine may be busy, so try again."


def opened_at(survey: Survey, failure: Failure | None, element: Any) -> Program | None:
    """The program to be shown first: the one that failed, or the last writer of an element. LookupError where there is none."""
    if failure is not None:
        return failure.program
    if element is None:
        return None
    name, index = element
    found = [i for i, argument in enumerate(survey.arguments.all) if argument.name == name]
    if not found:
        raise LookupError(
            f"No tensor is called {name!r}: there is {', '.join(each.name for each in survey.arguments.all)}."
        )
    argument = survey.arguments.all[found[0]]
    if len(index) != len(argument.shape) or not all(
        0 <= i < n for i, n in zip(index, argument.shape, strict=True)
    ):
        raise LookupError(
            f"There is no element {tuple(index)} in {name}, whose shape is {argument.shape}."
        )
    number = int(np.ravel_multi_index(tuple(index), argument.shape)) if index else 0
    offset = (
        sum(i * stride for i, stride in zip(index, argument.strides, strict=True))
        * argument.itemsize
    )
    written = survey.last_writer(argument.address + offset)  # by this name or another
    if written is None:
        raise LookupError(f"No program that was run writes {argument.place(number)}.")
    return written[2]


def content_of(
    watch: Watch, launch: int, failure: Failure | None, opened: Program | None, element: Any
) -> Json:
    """What a replay shows of one launch: source, tensors, the recorded programs, where to open and why it failed."""
    survey = watch.surveys[launch]
    assert survey.launched is not None
    return {
        "kernel": survey.launched.kernel,
        "grid": list(survey.launched.grid),
        "ran": [list(program) for program in survey.programs],
        "source": watch.listing.functions,
        "loops": [list(loop) for loop in watch.listing.loops],
        "tensors": _tensors(survey),
        "recorded": [steps_of(recorded) for recorded in watch.recorded.values()],
        "opened": list(opened) if opened else None,
        "element": element,
        "failure": asdict(failure) if failure else None,
        "notes": [UNDEFINED] if launch in watch.undefined_matters else [],
    }


def steps_of(recorded: Recorded) -> Json:
    """A program's steps as JSON."""
    return {
        "program": list(recorded.program),
        "steps": [vars(step) for step in recorded.steps],
        "cut": recorded.cut,
        "blob": base64.b64encode(zlib.compress(bytes(recorded.blob.content), 9)).decode(),
    }
