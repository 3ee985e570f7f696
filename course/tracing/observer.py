"""A launch under watch: surveyed, some programs recorded step by step, and ended when it takes too long."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from course.lowering.memory_requests import Requests
from course.triton_internals.errors import cannot_run, causes, interpreter_words, lacking
from course.triton_internals.interpreter import Access, Grid, Launch, Program, interpreter_watched
from course.triton_internals.operation_counts import Operations

from .accesses import name_of
from .coalescing import Survey
from .encode import numbers_of
from .sites import Listing
from .steps import Recorded, Recorder

MOST_PROGRAMS = 1024
CLUSTERS = 16
"""Of a larger grid a sample is run: so many clusters of neighbours, evenly spread, with the first program and the last."""


class Stopped(BaseException):
    """The time is over. No kernel's own `except` catches it."""


class Watch:
    """An observer that surveys every launch, and records some programs step by step.

    record: the programs to record, each with the number of its launch, from 0. operations: what is counted meanwhile.
    """

    def __init__(
        self,
        listing: Listing,
        requests: Sequence[Requests] = (),
        record: Iterable[tuple[int, Program]] = (),
        operations: Operations | None = None,
    ) -> None:
        self.listing, self.record = listing, set(record)
        self._requests, self._operations = requests, operations
        self.surveys: list[Survey] = []
        self.recorded: dict[Program, Recorded] = {}
        self._recorder: Recorder | None = None
        self._undefined: set[int] = set()
        self.undefined_matters: set[int] = set()
        """The numbers of the launches that have left masked lanes undefined and stored what is not finite."""

    @property
    def last(self) -> Survey:
        return self.surveys[-1]

    def launch(self, launch: Launch) -> None:
        self.stop()
        self.surveys.append(Survey(self.listing, self._requests, self._operations))
        self.last.launch(launch)

    def program(self, program: Program) -> None:
        self.stop()
        self.last.program(program)
        if (len(self.surveys) - 1, program) in self.record:
            self._recorder = Recorder(program, self.listing, self.last.arguments)
            self.recorded[program] = self._recorder.recorded
            self._recorder.start()

    def access(self, access: Access) -> None:
        if self._recorder:
            self._recorder.access(access)
        self._note_undefined(access)
        self.last.access(access)

    def _note_undefined(self, access: Access) -> None:
        launch = len(self.surveys) - 1
        if access.undefined and not access.active.all():
            self._undefined.add(launch)
        if launch in self._undefined - self.undefined_matters and access.values is not None:
            stored = numbers_of(access.values[access.active], access.dtype)
            if stored.dtype.kind == "f" and not np.isfinite(stored).all():
                self.undefined_matters.add(launch)

    def stop(self, error: str = "") -> None:
        if self._recorder:
            self._recorder.stop(error)
        self._recorder = None

    def sample(self, grid: Grid) -> list[Program]:
        return sample(
            grid, {program for launch, program in self.record if launch == len(self.surveys)}
        )


@dataclass(frozen=True)
class Failure:
    """Why a launch did not come to its end."""

    program: Program
    text: str
    line: int
    stopped: bool
    """At its limit of time, and not by an error."""
    lacking: bool = False
    """For want of something in the interpreter, and by no fault of the kernel."""

    def __str__(self) -> str:
        return self.text


def sample(grid: Grid, also: set[Program]) -> list[Program]:
    """All programs of a grid in the order in which a GPU starts them, the first axis fastest; of a large one a sample."""
    total = grid[0] * grid[1] * grid[2]
    numbers: Iterable[int] = range(total)
    if total > MOST_PROGRAMS:
        size = MOST_PROGRAMS // CLUSTERS
        starts = [i * (total - size) // (CLUSTERS - 1) for i in range(CLUSTERS)]
        asked = {x + grid[0] * (y + grid[1] * z) for x, y, z in also}
        numbers = sorted(asked.union(*(range(start, start + size) for start in starts)))
    return [(n % grid[0], n // grid[0] % grid[1], n // (grid[0] * grid[1])) for n in numbers]


LOOK_S = 0.2
"""Of computing, between two looks at how long a thread has computed."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise Stopped once the main thread has computed for so long, in the midst of whatever Python it runs.

    What else the machine does meanwhile does not count. Another thread is not limited, since signals do not reach it.
    """
    if math.isinf(seconds) or threading.current_thread() is not threading.main_thread():
        yield
        return
    start = time.thread_time()

    def look(*_: Any) -> None:
        if time.thread_time() - start > seconds:
            raise Stopped

    before = signal.signal(signal.SIGPROF, look)
    interval = min(LOOK_S, seconds)
    signal.setitimer(signal.ITIMER_PROF, interval, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def watched(watch: Watch, launching: Callable[[], Any], seconds: float) -> Failure | None:
    """Launch under watch; why it did not come to its end, if it did not."""
    try:
        # The interpreter computes with NumPy, which warns where values overflow on purpose.
        with limited(seconds), np.errstate(all="ignore"), interpreter_watched(watch, watch.sample):
            launching()
    except Stopped as stopped:
        text = f"Program {name_of(_running(watch))} was stopped: the launch had computed for {seconds:g} s."
        failure = Failure(_running(watch), text, _line(watch.listing, stopped.__traceback__), True)
    except Exception as error:
        what = lacking(error)
        error = causes(error)[-1]  # the interpreter raises its own from what a kernel raised
        if not watch.surveys or not watch.last.programs:
            raise  # no kernel has begun
        words = interpreter_words(error) or str(error).strip().split("\n")[0]
        kind = "" if hasattr(error, "problem") else f"{type(error).__name__}: "
        text = f"{cannot_run(what)}." if what else kind + words
        failure = Failure(
            _running(watch), text, _line(watch.listing, error.__traceback__), False, bool(what)
        )
    else:
        watch.stop()
        return None
    watch.stop(failure.text)
    return failure


def _running(watch: Watch) -> Program:
    return watch.last.programs[-1] if watch.surveys and watch.last.programs else (0, 0, 0)


def _line(listing: Listing, found: TracebackType | None) -> int:
    """The innermost line of the kernel's own in a traceback; 0 for none."""
    line = 0
    while found is not None:
        if listing.holds(found.tb_frame.f_code):
            line = listing.statement(found.tb_frame.f_code.co_filename, found.tb_lineno)
        found = found.tb_next
    return line
