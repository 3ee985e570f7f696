"""Try an answer, in a child process: compile it, and run it on the exercise's cases."""

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from course import MODE
from course.gpus.limits import MOST_THREADS, Target, target_of
from course.isolate.function_source import Definition, Source
from course.tracing.accesses import FREE_PROGRAMS
from course.triton_internals.compiler import launches_compiled, prepare_compiler
from course.triton_internals.errors import CompileProblem, cannot_run
from course.verifying.api import Outcome, Verified, Work, first_line, verify
from course.verifying.inputs import Case

from .kinds import Code, Judged, Launcher
from .registry import code_exercise
from .replay_answer import Where

IN_16_BITS = re.compile(r"\b(arith\.(?:add|sub|mul|div)f|math\.\w+) .*(?:x|\b)(bf16|f16)\b")


def prepare_worker() -> None:
    """What PyTorch and Triton would otherwise load in each trial anew."""
    if MODE.interpreting or MODE.gpu:
        importlib.import_module("torch._dynamo")  # the first TorchDispatchMode asks for it
    if not MODE.interpreting:
        prepare_compiler()


def compiles(exercise_id: str, source: dict[str, Any], target_name: str) -> tuple[Judged, str]:
    """Whether what the answer launches compiles, and why that could not be told. In a child that compiles."""
    exercise, text, target = (
        code_exercise(exercise_id),
        Source.from_json(source),
        target_of(target_name),
    )
    function = exercise.function(text.load())
    untold = ""
    with launches_compiled(target.triton) as launches:
        for case in exercise.cases:
            try:
                function(*(made.tensor for made in case.make("cpu")), *case.scalars)
            except Exception as error:
                untold = f"{type(error).__name__}: {first_line(error)}"
                break  # running it says more, where it is not the compiler's word
    for problem in launches.problems:  # also one that the answer has caught
        return ("does not compile", _place(problem.problem, text.definitions)), ""
    for kernel in launches.kernels:
        if problem_text := _too_large(kernel.metadata, target):
            return ("does not compile", problem_text), ""
        if exercise.compiled and (problem_text := exercise.compiled(kernel.asm)):
            return ("wrong", problem_text), ""
        if exercise.in_float32 and (problem_text := _rounds_on_the_way(kernel.asm["ttir"])):
            return (
                "wrong",
                f"{problem_text}: convert to float32 after the load, and back only for the store.",
            ), ""
    return ("right", ""), untold or ("" if launches.kernels else "it launched no kernel")


def _too_large(metadata: Any, target: Target) -> str:
    """Why the target cannot launch a kernel that compiles, or nothing."""
    if (threads := metadata.num_warps * target.warp_size) > MOST_THREADS:
        return f"{metadata.num_warps} warps are {threads:,} threads, and a program has at most {MOST_THREADS:,}."
    if metadata.shared > target.shared_bytes:
        most = f"{target.shared_bytes:,} on {target.name}"
        return f"It needs {metadata.shared:,} bytes of shared memory, and a program has at most {most}."
    return ""


def _rounds_on_the_way(ttir: str) -> str:
    """Where a kernel computes in a 16-bit type, or converts to one and back."""
    if found := IN_16_BITS.search(ttir):
        return f"It computes in {'bfloat16' if found[2] == 'bf16' else 'float16'} ({found[1]})"
    rounded = re.findall(r"(%\w+) = arith\.truncf ", ttir)
    again = any(re.search(rf"arith\.extf {name}\b", ttir) for name in rounded)
    return "It rounds to 16 bits and computes on" if again else ""


def values(
    exercise_id: str, source: dict[str, Any]
) -> tuple[Judged, list[str], bool, dict[str, Any] | None]:
    """Whether the answer is right, what could not be told, whether it raised, and where: see `Where`. In a child that runs
    kernels."""
    exercise = code_exercise(exercise_id)
    function = exercise.function(Source.from_json(source).load())
    cases, outcomes, longer = _tried(exercise, function)
    for number, outcome in enumerate(outcomes):
        if problem := outcome.problem:
            raised = problem.kind == "raised"
            verdict: Any = "wrong" if raised else problem.kind
            where = Where(number, problem.program, problem.launch, problem.index, longer)
            said = verdict, f"{outcome.reason}\nThe case: {outcome.case}."
            return said, [], raised, asdict(where) if MODE.interpreting else None
    for case, outcome in zip(cases, outcomes, strict=False):
        if outcome.work and (words := _work_problem(exercise, case, outcome.work)):
            return ("wrong", f"{words}\nThe case: {outcome.case}."), [], False, None
    if lacking := next((outcome.lacking for outcome in outcomes if outcome.lacking), ""):
        return ("left to the GPU", f"{cannot_run(lacking)}."), [], False, None
    ran = sum(outcome.verdict == "right" for outcome in outcomes)
    left = Verified("the answer", outcomes).left()
    return ("right", f"in {ran} case{'s' if ran != 1 else ''}"), left, False, None


def _tried(
    exercise: Code, function: Callable[..., torch.Tensor]
) -> tuple[tuple[Case, ...], tuple[Outcome, ...], int | None]:
    """The cases that an answer was tried on, what came of them up to the first wrong one, and what
    `exercise.longer` was given.

    That case comes third, if the first two are right and started as many programs: it is larger
    than what these can write. So it is wrong where the grid is of a fixed size and no program goes
    on in a loop, and found out before the other cases have run such a grid.
    """
    cases = exercise.cases
    found = _verified(exercise, function, cases[:2])
    if found[-1].verdict == "wrong":
        return cases, found, None
    done = [outcome.work for outcome in found if outcome.work]
    longer = None
    if exercise.longer and len({work.programs for work in done}) == 1:
        longer = max(work.reach for work in done)
        cases = (*cases[:2], exercise.longer(longer), *cases[2:])
    return cases, (*found, *_verified(exercise, function, cases[2:])), longer


def _verified(
    exercise: Code, function: Callable[..., torch.Tensor], cases: tuple[Case, ...]
) -> tuple[Outcome, ...]:
    if not cases:
        return ()
    return verify(
        function,
        exercise.reference,
        cases,
        absolute=exercise.absolute,
        contiguous=exercise.contiguous,
        first_wrong_only=True,
        block=exercise.block,
        case_s=math.inf,  # the child has its limit
    ).outcomes


def _work_problem(exercise: Code, case: Case, work: Work) -> str:
    """What is wrong with the way in which an answer gets the right values."""
    if isinstance(exercise, Launcher) and case.elements:
        if work.torch_operations:
            names = ", ".join(dict.fromkeys(work.torch_operations))
            return f"It computes with PyTorch ({names}): let the kernel do that."
        if work.torch_copies and not exercise.may_copy:
            return "It copies with PyTorch (`.contiguous()`, perhaps): let the kernel read the elements where they lie."
        if not work.launches:
            return "It launched no kernel."
        if not work.result_stored:
            return "What it returned was stored by no kernel."
        if case is exercise.cases[0] and work.launches <= exercise.trials:
            return (
                f"The values are right, but its first call does not try {exercise.trials} configurations: "
                "keep @triton.autotune as it is, and mend what it does to the arguments."
            )
    if exercise.most_launches is not None and work.launches > exercise.most_launches:
        return f"The values are right, but it took {work.launches} launches where {exercise.most_launches} will do."
    if work.idle_programs > max(FREE_PROGRAMS, 8 * work.busy_programs):
        every = f"{work.idle_programs + work.busy_programs:,}"
        busy = f"{work.busy_programs:,}"
        return f"The values are right, but of {every} programs {busy} had an element to work on: look at the grid."
    if exercise.most_bytes is not None:
        most = exercise.most_bytes(*(made.tensor for made in case.make("cpu")), *case.scalars)
        if work.bytes_moved > most:
            return f"The values are right, but it moved {work.bytes_moved:,} bytes where {most:,} will do."
    return ""


def _place(problem: CompileProblem, definitions: tuple[Definition, ...]) -> str:
    """The line in the reader's own file or cell at which the compiler stopped, and why."""
    reason = problem.reason.split(". ")[0].rstrip(".")
    found = problem.within(definitions)
    return (
        f"Line {found.line} of {definitions[found.which].place}:  {found.text}\n{reason}."
        if found
        else f"{reason}."
    )
