"""Try an answer, in a child process: compile it, and run it on the exercise's cases."""

import importlib
import re
from typing import Any

from course import MODE
from course.compiling.private import CompileError, CompileProblem, launches_compiled, prepare_compiler
from course.compiling.source import Definition, Source
from course.compiling.targets import target_of
from course.measuring.cases import Case
from course.measuring.verify import Work, verify

from .exercise import Code, Judged, Kernel
from .exercises import find

IN_16_BITS = re.compile(r"\b(arith\.(?:add|sub|mul|div)f|math\.\w+) .*(?:x|\b)(bf16|f16)\b")


def prepare_worker() -> None:
    """What PyTorch and Triton would otherwise load in each trial anew."""
    if MODE.interpreting or MODE.gpu:
        importlib.import_module("torch._dynamo")  # the first TorchDispatchMode asks for it
    if not MODE.interpreting:
        prepare_compiler()


def compiles(exercise_id: str, source: dict[str, Any], target: str) -> Judged:
    """Whether what the answer launches on the exercise's cases compiles for `target`. In a child that compiles."""
    exercise, text = _code(exercise_id), Source.from_json(source)
    function = exercise.function(text.load())
    with launches_compiled(target_of(target).triton) as kernels:
        for case in exercise.cases:
            try:
                function(*(made.tensor for made in case.make("cpu")), *case.scalars)
            except CompileError as error:
                return "does not compile", _place(error.problem, text.definitions)
            except Exception:
                break  # nothing that the compiler says: running it shows what is wrong
    shared = max((kernel.metadata.shared for kernel in kernels), default=0)
    if shared > (most := target_of(target).shared_bytes):
        return "does not compile", f"It needs {shared:,} bytes of shared memory, and a program has {most:,} on {target}."
    if exercise.in_float32:
        for kernel in kernels:
            if problem := _rounds_on_the_way(kernel.asm["ttir"]):
                return "wrong", f"{problem}: convert to float32 after the load, and back only for the store."
    return "right", ""


def _rounds_on_the_way(ttir: str) -> str:
    """Where a kernel computes in a 16-bit type, or converts to one and back."""
    if found := IN_16_BITS.search(ttir):
        return f"It computes in {'bfloat16' if found[2] == 'bf16' else 'float16'} ({found[1]})"
    rounded = re.findall(r"(%\w+) = arith\.truncf ", ttir)
    again = any(re.search(rf"arith\.extf {name}\b", ttir) for name in rounded)
    return "It rounds to 16 bits and computes on" if again else ""


def values(exercise_id: str, source: dict[str, Any]) -> tuple[Judged, list[str]]:
    """Whether the answer is right on the exercise's cases, and what could not be told; in a child that runs kernels."""
    exercise = _code(exercise_id)
    function = exercise.function(Source.from_json(source).load())
    result = verify(function, exercise.reference, exercise.cases, absolute=exercise.absolute, first_wrong_only=True)
    for outcome in result.wrong:
        return (outcome.kind, f"{outcome.reason}\nThe case: {outcome.case}."), []  # type: ignore[return-value]
    for case, outcome in zip(exercise.cases, result.outcomes, strict=False):
        if outcome.work and (problem := _work_problem(exercise, case, outcome.work)):
            return ("wrong", f"{problem}\nThe case: {outcome.case}."), []
    ran = sum(outcome.verdict == "right" for outcome in result.outcomes)
    return ("right", f"in {ran} case{'s' if ran != 1 else ''}"), result.left()


def _code(exercise_id: str) -> Code:
    exercise = find(exercise_id)
    assert isinstance(exercise, Code)
    return exercise


def _work_problem(exercise: Code, case: Case, work: Work) -> str:
    """What is wrong with the way in which a launcher gets the right values."""
    if isinstance(exercise, Kernel):
        return ""
    if work.torch_operations:
        names = ", ".join(dict.fromkeys(work.torch_operations))
        return f"It computes with PyTorch ({names}): let the kernel do that."
    if work.torch_copies and not exercise.may_copy:
        return "It copies with PyTorch (`.contiguous()`, perhaps): let the kernel read the elements where they lie."
    if not work.launches and case.elements:
        return "It launched no kernel."
    if exercise.most_bytes is not None:
        most = exercise.most_bytes(*(made.tensor for made in case.make("cpu")), *case.scalars)
        if work.bytes_moved > most:
            return f"The values are right, but its kernels moved {work.bytes_moved:,} bytes where {most:,} do."
    return ""


def _place(problem: CompileProblem, definitions: tuple[Definition, ...]) -> str:
    """The line in the reader's own file or cell at which the compiler stopped, and why."""
    reason = problem.reason.split(". ")[0].rstrip(".")
    for definition in definitions:
        before, found, _ = definition.text.partition(problem.source.rstrip())
        if problem.source and found:
            text = problem.source.split("\n")[problem.line - 1].strip()
            line = definition.line + before.count("\n") + problem.line - 1
            return f"Line {line} of {definition.place}:  {text}\n{reason}."
    return f"{reason}."
