"""What runs in the child: a launch, watched."""

import base64
import inspect
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
import torch

from course.compiling.arguments import make
from course.compiling.private.errors import interpreter_words
from course.compiling.private.interpreter import Access, Grid, Launch, Program, interpreter_watched
from course.compiling.private.kernels import inner_kernel
from course.compiling.private.operations import operations_counted
from course.compiling.reference import Reference, kernel_at, listing_of
from course.compiling.requests import Requests

from .accesses import name_of
from .panels import Panel
from .sites import Listing
from .steps import Recorded, Recorder
from .survey import Survey

MOST_PROGRAMS = 1024
"""Of a larger grid a sample is run."""
Json = dict[str, Any]


class Stopped(BaseException):
    """The time is over. No kernel's own `except` catches it."""


@dataclass
class Watch:
    """An observer that surveys a launch and records some of its programs."""

    survey: Survey
    record: set[Program]
    recorded: dict[Program, Recorded] = field(default_factory=dict)
    _recorder: Recorder | None = None

    def launch(self, launch: Launch) -> None:
        self.survey.launch(launch)
        self.recorded = {}

    def program(self, program: Program) -> None:
        self.stop()
        self.survey.program(program)
        if program in self.record:
            self._recorder = Recorder(program, self.survey.listing, self.survey.arguments)
            self.recorded[program] = self._recorder.recorded
            self._recorder.start()

    def access(self, access: Access) -> None:
        if self._recorder:
            self._recorder.access(access)
        self.survey.access(access)

    def stop(self, error: str = "") -> None:
        if self._recorder:
            self._recorder.stop(error)
        self._recorder = None


@dataclass(frozen=True)
class Failure:
    """Why a launch did not come to its end."""

    program: Program
    text: str
    line: int
    stopped: bool
    """By the clock, and not by an error."""

    def __str__(self) -> str:
        return self.text


def sample_of(also: set[Program]) -> Callable[[Grid], list[Program]]:
    """All programs of a grid in the order in which a GPU starts them, the first axis fastest; of a large one a sample."""

    def sample(grid: Grid) -> list[Program]:
        total = grid[0] * grid[1] * grid[2]
        numbers = range(total)
        if total > MOST_PROGRAMS:
            chosen = {round(i * (total - 1) / (MOST_PROGRAMS - 1)) for i in range(MOST_PROGRAMS)}
            inside = [each for each in also if all(i < size for i, size in zip(each, grid, strict=True))]
            numbers = sorted(chosen | {x + grid[0] * (y + grid[1] * z) for x, y, z in inside})  # type: ignore[assignment]
        return [(n % grid[0], n // grid[0] % grid[1], n // (grid[0] * grid[1])) for n in numbers]

    return sample


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise Stopped after so long, in the midst of whatever Python runs."""

    def stop(*_: Any) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def watched(watch: Watch, launching: Callable[[], Any], seconds: float) -> Failure | None:
    """Launch under watch; why it did not come to its end, if it did not."""
    try:
        # The interpreter computes with NumPy, which warns where values overflow on purpose.
        with limited(seconds), np.errstate(all="ignore"), interpreter_watched(watch, sample_of(watch.record)):
            launching()
    except Stopped as stopped:
        text = f"Program {_running(watch)} was stopped: the launch had run for {seconds:g} s."
        failure = _failure(watch, stopped, text, True)
    except Exception as error:
        while isinstance(error.__cause__, Exception):  # the interpreter raises its own from what a kernel raised
            error = error.__cause__
        if not watch.survey.programs:
            raise
        words = interpreter_words(error) or str(error).strip().split("\n")[0]
        kind = "" if hasattr(error, "problem") else f"{type(error).__name__}: "
        failure = _failure(watch, error, kind + words, False)
    else:
        watch.stop()
        return None
    watch.stop(failure.text)
    return failure


def _running(watch: Watch) -> str:
    return name_of(watch.survey.programs[-1]) if watch.survey.programs else "0"


def _failure(watch: Watch, error: BaseException, text: str, stopped: bool) -> Failure:
    program = watch.survey.programs[-1] if watch.survey.programs else (0, 0, 0)
    return Failure(program, text, _line(watch.survey.listing, error.__traceback__), stopped)


def _line(listing: Listing, found: TracebackType | None) -> int:
    """The innermost line of the kernel's own in a traceback; 0 for none."""
    line = 0
    while found is not None:
        if listing.holds(found.tb_frame.f_code):
            line = listing.statement(found.tb_frame.f_code.co_filename, found.tb_lineno)
        found = found.tb_next
    return line


def _launching(reference: Reference, args: list[Json], kwargs: dict[str, Json], grid: Grid, file: str) -> tuple[Any, Any]:
    """The kernel, and a function that launches it once, on tensors of its own."""
    kernel = inner_kernel(kernel_at(reference))
    names = set(inspect.signature(kernel.fn).parameters)

    def launch() -> None:
        kept = [_real(tensor) for tensor in torch.load(file, mmap=True, map_location="cpu", weights_only=True)]
        given = {name: make(each, True, kept) for name, each in kwargs.items() if name in names}
        kernel[grid](*(make(each, True, kept) for each in args), **given)

    return kernel, launch


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of zeros for one on the meta device; its memory is taken page by page, as it is touched."""
    if not tensor.is_meta:
        return tensor
    storage = torch.zeros(tensor.untyped_storage().nbytes() // tensor.element_size(), dtype=tensor.dtype)
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def survey(reference: Reference, args: Any, kwargs: Any, grid: Any, file: str, requests: Any, seconds: float) -> Json:
    """What `Survey.to_json` says, with "operations", the tensors' panels, and "failure" where it did not come to its end."""
    kernel, launch = _launching(reference, args, kwargs, tuple(grid), file)
    found = Survey(Listing(listing_of(kernel)), [Requests(**each) for each in requests])
    with operations_counted() as operations:
        failure = watched(Watch(found, set()), launch, seconds)
    if failure is not None and not failure.stopped:
        place = f"{kernel.fn.__name__} fails in program {name_of(failure.program)}, line {failure.line}"
        return {"problem": f"{place}: {failure} replay, with the same arguments, opens there."}
    content = found.to_json()
    content["operations"] = {name: dict(found) for name, found in vars(operations).items()}
    content["stopped"] = str(failure) if failure else ""
    for tensor, argument, noted in zip(content["tensors"], found.arguments.all, found.maps, strict=True):
        tensor["panel"] = _panel(Panel(argument.shape), noted)
        tensor["outside"] = noted.outside
    return content


def _panel(panel: Panel, noted: Any) -> Json:
    """A tensor's cells: in each the first program of the sample that read or wrote one of its elements, from 1; 0 for none."""

    def programs(found: np.ndarray) -> list[int]:
        numbers = np.flatnonzero(found)
        return [int(each) for each in panel.first(numbers, found[numbers], 0)]

    def marked(found: np.ndarray) -> list[int]:
        return [int(each) for each in np.flatnonzero(panel.touched(np.flatnonzero(found)))]

    return {
        "cells": list(panel.cells), "patch": list(panel.patch),
        "reader": programs(noted.reader), "writer": programs(noted.writer),
        "twice": marked(noted.twice), "shared": marked(noted.read_by_several), "unwritten": marked(noted.unwritten_reads),
        "counts": {"twice": int(noted.twice.sum()), "unwritten": int(noted.unwritten_reads.sum())},
    }  # fmt: skip


def packed(recorded: Recorded) -> Json:
    """A program's steps as JSON."""
    return {
        "program": list(recorded.program),
        "steps": [asdict(step) for step in recorded.steps],
        "cut": recorded.cut,
        "blob": base64.b64encode(zlib.compress(bytes(recorded.blob.content), 9)).decode(),
    }
