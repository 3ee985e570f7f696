"""What the compiler's word and a compiled kernel say against an answer."""

import re
from typing import Any

from course.gpus.limits import MOST_THREADS, Target
from course.isolate.function_source import Definition
from course.triton_internals.errors import CompileProblem
from course.type_names import Kernel

from .kinds import Code
from .result import Judged

IN_16_BITS = re.compile(r"\b(arith\.(?:add|sub|mul|div)f|math\.\w+) .*(?:x|\b)(bf16|f16)\b")
"""Arithmetic on 16-bit floats in TTIR: the operation, and the type."""


def refusal(problem: CompileProblem, definitions: tuple[Definition, ...]) -> str:
    """The line in the reader's own file or cell at which the compiler stopped, and why."""
    reason = problem.reason.split(". ")[0].rstrip(".")
    place = problem.within(definitions)
    if place is None:
        return f"{reason}."
    return f"Line {place.line} of {definitions[place.which].place}:  {place.text}\n{reason}."


def compiled_problem(exercise: Code, kernel: Kernel, target: Target) -> Judged | None:
    """What is wrong with a kernel that compiles: it is too large to launch, or not as asked."""
    if reason := _too_large(kernel.metadata, target):
        return Judged("does not compile", reason)
    if exercise.compiled and (reason := exercise.compiled(kernel.asm)):
        return Judged("wrong", reason)
    if exercise.in_float32 and (rounding := _rounds_on_the_way(kernel.asm["ttir"])):
        instead = "convert to float32 after the load, and back only for the store"
        return Judged("wrong", f"{rounding}: {instead}.")
    return None


def _too_large(metadata: Any, target: Target) -> str:
    """Why the target cannot launch a kernel that compiles; empty if it can."""
    warps, shared = metadata.num_warps, metadata.shared
    if (threads := warps * target.warp_size) > MOST_THREADS:
        most = f"a program has at most {MOST_THREADS:,}"
        return f"{warps} warps are {threads:,} threads, and {most}."
    if shared > target.shared_bytes:
        most = f"a program has at most {target.shared_bytes:,} on {target.name}"
        return f"It needs {shared:,} bytes of shared memory, and {most}."
    return ""


def _rounds_on_the_way(ttir: str) -> str:
    """How a kernel computes in a 16-bit type, or converts to one and back; empty if not."""
    if operation := IN_16_BITS.search(ttir):
        dtype = "bfloat16" if operation[2] == "bf16" else "float16"
        return f"It computes in {dtype} ({operation[1]})"
    rounded = re.findall(r"(%\w+) = arith\.truncf ", ttir)
    widened = any(re.search(rf"arith\.extf {name}\b", ttir) for name in rounded)
    return "It rounds to 16 bits and computes on" if widened else ""
