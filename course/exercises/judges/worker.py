"""Try an answer, in a child process: compile it, and run it on the exercise's cases."""

import importlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from course import MODE
from course.exercises.kinds import CodeExercise, GluonExercise, LauncherExercise, TensorFunction
from course.exercises.registry import code_exercise
from course.exercises.result import Judged, wrong
from course.gpus.limits import target_of
from course.isolate import runs_in
from course.isolate.function_source import Source
from course.tracing.races import Activity
from course.triton_internals.compiler import known_by_its_files, launches_compiled, prepare_compiler
from course.triton_internals.errors import cannot_run
from course.verifying.api import verify
from course.verifying.inputs import Case
from course.verifying.one_case import first_line
from course.verifying.result import CaseOutcome, Verified

from .slips import judged_wrong

TARGET = "sm_90"
"""What an answer is compiled for."""
TARGET_IN_WORDS = f"an H100 ({TARGET})"
UNTIMED = (
    "Nothing was timed here: in place of the tuner's trials, check ran the kernel once "
    "with each configuration, on the tensors as the run before left them, or as restore_value or "
    "reset_to_zero had made them."
)
SEARCH_S = 4.0
"""How long small changes of a wrong answer are tried."""
MOST_ELEMENTS = 2**23
"""Of a case in CPU mode: a longer one may have to go past a grid that reaches `verify`'s own
limit."""
IN_BFLOAT16 = (
    "It takes bfloat16, in which Triton's interpreter computes wrongly: a GPU gives other numbers, "
    "of 8 bits where a float16 has 11."
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
class Tried:
    """What compiling or running an answer in a child shows."""

    judged: Judged
    notes: list[str] = field(default_factory=list)
    """Sentences beside the verdict: what could not be told, or what it printed."""
    raised: bool = False
    """Whether it is wrong because it raised an exception."""
    where: Where | None = None
    """Where it goes wrong, if that can be stepped through."""
    guess: str = ""
    """The part of the reason that says why, which may be for another reason."""
    launches: bytes = b""
    """What it launched in the interpreter, where nothing speaks against it: packed, since only
    children make use of it."""
    untold: str = ""
    """Why it could not be told whether all of it compiles; empty if it could."""


def _prepare() -> None:
    """Load what each trial would otherwise load anew."""
    importlib.import_module("course.exercises.judges.seen_launches")  # a session does not load it
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
def compile_answer(exercise_name: str, source: Source, briefly: bool = False) -> Tried:
    """Compile whatever the answer launches on the exercise's cases, for `TARGET`.

    briefly: the first case alone, and up to TTGIR, where almost all is refused that ever is.
    """
    refuse_forks()
    exercise = code_exercise(exercise_name)
    function = exercise.function(source.load())

    def launch() -> None:
        for case in exercise.cases[:1] if briefly else exercise.cases:
            function(*case.arguments("cpu"))

    return _compilation(exercise, source, launch, briefly)


@runs_in("compile", prepare=_prepare)
def compile_seen(exercise_name: str, source: Source, launches: bytes) -> Tried:
    """Compile launches that the interpreter saw the answer make, for `TARGET`."""
    from .seen_launches import SeenLaunch  # a session does not load it

    def launch() -> None:
        for each in msgspec.msgpack.decode(launches, type=list[SeenLaunch]):
            source.load()  # a kernel that a function has made comes in its place
            each.compile()

    return _compilation(code_exercise(exercise_name), source, launch)


@dataclass(frozen=True)
class Found:
    """The place of a slip."""

    says: str = ""
    """The sentence; empty if none was found."""
    lacks: str = ""
    """What is missing there, a "mask", if the slip is that something is."""
    source: Source | None = None
    """The answer with that change."""


@runs_in("interpret", prepare=_prepare)
def find_change(exercise_name: str, source: Source, where: Where) -> Found:
    """Where one small change makes a wrong answer right, if that is found in `SEARCH_S` seconds."""
    refuse_forks()
    from .one_change import change_that_helps  # a session does not load it

    return change_that_helps(code_exercise(exercise_name), source, where, SEARCH_S)


def _compilation(
    exercise: CodeExercise, source: Source, launch: Callable[[], None], briefly: bool = False
) -> Tried:
    """What the compiler says where `launch` launches."""
    target, untold = target_of(TARGET), ""
    compiled = launches_compiled(target.triton, to_machine_code=not briefly)
    with known_by_its_files(), compiled as launches:
        try:
            launch()
        except Exception as error:
            # Running it says more, unless it is the compiler's word.
            untold = f"{type(error).__name__}: {first_line(error)}"
    from .compiled import compiled_problem  # what a session need not load
    from .refusal import refusal

    for problem in launches.problems:  # also one that the answer has caught
        reason = refusal(problem, source.definitions)
        return Tried(Judged("does not compile", reason, problem.kind))
    for kernel in launches.kernels:
        if judged := compiled_problem(exercise, kernel, target):
            return Tried(judged)
    if not launches.kernels and not launches.unfinished:
        untold = untold or "it launched no kernel"
    return Tried(Judged("right"), untold=untold)


@runs_in("interpret", prepare=_prepare)
def run_answer(exercise_name: str, source: Source) -> Tried:
    """Run the answer on the exercise's cases, up to the first wrong one."""
    refuse_forks()
    exercise = code_exercise(exercise_name)
    if isinstance(exercise, GluonExercise):
        from .simulated import simulated  # it loads the simulation

        return Tried(simulated(exercise, source.load()))
    function = exercise.function(source.load())
    is_tuned = isinstance(exercise, LauncherExercise) and exercise.trials > 0
    untimed = UNTIMED if MODE.interpreting and is_tuned else ""
    takes_bfloat16 = any("tl.bfloat16" in each.text for each in source.definitions)
    in_bfloat16 = IN_BFLOAT16 if MODE.interpreting and takes_bfloat16 else ""
    from .seen_launches import launches_seen

    with launches_seen() as seen:
        cases, outcomes, reach = _outcomes(exercise, function)
    for number, outcome in enumerate(outcomes):
        if problem := outcome.problem:
            if problem.kind == "wrong" and (elsewhere := _torchs_work(exercise, cases, outcomes)):
                return Tried(elsewhere)
            more = untimed, in_bfloat16
            judged = judged_wrong(exercise, function, cases, number, outcome, *more)
            where = Where(number, problem.program, problem.launch, problem.index, reach)
            raised = problem.kind == "raised"
            stepped = where if MODE.interpreting else None
            return Tried(judged, raised=raised, where=stepped, guess=problem.guess)
    from .wasted_work import work_problem

    for case, outcome in zip(cases, outcomes, strict=False):
        if outcome.work and (waste := work_problem(exercise, case, outcome.work)):
            return Tried(_with_case(waste, outcome))
    if file := next((launch.of_the_course for launch in seen if launch.of_the_course), ""):
        reason = f"{file} has the kernel that it launches: write your own."
        return Tried(wrong("the course's kernel", reason))
    tried = _nothing_wrong(outcomes, untimed)
    return tried if MODE.in_page else replace(tried, launches=msgspec.msgpack.encode(seen))


def _nothing_wrong(outcomes: tuple[CaseOutcome, ...], untimed: str) -> Tried:
    """What is to be said where no case is wrong: some may be left to the GPU, or all."""
    if lacking := next((outcome.lacking for outcome in outcomes if outcome.lacking), ""):
        return Tried(Judged("left to the GPU", f"{cannot_run(lacking)}."))
    right = sum(outcome.verdict == "right" for outcome in outcomes)
    left = Verified("the answer", outcomes).left()
    if not right:
        return Tried(Judged("left to the GPU", "\n".join(left)))
    whole = "all" if right == len(outcomes) else f"{right} of"
    notes = [*left, *filter(None, [untimed])]
    return Tried(Judged("right", f"Correct in {whole} {len(outcomes)} cases"), notes)


def _with_case(judged: Judged, outcome: CaseOutcome) -> Judged:
    return judged._replace(reason=f"{judged.reason}\nThe case: {outcome.case}.")


def _torchs_work(
    exercise: CodeExercise, cases: tuple[Case, ...], outcomes: tuple[CaseOutcome, ...]
) -> Judged | None:
    """What PyTorch did in place of a kernel in the first case that shows it; None if nothing.

    Where it rounds otherwise than the reference, this says more than the values that differ.
    """
    from .wasted_work import done_by_torch

    for case, outcome in zip(cases, outcomes, strict=False):
        if case.elements and outcome.work and (done := done_by_torch(exercise, outcome.work)):
            return _with_case(done, outcome)
    return None


def _outcomes(
    exercise: CodeExercise, function: TensorFunction
) -> tuple[tuple[Case, ...], tuple[CaseOutcome, ...], int | None]:
    """The cases, their outcomes up to the first wrong one, and what `exercise.longer` was given.

    A longer case comes third if the first two are right and started as many programs: it is larger
    than these can write. So it is wrong if the grid is of a fixed size and no program goes on in a
    loop, which is found out before the other cases have run such a grid.
    """
    cases = exercise.cases
    outcomes = verified(exercise, function, cases[:2])
    if outcomes[-1].verdict == "wrong":
        return cases, outcomes, None
    activities = [outcome.work.kernels for outcome in outcomes if outcome.work]
    reach = None
    if exercise.longer and len({activity.programs for activity in activities}) == 1:
        reach = _reach(exercise, activities)
        cases = with_longer_case(exercise, reach)
    return cases, (*outcomes, *verified(exercise, function, cases[2:])), reach


def _reach(exercise: CodeExercise, activities: list[Activity]) -> int:
    """The elements that a grid of fixed size can write, or load."""
    if exercise.loads_reach:
        # A loop loads more of the longer vector; without one both are the same.
        return min(activity.reach_of_loads for activity in activities)
    return max(activity.reach for activity in activities)


def with_longer_case(exercise: CodeExercise, reach: int | None) -> tuple[Case, ...]:
    """The exercise's cases; the third is one of more than `reach` elements, if that is a number."""
    if exercise.longer is None or reach is None:
        return exercise.cases
    return (*exercise.cases[:2], exercise.longer(reach), *exercise.cases[2:])


def verified(
    exercise: CodeExercise, function: TensorFunction, cases: tuple[Case, ...]
) -> tuple[CaseOutcome, ...]:
    """The outcomes of these of the exercise's cases, up to the first wrong one."""
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
        most_elements=MOST_ELEMENTS,
    ).outcomes
