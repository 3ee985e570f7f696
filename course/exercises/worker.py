"""Try an answer, in a child process: compile it, and run it on the exercise's cases."""

import contextlib
import functools
import importlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from course import MODE
from course.gpus.limits import target_of
from course.isolate import runs_in
from course.isolate.function_source import Source
from course.triton_internals.compiler import known_by_its_files, launches_compiled, prepare_compiler
from course.triton_internals.errors import cannot_run
from course.verifying.api import verify
from course.verifying.inputs import Case
from course.verifying.one_case import first_line
from course.verifying.result import Outcome, Verified

from .judge_work import done_by_torch, work_problem
from .kinds import Code, Function, GluonKernel, Launcher
from .name_slip import problem_kind, slip_of
from .registry import code_exercise
from .result import Judged, wrong

TARGET = "sm_90"
"""What an answer is compiled for."""
TARGET_IN_WORDS = f"an H100 ({TARGET})"
UNTIMED = (
    "Nothing was timed here: in place of the tuner's trials, check ran the kernel once "
    "with each configuration, on the tensors as the run before left them."
)


@dataclass(frozen=True)
class Where:
    """Where an answer goes wrong in the interpreter."""

    case: int
    """The number of the exercise's case."""
    program: tuple[int, int, int] | None
    """The program that did it, if one is known."""
    launch: int
    """The number of the launch that the program is of."""
    index: tuple[int, ...] | None
    """The first wrong element of the result."""
    reach: int | None = None
    """What `exercise.longer` was given to make a third case; None if there was no such case."""


@dataclass(frozen=True)
class Compilation:
    """What compiling an answer shows."""

    judged: Judged
    untold: str = ""
    """Why it could not be told whether all of it compiles; empty if it could."""


@dataclass(frozen=True)
class Trial:
    """What running an answer shows."""

    judged: Judged
    notes: list[str] = field(default_factory=list)
    """Sentences beside the verdict: what could not be told, or what it printed."""
    raised: bool = False
    """Whether it is wrong because it raised an exception."""
    where: Where | None = None
    """Where it goes wrong, if that can be stepped through."""
    launches: bytes = b""
    """What it launched in the interpreter, where nothing speaks against it: packed, since only
    children make use of it."""


def _prepare() -> None:
    """Load what each trial would otherwise load anew."""
    importlib.import_module("course.exercises.seen_launches")  # a session does not load it
    if not MODE.interpreting:
        prepare_compiler()


def refuse_forks() -> None:
    """From now on os.fork, and what uses it, raises in this process; a command still runs.

    For a child that runs a learner's function again and again: its forks would run it as well, and
    fork again.
    """

    def fork() -> int:
        raise PermissionError("what is tried here may not fork: leave out os.fork and its like")

    os.fork = os.forkpty = fork  # type: ignore[assignment]


@runs_in("compile", prepare=_prepare)
def compile_answer(exercise_id: str, source: Source, cases: int | None = None) -> Compilation:
    """Compile whatever the answer launches on the exercise's first `cases` cases (None: on all),
    for `TARGET`."""
    refuse_forks()
    exercise = code_exercise(exercise_id)
    function = exercise.function(source.load())

    def launch() -> None:
        for case in exercise.cases[:cases]:
            function(*case.arguments("cpu"))

    return _compilation(exercise, source, launch)


@runs_in("compile", prepare=_prepare)
def compile_seen(exercise_id: str, source: Source, launches: bytes) -> Compilation:
    """Compile launches that the interpreter saw the answer make, for `TARGET`."""
    from .seen_launches import unpacked

    def launch() -> None:
        for each in unpacked(launches):
            source.load()  # a kernel that a function has made comes in its place
            each.compile()

    return _compilation(code_exercise(exercise_id), source, launch)


def _compilation(exercise: Code, source: Source, launch: Callable[[], None]) -> Compilation:
    """What the compiler says where `launch` launches."""
    target, untold = target_of(TARGET), ""
    with known_by_its_files(), launches_compiled(target.triton) as launches:
        try:
            launch()
        except Exception as error:
            # Running it says more, unless it is the compiler's word.
            untold = f"{type(error).__name__}: {first_line(error)}"
    from .judge_compiled import compiled_problem  # what a session need not load
    from .refusal import refusal

    for problem in launches.problems:  # also one that the answer has caught
        reason = refusal(problem, source.definitions)
        return Compilation(Judged("does not compile", reason, problem.kind))
    for kernel in launches.kernels:
        if judged := compiled_problem(exercise, kernel, target):
            return Compilation(judged)
    if not launches.kernels:
        untold = untold or "it launched no kernel"
    return Compilation(Judged("right"), untold)


@runs_in("interpret", prepare=_prepare)
def run_answer(exercise_id: str, source: Source, begun: str = "") -> Trial:
    """Run the answer on the exercise's cases, up to the first wrong one.

    begun: a file that becomes a byte longer with each case, for a progress bar.
    """
    refuse_forks()
    exercise = code_exercise(exercise_id)
    if isinstance(exercise, GluonKernel):
        from .judge_simulated import simulated  # it loads the simulation

        return Trial(simulated(exercise, source.load()))
    function = _counted(exercise.function(source.load()), begun)
    is_tuned = isinstance(exercise, Launcher) and exercise.trials > 0
    untimed = UNTIMED if MODE.interpreting and is_tuned else ""
    from .seen_launches import launches_seen, packed

    with launches_seen() as seen:
        cases, outcomes, reach = _outcomes(exercise, function)
    for number, outcome in enumerate(outcomes):
        if problem := outcome.problem:
            if problem.kind == "wrong" and (elsewhere := _torchs_work(exercise, cases, outcomes)):
                return Trial(elsewhere)
            slip, kind = "", ""
            if problem.index is not None:
                slip, kind = slip_of(exercise, function, cases, number)
            lines = [outcome.reason, slip, untimed, f"The case: {outcome.case}."]
            reason = "\n".join(filter(None, lines))
            raised = problem.kind == "raised"
            verdict = "wrong" if problem.kind == "raised" else problem.kind
            judged = Judged(verdict, reason, kind or problem_kind(problem, number))
            where = Where(number, problem.program, problem.launch, problem.index, reach)
            return Trial(judged, raised=raised, where=where if MODE.interpreting else None)
    for case, outcome in zip(cases, outcomes, strict=False):
        if outcome.work and (waste := work_problem(exercise, case, outcome.work)):
            return Trial(_with_case(waste, outcome))
    if file := next((launch.of_the_course for launch in seen if launch.of_the_course), ""):
        reason = f"{file} has the kernel that it launches: write your own."
        return Trial(wrong("the course's kernel", reason))
    if lacking := next((outcome.lacking for outcome in outcomes if outcome.lacking), ""):
        return Trial(Judged("left to the GPU", f"{cannot_run(lacking)}."), launches=packed(seen))
    right = sum(outcome.verdict == "right" for outcome in outcomes)
    left = Verified("the answer", outcomes).left()
    if not right:
        return Trial(Judged("left to the GPU", "\n".join(left)), launches=packed(seen))
    whole = "all" if right == len(outcomes) else f"{right} of"
    notes = [*left, *filter(None, [untimed])]
    return Trial(
        Judged("right", f"Correct in {whole} {len(outcomes)} cases"), notes, launches=packed(seen)
    )


def _with_case(judged: Judged, outcome: Outcome) -> Judged:
    return judged._replace(reason=f"{judged.reason}\nThe case: {outcome.case}.")


def _counted(function: Function, begun: str) -> Function:
    """The function, which makes a file a byte longer whenever it is called."""

    @functools.wraps(function)
    def counted(*args: Any) -> torch.Tensor:
        with contextlib.suppress(OSError), open(begun, "ab") as file:
            file.write(b".")
        return function(*args)

    return counted if begun else function


def _torchs_work(
    exercise: Code, cases: tuple[Case, ...], outcomes: tuple[Outcome, ...]
) -> Judged | None:
    """What PyTorch did in place of a kernel in the first case that shows it; None if nothing.

    Where it rounds otherwise than the reference, this says more than the values that differ.
    """
    for case, outcome in zip(cases, outcomes, strict=False):
        if case.elements and outcome.work and (done := done_by_torch(exercise, outcome.work)):
            return _with_case(done, outcome)
    return None


def _outcomes(
    exercise: Code, function: Function
) -> tuple[tuple[Case, ...], tuple[Outcome, ...], int | None]:
    """The cases, their outcomes up to the first wrong one, and what `exercise.longer` was given.

    A longer case comes third if the first two are right and started as many programs: it is larger
    than these can write. So it is wrong if the grid is of a fixed size and no program goes on in a
    loop, which is found out before the other cases have run such a grid.
    """
    cases = exercise.cases
    outcomes = _verified(exercise, function, cases[:2])
    if outcomes[-1].verdict == "wrong":
        return cases, outcomes, None
    activities = [outcome.work.kernels for outcome in outcomes if outcome.work]
    reach = None
    if exercise.longer and len({activity.programs for activity in activities}) == 1:
        reach = max(activity.reach for activity in activities)
        cases = with_longer_case(exercise, reach)
    return cases, (*outcomes, *_verified(exercise, function, cases[2:])), reach


def with_longer_case(exercise: Code, reach: int | None) -> tuple[Case, ...]:
    """The exercise's cases; the third is one of more than `reach` elements, if that is a number."""
    if exercise.longer is None or reach is None:
        return exercise.cases
    return (*exercise.cases[:2], exercise.longer(reach), *exercise.cases[2:])


def _verified(exercise: Code, function: Function, cases: tuple[Case, ...]) -> tuple[Outcome, ...]:
    if not cases:
        return ()
    return verify(
        function,
        exercise.rounded_once,
        cases,
        absolute=exercise.absolute,
        contiguous=exercise.contiguous,
        first_wrong_only=True,
        block=exercise.block,
        strict_promises=True,
        case_s=math.inf,  # the child has its limit
    ).outcomes
