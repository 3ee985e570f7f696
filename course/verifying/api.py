"""Is a function right? Against a reference in float64, in guarded memory, over many cases."""

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import FunctionType

from course import MODE
from course.errors import CourseError
from course.isolate.function_source import Source, source_of
from course.progress_bar import track
from course.tracing.time_limit import Stopped, limited
from course.triton_internals.jit_functions import plain_function
from course.type_names import Function, kind_of, shown

from .compare import Tolerance
from .inputs import CPU_MODE_ELEMENTS, CPU_MODE_SECONDS, Case
from .one_case import Trial, gpu_is_lost, left_to_the_gpu, with_problem
from .result import CaseOutcome, Verified

thread_time = getattr(time, "thread_time", time.process_time)
"""Seconds that this thread has computed; a page of the site has one thread, and no such clock."""
CASE_S = 20
"""How long the interpreter may compute on one case before that is left to the GPU."""


def verify(
    function: Function,
    reference: Function,
    cases: Iterable[Case],
    tolerance: Tolerance | None = None,
    absolute: float | Function = 0.0,
    contiguous: bool = False,
    first_wrong_only: bool = False,
    case_s: float = CASE_S,
    most_elements: int = CPU_MODE_ELEMENTS,
    block: int | None = None,
    strict_promises: bool = False,
    sanitizers: Sequence[str] = (),
) -> Verified:
    """Compare `function` with `reference` on every case.

    function: takes the tensors of a case and returns a tensor. What it allocates meanwhile lies
        between guards, and is poisoned where PyTorch does not fill it: elements it never writes,
        and writes outside its outputs or into its inputs, are found. In CPU mode so are reads
        outside, programs of one launch that write different values to one place or read what
        another writes, and promises such as tl.multiple_of that do not hold and by which an access
        may go elsewhere. An exception makes the case wrong. Nothing is compiled there, so ask
        `lower` too: the interpreter also runs what the compiler refuses, such as a `break` or a
        list.
    reference: the same in PyTorch. It is given the inputs in float64 (integers as they are), and
        in their own dtypes, which decides the shape and dtype that the result must have. What
        PyTorch refuses in 8 or 16 bits it is given in float32, and may return any float.
    tolerance: by default `compare.tolerance_for` the result's dtype, and what rounding alone makes
        of the reference.
    absolute: error allowed on top of the tolerance, for results that cancel: a number, or a
        function that is called as `function` is and returns one for each element of the result.
    contiguous: whether the result must be so.
    first_wrong_only: leave out the cases after the first wrong one.
    case_s: in CPU mode, how long the main thread may compute on one case. After that the case is
        left to the GPU, as are those that are as large. Another thread cannot be stopped.
    most_elements: in CPU mode, the elements of the largest input; larger cases are left to the GPU.
    block: elements that one program may well take. In CPU mode a call that starts far more programs
        is wrong, whatever its result. By default any number may run.
    strict_promises: whether a promise that does not hold is wrong too where it does no harm.
    sanitizers: those of Triton 3.9 that are asked on a GPU about what is right otherwise, out of
        `sanitizers.SANITIZERS`. Each calls the function in a process of its own, on the cases of
        at most `sanitizers.MOST_ELEMENTS` elements; what it finds makes its case wrong.

    Raises CourseError where there is no case, for what is no function, where the reference fails,
    and for sanitizers that cannot be asked.
    """
    _check_function(function)
    source = _source_for(sanitizers, function) if sanitizers else None
    if not callable(reference):
        raise CourseError(
            "verify takes your function first, and then a reference: a function in PyTorch that "
            f"takes the same tensors. This is {kind_of(reference)}."
        )
    cases = _checked(cases)
    if tolerance is not None and not isinstance(tolerance, Tolerance):
        takes = "a Tolerance, as Tolerance(relative=1e-3); what is allowed on top of the usual goes"
        raise CourseError(f"tolerance is {shown(tolerance)}, and must be {takes} to absolute.")
    _check_numbers(0, absolute=0 if callable(absolute) else absolute, case_s=case_s)
    _check_numbers(1, block=1 if block is None else block, most_elements=most_elements)
    name = getattr(function, "__name__", type(function).__name__)
    trial = Trial(function, reference, tolerance, absolute, contiguous, block, strict_promises)
    outcomes: list[CaseOutcome] = []
    pace = _Pace(most_elements)
    for case in track(cases, f"Verifying {name}"):
        if not MODE.gpu and pace.too_slow_for(case):
            outcomes.append(left_to_the_gpu(case, "the interpreter would take long"))
            continue
        try:
            with pace.timing(case), limited(math.inf if MODE.gpu else case_s):
                outcomes.append(trial.outcome(case))
        except Stopped:
            reason = f"the interpreter had not ended it after {case_s:g} s of computing"
            outcomes.append(left_to_the_gpu(case, reason))
            pace.stopped(case)
        if MODE.gpu:  # at once, while its tensors are there
            outcomes[-1] = _again(outcomes[-1])
        if (first_wrong_only and outcomes[-1].verdict == "wrong") or (MODE.gpu and gpu_is_lost()):
            break
    # A function that keeps memory from call to call would go on with it in another run.
    if not any(each.verdict == "wrong" or each.keeps_memory for each in outcomes):
        for number, outcome in enumerate(outcomes):
            with contextlib.suppress(Stopped), limited(case_s):
                outcomes[number] = _again(outcome)
    verified = Verified(name, tuple(replace(each, again=None) for each in outcomes))
    if source and verified.right:
        verified = _sanitized(verified, source, cases, sanitizers)
    return replace(verified, advice=_advice(function)) if verified.wrong else verified


def _check_numbers(least: float, **numbers: object) -> None:
    """Raise CourseError unless these are numbers of so much at least."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)) or number < least:
            raise CourseError(f"{name} is {shown(number)}, and must be a number from {least:g} on.")


def _again(outcome: CaseOutcome) -> CaseOutcome:
    """An outcome after another run, if there is reason for one."""
    problem = outcome.again() if outcome.again else None
    return with_problem(outcome, problem) if problem else replace(outcome, again=None)


def _source_for(sanitizers: Sequence[str], function: Function) -> Source:
    """A function as it goes to sanitizers' processes. Raises CourseError where none is asked."""
    from .sanitizers import check_sanitizers  # a page has no processes

    check_sanitizers(sanitizers)
    return source_of(function)


def _sanitized(
    verified: Verified, source: Source, cases: Sequence[Case], names: Sequence[str]
) -> Verified:
    """The same with what sanitizers say."""
    from .sanitizers import sanitized

    outcomes, sentences = [*verified.outcomes], []
    for name in track(names, "Under sanitizers"):
        said = sanitized(name, source, cases)
        sentences.append(said.sentence)
        if said.problem:
            outcomes[said.case] = with_problem(outcomes[said.case], said.problem)
    return replace(verified, outcomes=tuple(outcomes), sanitizers=tuple(sentences))


def _advice(function: Function) -> tuple[str, ...]:
    """What to look at in the text of a function's kernels, where that can be read."""
    from .text_slips import advice_on  # only for what is wrong

    if not isinstance(function, FunctionType):
        return ()
    try:
        definitions = source_of(function).definitions
    except CourseError:
        return ()
    return tuple(note for each in advice_on(definitions) for note in each.notes)


def _check_function(function: Function) -> None:
    if plain := plain_function(function):
        raise CourseError(
            "verify takes a function of tensors, which allocates the output, launches the kernel "
            f"and returns the output: write one around {plain.__name__}."
        )
    if not callable(function):
        raise CourseError(f"verify takes a function of tensors; this is {kind_of(function)}.")


def _checked(cases: Iterable[Case]) -> list[Case]:
    if not isinstance(cases, Iterable):
        raise CourseError("verify takes a list of cases, such as vectors(2).")
    cases = list(cases)
    if not cases:
        raise CourseError("verify was given no cases: make some, for example with vectors(2).")
    for case in cases:
        if not isinstance(case, Case):
            raise CourseError(
                "verify takes a list of cases, such as vectors(2), and this one holds "
                f"{kind_of(case)}: Case((Input(shape, dtype), …)) makes one."
            )
    return cases


class _Pace:
    """What the interpreter takes for this function, from the cases that it has run."""

    def __init__(self, most_elements: int) -> None:
        self.seconds_per_element: list[float] = []
        self.most_elements = most_elements

    def too_slow_for(self, case: Case) -> bool:
        # This thread's own time, and the least of it, so that which cases run does not depend on
        # what else the machine does.
        expected_s = case.elements * min(self.seconds_per_element, default=0.0)
        return case.elements > self.most_elements or expected_s > CPU_MODE_SECONDS

    @contextlib.contextmanager
    def timing(self, case: Case) -> Iterator[None]:
        start = thread_time()
        yield
        if case.elements >= 512:  # below that, a call's fixed cost tells nothing of a larger case
            self.seconds_per_element.append((thread_time() - start) / case.elements)

    def stopped(self, case: Case) -> None:
        """The interpreter was stopped on this case."""
        self.most_elements = min(self.most_elements, case.elements - 1)
