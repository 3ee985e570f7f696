"""What the compiler's word and a compiled kernel say against an answer."""

import re
from typing import Any

from course.exercises.kinds import CodeExercise
from course.exercises.result import Judged, wrong
from course.gpus.limits import MOST_THREADS, Target
from course.triton_internals.compiler import CompiledKernel

IN_16_BITS = re.compile(r"\b(arith\.(?:add|sub|mul|div)f|math\.\w+) .*(?:x|\b)(bf16|f16)\b")
"""Arithmetic on 16-bit floats in TTIR: the operation, and the type."""


ONE_BY_ONE = (
    "The values are right, but it goes through the elements one by one: load and store a whole "
    "block of them at once, at the offsets of tl.arange, with a mask."
)


def compiled_problem(
    exercise: CodeExercise, kernel: CompiledKernel, target: Target
) -> Judged | None:
    """What is wrong with a kernel that compiles: it is too large to launch, or not as asked."""
    if reason := _too_large(kernel.metadata, target):
        return Judged("does not compile", reason, "too large")
    if not exercise.one_by_one and _goes_one_by_one(kernel.asm["ttir"]):
        return wrong("one by one", ONE_BY_ONE)
    if exercise.compiled and (judged := exercise.compiled(kernel.asm)):
        return judged
    if exercise.in_float32 and (rounding := _rounds_on_the_way(kernel.asm["ttir"])):
        ends = "for a tl.dot or the store" if "tt.dot" in kernel.asm["source"] else "for the store"
        instead = f"convert to float32 after the load, and back only {ends}"
        return wrong("16 bits", f"{rounding}: {instead}.")
    return None


def _goes_one_by_one(ttir: str) -> bool:
    """Whether a loop in a kernel goes through memory by single elements and never by a block."""
    loads = re.findall(r"tt\.load .* : (.*)", ttir)
    accesses = loads or re.findall(r"tt\.store .* : (.*)", ttir)
    in_loop = re.search(r"scf\.(for|while)\b", ttir)
    return bool(accesses and in_loop) and all(kind.startswith("!tt.ptr") for kind in accesses)


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
