"""Check an answer that is code: it is compiled and run in child processes, never here."""

import ast
import inspect
import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from course import MODE
from course.errors import CourseError
from course.isolate import Ended, Kind, cancel
from course.isolate.border import InChild
from course.isolate.function_source import Source, source_of
from course.isolate.limits import child_memory_bytes
from course.isolate.pool import UnreadableError
from course.lessons.statements import statement_of
from course.progress_bar import show_until
from course.triton_internals.jit_functions import is_gluon, plain_function
from course.type_names import kind_of

from .kinds import Answer, Code, GluonKernel, Kernel, Launcher, Registration
from .result import Checked, Judged, shortened
from .source_advice import advice_on
from .worker import (
    TARGET_IN_WORDS,
    Compilation,
    Trial,
    Where,
    compile_answer,
    compile_seen,
    run_answer,
)

if TYPE_CHECKING:
    from course.tracing.replay import Replay

R = TypeVar("R", Compilation, Trial)

MOST_PRINTED_LINES = 10
NO_MEMORY = re.compile(
    r"MemoryError|can't allocate memory|not enough memory|out of memory", re.IGNORECASE
)
"""What NumPy, PyTorch and CUDA say where memory is refused."""

COMPILER = "The compiler"
LESS_MEMORY = (
    "look for a tensor that is larger than it must be, "
    "or close what else takes memory here and check it again"
)
LESS_COMPUTING = (
    "look for a loop without end or for very many programs, "
    "or check it again if this machine is busy"
)
LESS_COMPILING = (
    "look for blocks of very many elements, such as a product of two that are broadcast in place "
    "of tl.dot, and for long loops over tl.static_range, or check it again if this machine is busy"
)
LATER = (
    "check it again when this machine is less busy, unless it waits for something that never comes"
)
FORMS: dict[type[Code | Registration], str] = {
    Kernel: "a kernel", GluonKernel: "a Gluon kernel", Launcher: "a plain function",
    Registration: "a plain function",
}  # fmt: skip
"""What `_form_of` says of an answer to each kind of exercise."""
SLIPS_SHOW = ("wrong", "does not compile", "race", "reads outside", "writes outside")
"""Verdicts that a slip in a kernel's text may be the reason for."""
NO_VERDICT = Judged(
    "crashed", "What came back from its process is no verdict: does it change what `check` uses?"
)


def check_code(exercise: Code, answer: Answer, called: str = "") -> Checked:
    """Judge a kernel or a launcher.

    called: what the lesson gives to `check`; by default the name of the kernel or launcher.
    """
    if problem := form_problem(exercise, answer):
        return Checked(exercise.id, "no answer", problem)
    try:
        source = source_of(answer, kernels_as_text=True)
    except CourseError as error:
        return Checked(exercise.id, "no answer", str(error))
    if _is_stub(source, exercise.id):
        return Checked(exercise.id, "to do")
    trial = _try(exercise, source)
    if trial.judged.verdict in SLIPS_SHOW:
        trial = _with_advice(trial, source)
    checked = Checked(exercise.id, *trial.judged, trial.notes)
    if trial.where is None:
        return checked
    name = called or (plain_function(answer) or answer).__name__
    note = f'See it step by step: check("{exercise.id}", {name}).replay()'
    stepper = partial(_stepper, exercise.id, source, trial.where, trial.judged.reason)
    return replace(checked, notes=[*trial.notes, note], stepper=stepper)


def _with_advice(trial: Trial, source: Source) -> Trial:
    """The same with what to look at in the answer's text; its kinds are part of the kind."""
    advice = list(advice_on(source.definitions))
    kind = ", ".join(filter(None, [trial.judged.kind, *(each.kind for each in advice)]))
    notes = [*trial.notes, *(note for each in advice for note in each.notes)]
    return replace(trial, judged=trial.judged._replace(kind=kind), notes=notes)


def _stepper(exercise_id: str, source: Source, where: Where, reason: str) -> "Replay":
    from .replay_answer import replay_answer  # it loads the widget

    return replay_answer(exercise_id, source, where, reason)


def form_problem(exercise: Code | Registration, answer: Answer) -> str:
    """Why an answer is not of the exercise's form: no such function, or other parameters."""
    if (form := _form_of(answer)) != FORMS[type(exercise)]:
        return f"It must be {exercise.form}; this is {form}."
    function = plain_function(answer) or answer
    parameters = inspect.signature(function).parameters
    names, wanted = tuple(parameters), exercise.parameters
    more = [parameters[name] for name in names[len(wanted) :]]
    if names[: len(wanted)] == wanted and all(each.default is not each.empty for each in more):
        return ""
    takes = f"{function.__name__} takes ({', '.join(names)})"
    return f"{takes}, and the exercise gives it ({', '.join(wanted)})."


def _form_of(answer: Answer) -> str:
    if plain_function(answer) is not None:
        return "a Gluon kernel" if is_gluon(answer) else "a kernel"
    if inspect.isfunction(answer):
        return "a plain function"
    called = "" if callable(answer) else "; give it without calling it"
    return f"{kind_of(answer)}{called}"


def _is_stub(source: Source, exercise_id: str) -> bool:
    """Whether nothing was added to the stub's functions but comments and blank lines."""
    statement = statement_of(exercise_id)
    if statement is None:
        return False
    stub = _functions(statement.stub)
    answer = _functions("\n".join(definition.text for definition in source.definitions))
    shared = set(stub) & set(answer)
    return bool(shared) and all(stub[name] == answer[name] for name in shared)


def _functions(text: str) -> dict[str, str]:
    """The functions at the top of a text, by name, without comments and blank lines."""
    body = ast.parse(text).body
    return {node.name: ast.dump(node) for node in body if isinstance(node, ast.FunctionDef)}


def _try(exercise: Code, source: Source) -> Trial:
    """Compile an answer, meanwhile run it in the interpreter, and then on a GPU if there is one.

    What runs wrong is compiled for the first case alone, which tells whether the compiler takes it.
    """
    compiling, running = _in_both_children(exercise, source)
    first, ran = compiling.value, _trial(running)
    # What raises in the interpreter may do so for what the compiler refuses in a later case.
    all_cases = ran.raised or not _objects(ran)
    if first is not None and first.judged.verdict == "right" and all_cases:
        compiling = _in_child(compile_answer, exercise, source, "compile")
    untold = compiling.value is not None and compiling.value.untold
    if untold and running.value is not None and (launches := running.value.launches):
        compiling = _in_child(compile_seen, exercise, source, "compile", launches)
    if problem := _early_end(compiling, COMPILER):
        # What crashes before it launches anything crashes in both: then running it says more.
        return Trial(_early_end(running, "It") or problem, _printed(running))
    assert compiling.value is not None
    compilation, trial = compiling.value, ran
    if compilation.judged.verdict == "does not compile":
        from .refusal import complete_refusal

        judged = complete_refusal(compilation.judged, compiling.stderr, source.definitions)
        compilation = replace(compilation, judged=judged)
    for objection in _objections(compilation, trial):
        return objection
    if isinstance(exercise, GluonKernel):
        return _without_launching(compilation, trial)
    if MODE.gpu:
        launched = _trial(_in_child(run_answer, exercise, source, "launch"))
        if trial.raised and launched.judged.verdict != "right":
            return trial  # of what is wrong in both the interpreter says more: a GPU names no line
        return _on_this_gpu(launched)
    return _without_gpu(compilation, trial)


def _in_both_children(exercise: Code, source: Source) -> tuple[Ended[Compilation], Ended[Trial]]:
    """Compile an answer for its first case in one child, and run it on all in another, side by
    side."""
    # A file without a place on a disk, which the child finds here.
    with ThreadPoolExecutor(2) as children, open(os.memfd_create("begun"), "rb") as begun:
        path = f"/proc/{os.getpid()}/fd/{begun.fileno()}"
        compiling = children.submit(_in_child, compile_answer, exercise, source, "compile", 1)
        running = children.submit(_in_child, run_answer, exercise, source, "interpret", path)
        both: list[Future[Any]] = [compiling, running]

        def done() -> int:
            cases = os.fstat(begun.fileno()).st_size - 1  # the last of them is not done yet
            return compiling.done() + max(0, cases)

        try:
            show_until(
                lambda seconds: not wait(both, seconds).not_done,
                done,
                len(exercise.cases) + 1,
                f"Checking {exercise.id}, compiled and run on {len(exercise.cases)} cases",
            )
        except BaseException:  # an interrupted check waits for neither
            cancel("compile")
            cancel("interpret")
            raise
        return compiling.result(), running.result()


def _in_child(
    function: InChild[..., R],
    exercise: Code | Registration,
    source: Source,
    kind: Kind,
    *more: object,
) -> Ended[R]:
    try:
        return function.ended(
            exercise.id,
            source,
            *more,
            kind=kind,
            timeout_s=exercise.timeout_s,
            # What the answer does in both children, it may do only once: each has half of it.
            memory_bytes=child_memory_bytes() // 2,
        )
    except CourseError as error:  # it has taken its worker with it
        return Ended("failed", 1, "", "", 0.0, error=error)


def tried_once(
    function: InChild[[str, Source], Trial], exercise: Code | Registration, source: Source
) -> Trial:
    """What one child says of an answer that no other compiles or launches."""
    return _trial(_in_child(function, exercise, source, "interpret"))


def _objections(compilation: Compilation, trial: Trial) -> Iterator[Trial]:
    """What speaks against an answer; the first says most."""
    if compilation.judged.verdict == "does not compile":
        yield Trial(compilation.judged)
    if _objects(trial):
        yield trial
    if compilation.judged.verdict != "right":
        yield Trial(compilation.judged)


def _objects(trial: Trial) -> bool:
    """Whether what the interpreter shows speaks against an answer.

    It may have raised for want of something in the interpreter that nobody knows to be missing:
    then a GPU tells.
    """
    wrong = trial.judged.verdict not in ("right", "left to the GPU")
    return wrong and not (trial.raised and MODE.gpu)


def _on_this_gpu(trial: Trial) -> Trial:
    judged = trial.judged
    if judged.verdict == "right":
        judged = judged._replace(reason=f"{judged.reason}, on this GPU.")
    return Trial(judged, trial.notes)


def _without_gpu(compilation: Compilation, trial: Trial) -> Trial:
    """The verdict of an answer that nothing speaks against, with what is known of compiling it."""
    verdict, reason, _ = trial.judged
    known = f"It compiles for {TARGET_IN_WORDS}"
    if compilation.untold:
        known = f"Whether it compiles could not be told ({shortened(compilation.untold)})"
    elif verdict == "right":
        return Trial(
            Judged("right", f"{reason}, and it compiles for {TARGET_IN_WORDS}."), trial.notes
        )
    left = f"{reason.rstrip('.')}.\n{known}: check it in GPU mode."
    return Trial(Judged("left to the GPU", left))


def _without_launching(compilation: Compilation, trial: Trial) -> Trial:
    """The verdict of a Gluon kernel that nothing speaks against. It is launched nowhere."""
    if trial.judged.verdict == "left to the GPU":
        return trial
    return _without_gpu(compilation, trial)


def _trial(ended: Ended[Trial]) -> Trial:
    """What came of a run; if it did not come to its end, how it ended is the verdict."""
    printed = _printed(ended)
    if problem := _early_end(ended, "It"):
        return Trial(problem, printed)
    assert ended.value is not None
    trial = ended.value
    if trial.raised and NO_MEMORY.search(trial.judged.reason):
        unknown = f"{trial.judged.reason}\nSo nothing is known of your answer: {LESS_MEMORY}."
        return Trial(Judged("stopped", unknown), printed, raised=True)
    return trial if trial.judged.verdict == "right" else replace(trial, notes=printed)


def _early_end(ended: Ended[Compilation] | Ended[Trial], what: str) -> Judged | None:
    """The verdict for a child that did not come to its end; None for one that did."""
    if ended.how == "finished":
        return None
    stopped = f"{what} was stopped {ended.stopped}"
    if ended.starved:
        return Judged("stopped", f"{stopped}, so nothing is known of your answer: {LATER}.")
    if ended.how == "out of time":
        less = LESS_COMPILING if what == COMPILER else LESS_COMPUTING
        return Judged("stopped", f"{stopped}: {less}.")
    if ended.how == "out of memory":
        return Judged("stopped", f"{stopped}: {LESS_MEMORY}.")
    if ended.how == "crashed":
        return Judged("crashed", f"{ended.sentence(what)}. Your session is untouched.")
    if isinstance(ended.error, UnreadableError):
        return NO_VERDICT
    why = ended.error or ended.exception or f"it left with exit code {ended.code}"
    return Judged("crashed", f"{what} ended early: {why}")


def _printed(ended: Ended[Compilation] | Ended[Trial]) -> list[str]:
    """The last lines that an answer printed."""
    lines = ended.stdout.splitlines()[-MOST_PRINTED_LINES:]
    return [f"It printed: {line}" for line in lines]
