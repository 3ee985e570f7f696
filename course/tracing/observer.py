"""A launch under watch: it is counted, recorded step by step, and ended if it takes too long."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from traceback import walk_tb

import numpy as np

from course.lowering.memory_requests import Requests
from course.triton_internals.error_meanings import meaning
from course.triton_internals.errors import cannot_run, causes, lacking
from course.triton_internals.interpreter import Access, Grid, Launch, Program, interpreter_watched
from course.triton_internals.operation_counts import Effort, Operations, effort_counted
from course.triton_internals.promises import promises_held

from .bounds import false_promise, refuse_promise
from .coalescing import LaunchCounter
from .kernel_text import KernelText
from .records import Failure, ProgramSteps, program_text
from .sample import Plan
from .steps import Recorder
from .time_limit import Stopped, limited

MUCH_LONGER = 1.5
"""A launch is stopped at so many times the operations after which no further program starts."""


class Enough(BaseException):
    """As many programs have been followed as the limit allows."""


@dataclass(eq=False)
class Watch:
    """An observer that counts what every launch touches, and records some programs step by step."""

    text: KernelText
    requests: Sequence[Requests] = ()
    operations: Operations | None = None
    """Both as `LaunchCounter` takes them."""
    record: Collection[tuple[int, Program]] = ()
    """The programs to record, each with the number of its launch, from 0."""
    plan: Plan = field(default_factory=Plan)
    """How much of each launch is followed."""
    maps: bool = True
    """Whether to note who touched what."""
    copied: bool = False
    """Whether the launch has copies of its tensors, so that an address in one leads nowhere."""
    strict: bool = False
    """Whether a promise to the compiler that does not hold stops a launch also where no access goes
    elsewhere by it."""
    effort: Effort = field(default_factory=Effort)
    launches: list[LaunchCounter] = field(default_factory=list)
    recorded: dict[Program, ProgramSteps] = field(default_factory=dict)
    undefined: bool = False
    """Whether a load has left masked lanes without a value."""
    _recorder: Recorder | None = None

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
            launch, self.text, self.requests, self.operations, self.maps, self.copied
        )
        self.launches.append(counter)

    def program(self, program: Program) -> None:
        self.stop()
        if self.plan.fair and self.effort.operations > self.plan.operations:
            raise Enough
        self.last.program(program)
        if (len(self.launches) - 1, program) in self.record:
            self._recorder = Recorder(program, self.text, self.last.arguments)
            self.recorded[program] = self._recorder.recorded
            self._recorder.start()

    def access(self, access: Access) -> None:
        if self._recorder:
            self._recorder.access(access)
        self.undefined |= access.undefined and not access.active.all()
        self.last.access(access)

    def doubt(self, program: Program, promise: str) -> None:
        """A program promises the compiler what does not hold."""
        if self.strict:
            refuse_promise(program, promise)
        self.last.doubted = self.last.doubted or false_promise(program, promise)

    def stop(self, error: str = "") -> None:
        """The running program has ended, by an error or not."""
        if self._recorder:
            self._recorder.stop(error)
        self._recorder = None

    def sample(self, grid: Grid) -> list[Program]:
        """The programs of the next launch to run."""
        number = len(self.launches)
        return self.plan.programs(grid, {each for launch, each in self.record if launch == number})


def watched(
    watch: Watch, launch: Callable[[], object], seconds: float, undefined_as_zero: bool = False
) -> Failure | None:
    """Launch under watch, as the watch plans it; why it did not come so far, if it did not.

    undefined_as_zero: put 0 in lanes that the language leaves undefined, and not extremes.

    Raises what is raised before a kernel has begun.
    """
    most = MUCH_LONGER * watch.plan.operations

    def stop() -> None:
        raise Stopped(f"the launch had taken {most:,.0f} operations of the interpreter")

    try:
        # The interpreter computes with NumPy, which warns where values overflow on purpose.
        with (
            limited(seconds),
            np.errstate(all="ignore"),
            effort_counted(most, stop) as watch.effort,
            interpreter_watched(watch, watch.sample, undefined_as_zero),
            promises_held(refuse_promise, watch.doubt),
        ):
            launch()
    except Enough:
        watch.stop()
        return None
    except Stopped as stopped:
        why = str(stopped) or f"the launch had computed for {seconds:g} s"
        text = f"Program {program_text(watch.running)} was stopped: {why}."
        line = _line(watch.text, stopped)
        failure = Failure(watch.running, text, line, stopped=True)
    except Exception as error:
        lack, meant = lacking(error), meaning(error)
        chain = causes(error)  # the interpreter raises its own from what a kernel raised
        error = chain[-1]
        if not watch.launches or not watch.last.programs:
            raise
        words = meant or str(error).strip().split("\n")[0]
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
