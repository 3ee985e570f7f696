"""A launch under watch: it is counted, recorded step by step, and ended if it takes too long."""

from collections.abc import Callable, Iterable, Sequence
from traceback import walk_tb

import numpy as np

from course.lowering.memory_requests import Requests
from course.triton_internals.errors import cannot_run, causes, interpreter_words, lacking
from course.triton_internals.interpreted_values import numbers_of
from course.triton_internals.interpreter import Access, Grid, Launch, Program, interpreter_watched
from course.triton_internals.operation_counts import Operations
from course.triton_internals.promises import promises_held

from .bounds import refuse_promise
from .coalescing import LaunchCounter
from .kernel_text import KernelText
from .records import Failure, ProgramSteps, program_text
from .steps import Recorder
from .time_limit import Stopped, limited

MOST_SAMPLED = 1024
"""Programs of a grid that are all run; of a larger grid a sample of so many is."""
CLUSTERS = 16
"""A sample's clusters of neighbors: evenly spread, with the first program and the last."""
LEAST_TOGETHER = 16
"""Programs in a cluster at least, since neighbors share sectors."""


class Watch:
    """An observer that counts what every launch touches, and records some programs step by step.

    record: the programs to record, each with the number of its launch, from 0.
    requests, operations: as `LaunchCounter` takes them. most: programs of a launch that are all
        run; of a larger grid a sample of so many is. maps: whether to note who touched what.
    copied: whether the launch has copies of its tensors, so that an address in one leads nowhere.
    """

    def __init__(
        self,
        text: KernelText,
        requests: Sequence[Requests] = (),
        record: Iterable[tuple[int, Program]] = (),
        operations: Operations | None = None,
        most: int = MOST_SAMPLED,
        maps: bool = True,
        copied: bool = False,
    ) -> None:
        self.text, self.record, self.most = text, set(record), most
        self._maps, self._copied = maps, copied
        self._requests, self._operations = requests, operations
        self.launches: list[LaunchCounter] = []
        self.recorded: dict[Program, ProgramSteps] = {}
        self._recorder: Recorder | None = None
        self._undefined: set[int] = set()
        self.undefined_matters: set[int] = set()
        """Launches, by number, that left masked lanes undefined and stored what is not finite."""

    @property
    def last(self) -> LaunchCounter:
        return self.launches[-1]

    @property
    def running(self) -> Program:
        """The program that runs or ran last; the first one before any."""
        return self.last.programs[-1] if self.launches and self.last.programs else (0, 0, 0)

    def launch(self, launch: Launch) -> None:
        self.stop()
        counter = LaunchCounter(
            launch, self.text, self._requests, self._operations, self._maps, self._copied
        )
        self.launches.append(counter)

    def program(self, program: Program) -> None:
        self.stop()
        self.last.program(program)
        if (len(self.launches) - 1, program) in self.record:
            self._recorder = Recorder(program, self.text, self.last.arguments)
            self.recorded[program] = self._recorder.recorded
            self._recorder.start()

    def access(self, access: Access) -> None:
        if self._recorder:
            self._recorder.access(access)
        self._note_undefined(access)
        self.last.access(access)

    def _note_undefined(self, access: Access) -> None:
        launch = len(self.launches) - 1
        if access.undefined and not access.active.all():
            self._undefined.add(launch)
        if launch in self._undefined - self.undefined_matters and access.values is not None:
            stored = numbers_of(access.values[access.active], access.dtype)
            if stored.dtype.kind == "f" and not np.isfinite(stored).all():
                self.undefined_matters.add(launch)

    def stop(self, error: str = "") -> None:
        """The running program has ended, by an error or not."""
        if self._recorder:
            self._recorder.stop(error)
        self._recorder = None

    def sample(self, grid: Grid) -> list[Program]:
        """The programs of the next launch to run."""
        number = len(self.launches)
        also = {program for launch, program in self.record if launch == number}
        return sample(grid, also, self.most)


def sample(grid: Grid, also: set[Program], most: int = MOST_SAMPLED) -> list[Program]:
    """The programs of a grid in the order in which a GPU starts them, the first axis fastest.

    Of a large grid, a sample and the programs in `also`.
    """
    x, y, z = grid
    total = x * y * z
    numbers: Iterable[int] = range(total)
    if total > most:
        clusters = min(CLUSTERS, most // LEAST_TOGETHER)
        size = most // clusters
        starts = [i * (total - size) // (clusters - 1) for i in range(clusters)]
        chosen = {i + x * (j + y * k) for i, j, k in also}
        numbers = sorted(chosen.union(*(range(start, start + size) for start in starts)))
    return [(n % x, n // x % y, n // (x * y)) for n in numbers]


def watched(watch: Watch, launch: Callable[[], object], seconds: float) -> Failure | None:
    """Launch under watch; why it did not come to its end, if it did not.

    Raises what is raised before a kernel has begun.
    """
    try:
        # The interpreter computes with NumPy, which warns where values overflow on purpose.
        with (
            limited(seconds),
            np.errstate(all="ignore"),
            interpreter_watched(watch, watch.sample),
            promises_held(refuse_promise),
        ):
            launch()
    except Stopped as stopped:
        limit = f"was stopped: the launch had computed for {seconds:g} s."
        text = f"Program {program_text(watch.running)} {limit}"
        line = _line(watch.text, stopped)
        failure = Failure(watch.running, text, line, stopped=True)
    except Exception as error:
        lack = lacking(error)
        chain = causes(error)  # the interpreter raises its own from what a kernel raised
        error = chain[-1]
        if not watch.launches or not watch.last.programs:
            raise
        words = interpreter_words(error) or str(error).strip().split("\n")[0]
        kind = "" if hasattr(error, "problem") else f"{type(error).__name__}: "
        text = f"{cannot_run(lack)}." if lack else kind + words
        # One of Triton's own helpers raises in no line of the kernel: then the call of it counts.
        lines = (_line(watch.text, each) for each in reversed(chain))
        line = next(filter(None, lines), 0)
        failure = Failure(watch.running, text, line, lacking=bool(lack))
    else:
        watch.stop()
        return None
    watch.stop(failure.text)
    return failure


def _line(text: KernelText, error: BaseException) -> int:
    """The innermost line of the kernel's own that an exception came through; 0 if there is none."""
    line = 0
    for frame, number in walk_tb(error.__traceback__):
        if text.holds(frame.f_code):
            line = text.statement(frame.f_code.co_filename, number)
    return line
