"""Check an answer that is code: it is compiled and run in child processes, never here."""

import ast
import inspect
import re
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec

from course import MODE
from course.errors import CourseError
from course.exercises.kinds import CodeExercise, GluonExercise, RegistrationExercise
from course.exercises.result import Checked, Judged, shortened
from course.isolate import ChildKind, Ended, cancel
from course.isolate.available import child_memory_bytes
from course.isolate.border import InChild
from course.isolate.function_source import Source, source_of
from course.isolate.pool import UnreadableError
from course.lessons.statements import statement_of
from course.progress_bar import show_until
from course.triton_internals.jit_functions import is_gluon, plain_function
from course.type_names import AnyValue, kind_of
from course.verifying.text_slips import advice_on

from .worker import (
    SEARCH_S,
    TARGET_IN_WORDS,
    Found,
    Tried,
    Where,
    compile_answer,
    compile_seen,
    find_change,
    run_answer,
)

if TYPE_CHECKING:
    from course.tracing.replay import Replay

P = ParamSpec("P")

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
NOT_COMPILED = "The compiler has not seen it: `check` on your own machine compiles it as well."
LATER = (
    "check it again when this machine is less busy, unless it waits for something that never comes"
)
SLIPS_SHOW = ("wrong", "does not compile", "race", "reads outside", "writes outside")
"""Verdicts that a slip in a kernel's text may be the reason for."""
FOUND_AT_ACCESSES = ("race", "reads outside", "writes outside")
"""Those of them that need no wrong value."""
NO_VERDICT = Judged(
    "crashed", "What came back from its process is no verdict: does it change what `check` uses?"
)


def check_code(
    exercise: CodeExercise | RegistrationExercise, answer: object, called: str = ""
) -> Checked:
    """Judge a kernel, a launcher, or a function that registers an operator.

    called: what the lesson gives to `check`; by default the name of the kernel or launcher.
    """
    try:
        _check_form(exercise, answer)
        source = source_of(answer, kernels_as_text=True)
    except CourseError as error:
        return Checked(exercise.name, "no answer", str(error))
    if _is_stub(source, exercise.name):
        return Checked(exercise.name, "to do")
    tried = _try(exercise, source)
    if (found := _one_change(exercise, source, tried)).says:
        tried = _with_change(tried, found)
    if tried.judged.verdict in SLIPS_SHOW:
        tried = _with_advice(tried, source)
    checked = Checked(exercise.name, *tried.judged, tried.notes)
    if tried.where is None:
        return checked
    name = called or source.definitions[-1].name
    note = f'See it step by step: check("{exercise.name}", {name}).replay()'
    stepper = partial(_stepper, exercise.name, source, tried.where, tried.judged.reason)
    return replace(checked, notes=[*tried.notes, note], stepper=stepper)


def _one_change(
    exercise: CodeExercise | RegistrationExercise, source: Source, tried: Tried
) -> Found:
    """Where one small change makes a wrong answer right; empty if that is not known, or if the slip
    is."""
    if tried.where is None or tried.judged.kind.startswith("slip") or MODE.in_page:
        return Found()
    if tried.where.index is None and tried.judged.verdict not in FOUND_AT_ACCESSES:
        return Found()  # no value is wrong: it starts too many programs, say
    assert isinstance(exercise, CodeExercise)
    limited = find_change.within(kind="interpret", timeout_s=3 * SEARCH_S)
    try:
        found = limited.ended(exercise.name, source, tried.where).value
    except CourseError:  # it has taken its worker with it
        return Found()
    if found is None or found.source is None:
        return Found()
    asked = exercise.name, found.source, True  # what no GPU runs is no mend
    compiled = _in_child(compile_answer, exercise, "compile", *asked).value
    return Found() if compiled and compiled.judged.verdict == "does not compile" else found


def _with_change(tried: Tried, found: Found) -> Tried:
    """The same with the change that was found, in place of a guess; but a missing mask is what is
    guessed at."""
    reason = tried.judged.reason
    if tried.guess and found.lacks != "mask":
        reason = "\n".join(filter(None, reason.replace(tried.guess, "").split("\n")))
    return replace(tried, judged=tried.judged._replace(reason=f"{reason}\n{found.says}"))


def _stepper(exercise_name: str, source: Source, where: Where, reason: str) -> "Replay":
    from .replay_answer import replay_answer  # it loads the widget

    return replay_answer(exercise_name, source, where, reason)


def _with_advice(tried: Tried, source: Source) -> Tried:
    """The same with what to look at in the answer's text; its kinds are part of the kind."""
    advice = list(advice_on(source.definitions))
    kind = ", ".join(filter(None, [tried.judged.kind, *(each.kind for each in advice)]))
    notes = [*tried.notes, *(note for each in advice for note in each.notes)]
    return replace(tried, judged=tried.judged._replace(kind=kind), notes=notes)


def _check_form(exercise: CodeExercise | RegistrationExercise, answer: AnyValue) -> None:
    """Raise CourseError unless an answer is of the exercise's form: a function of its kind, with
    its parameters."""
    if (form := _form_of(answer)) != exercise.answer_is:
        raise CourseError(f"It must be {exercise.form}; this is {form}.")
    function = plain_function(answer) or answer
    parameters = inspect.signature(function).parameters
    names, wanted = tuple(parameters), exercise.parameters
    more = [parameters[name] for name in names[len(wanted) :]]
    if names[: len(wanted)] != wanted or any(each.default is each.empty for each in more):
        takes = f"{function.__name__} takes ({', '.join(names)})"
        raise CourseError(f"{takes}, and the exercise gives it ({', '.join(wanted)}).")


def _form_of(answer: AnyValue) -> str:
    if plain_function(answer) is not None:
        return "a Gluon kernel" if is_gluon(answer) else "a kernel"
    if inspect.isfunction(answer):
        return "a plain function"
    called = "" if callable(answer) else "; give it without calling it"
    return f"{kind_of(answer)}{called}"


def _is_stub(source: Source, exercise_name: str) -> bool:
    """Whether nothing was added to the stub's functions but comments and blank lines.

    What was handed to `check` counts in any case: under a name that neither the stub nor the
    lesson's own check has, it is the stub only if one of the stub's functions has the same text.
    """
    statement = statement_of(exercise_name)
    if statement is None:
        return False
    stub = _functions(statement.stub)
    answer = _functions("\n".join(definition.text for definition in source.definitions))
    handed = _functions(source.definitions[-1].text)
    shared = set(stub) & set(answer)
    if any(stub[name] != answer[name] for name in shared):
        return False
    known = {*stub, statement.checked}
    return all(name in known or dump in stub.values() for name, dump in handed.items())


def _functions(text: str) -> dict[str, str]:
    """name -> the syntax of the function at the top of a text: no comments, no blank lines, and
    not its name"""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    # Without "FunctionDef(name='…', ", with which a dump begins.
    return {node.name: ast.dump(node).partition(", ")[2] for node in functions}


def _try(exercise: CodeExercise | RegistrationExercise, source: Source) -> Tried:
    """Compile an answer, meanwhile run it in the interpreter, and then on a GPU if there is one.

    What runs wrong is compiled for the first case alone, and not to its end: that tells whether
    Triton takes it.
    """
    if isinstance(exercise, RegistrationExercise):
        from .registration import try_registration

        return _ran(_in_child(try_registration, exercise, "interpret", exercise.name, source))
    if MODE.in_page:
        here = _in_child(run_answer, exercise, "interpret", exercise.name, source)
        return _uncompiled(_ran(here))
    compiling, running = _in_both_children(exercise, source)
    first, ran = compiling.value, _ran(running)
    # What raises in the interpreter may do so for what the compiler refuses in a later case.
    if first and first.judged.verdict == "right" and (ran.raised or not _objects(ran)):
        compiling = _in_child(compile_answer, exercise, "compile", exercise.name, source)
    launches = running.value.launches if running.value else b""
    if compiling.value and compiling.value.untold and launches:
        compiling = _in_child(compile_seen, exercise, "compile", exercise.name, source, launches)
    if problem := _early_end(compiling, COMPILER):
        # What crashes before it launches anything crashes in both: then running it says more.
        return Tried(_early_end(running, "It") or problem, _printed(running))
    assert compiling.value is not None
    compiled = compiling.value
    if compiled.judged.verdict == "does not compile":
        from .refusal import complete_refusal

        judged = complete_refusal(compiled.judged, compiling.stderr, source.definitions)
        return Tried(judged)
    if _objects(ran):
        return ran
    if compiled.judged.verdict != "right":
        return compiled
    if not MODE.gpu or isinstance(exercise, GluonExercise):  # which is launched nowhere
        return _without_gpu(exercise, compiled, ran)
    launched = _ran(_in_child(run_answer, exercise, "launch", exercise.name, source))
    if launched.judged.verdict == "right":
        reason = f"{launched.judged.reason}, on this GPU."
        return Tried(launched.judged._replace(reason=reason), launched.notes)
    # Of what is wrong in both the interpreter says more: a GPU names no line.
    return ran if ran.raised else Tried(launched.judged, launched.notes)


def _in_both_children(exercise: CodeExercise, source: Source) -> tuple[Ended[Tried], Ended[Tried]]:
    """Compile an answer briefly in one child, and run it on all cases in another, side by side."""
    answer = exercise.name, source
    with ThreadPoolExecutor(2) as children:
        both = [
            children.submit(lambda: _in_child(compile_answer, exercise, "compile", *answer, True)),
            children.submit(lambda: _in_child(run_answer, exercise, "interpret", *answer)),
        ]
        try:
            show_until(
                lambda seconds: not wait(both, seconds).not_done,
                lambda: sum(child.done() for child in both),
                len(both),
                f"Checking {exercise.name}, compiled and run on {len(exercise.cases)} cases",
            )
        except BaseException:  # an interrupted check waits for neither
            cancel("compile")
            cancel("interpret")
            raise
        return both[0].result(), both[1].result()


def _in_child(
    function: InChild[P, Tried],
    exercise: CodeExercise | RegistrationExercise,
    kind: ChildKind,
    *args: P.args,
    **kwargs: P.kwargs,
) -> Ended[Tried]:
    # What the answer does in both children, it may do only once: each has half of the memory.
    half = None if MODE.in_page else child_memory_bytes() // 2
    limited = function.within(kind=kind, timeout_s=exercise.timeout_s, memory_bytes=half)
    try:
        return limited.ended(*args, **kwargs)
    except CourseError as error:  # it has taken its worker with it
        return Ended("failed", 1, "", "", 0.0, error=error)


def _objects(tried: Tried) -> bool:
    """Whether what the interpreter shows speaks against an answer.

    It may have raised for want of something in the interpreter that nobody knows to be missing:
    then a GPU tells.
    """
    wrong = tried.judged.verdict not in ("right", "left to the GPU")
    return wrong and not (tried.raised and MODE.gpu)


def _uncompiled(ran: Tried) -> Tried:
    """The verdict of an answer where there is no compiler."""
    verdict, reason, _ = ran.judged
    if verdict == "left to the GPU":
        return replace(ran, judged=Judged(verdict, f"{reason.rstrip('.')}.\n{NOT_COMPILED}"))
    if verdict == "right":
        return replace(ran, judged=Judged("right", f"{reason}.\n{NOT_COMPILED}"))
    return ran


def _without_gpu(exercise: CodeExercise, compiled: Tried, ran: Tried) -> Tried:
    """The verdict of an answer that nothing speaks against, with what is known of compiling it."""
    verdict, reason, _ = ran.judged
    if verdict == "left to the GPU" and isinstance(exercise, GluonExercise):
        return ran
    known = f"It compiles for {TARGET_IN_WORDS}"
    if compiled.untold:
        known = f"Whether it compiles could not be told ({shortened(compiled.untold)})"
    elif verdict == "right":
        right = f"{reason}, and it compiles for {TARGET_IN_WORDS}."
        return Tried(Judged("right", right), ran.notes)
    left = f"{reason.rstrip('.')}.\n{known}: check it in GPU mode."
    return Tried(Judged("left to the GPU", left))


def _ran(ended: Ended[Tried]) -> Tried:
    """What came of a run; if it did not come to its end, how it ended is the verdict."""
    printed = _printed(ended)
    if problem := _early_end(ended, "It"):
        return Tried(problem, printed)
    assert ended.value is not None
    tried = ended.value
    if tried.raised and NO_MEMORY.search(tried.judged.reason):
        unknown = f"{tried.judged.reason}\nSo nothing is known of your answer: {LESS_MEMORY}."
        return Tried(Judged("stopped", unknown), printed, raised=True)
    return tried if tried.judged.verdict == "right" else replace(tried, notes=printed)


def _early_end(ended: Ended[Tried], what: str) -> Judged | None:
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


def _printed(ended: Ended[Tried]) -> list[str]:
    """The last lines that an answer printed."""
    lines = ended.stdout.splitlines()[-MOST_PRINTED_LINES:]
    return [f"It printed: {line}" for line in lines]
