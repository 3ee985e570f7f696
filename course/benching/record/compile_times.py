"""What a compilation takes the CPU, by version of Triton.

    python -m course.benching.record.compile_times FOLDER FOLDER …

Each folder holds one Triton (`pip install --no-deps --target FOLDER triton==VERSION`). The versions
take turns, round after round, each in a process of its own, so that a change of the machine's pace
hits all alike; what counts is CPU time, the assembler's included. Needs no GPU.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from course.gpus.limits import target_of
from course.triton_internals.compiler import compile_for_types
from kernels import matmul, softmax, vector_add
from kernels.attention.export import _fwd_kernel

TARGET = "sm_90"
ROUNDS = 5
COMPILATIONS = 3
"""Compilations of each kernel in a process, after one that warms up."""

# Kernel, the types of its arguments, its constants, the compiler's options.
KERNELS: tuple[tuple[Any, str, dict[str, Any], dict[str, int]], ...] = (
    (vector_add.add_kernel, "*fp32 *fp32 *fp32 i32", {"BLOCK_SIZE": 1024}, {}),
    (softmax.softmax_kernel_v2, "*bf16 *bf16 i32 i32", {"BLOCK_N": 4096}, {"num_warps": 8}),
    (
        matmul.matmul_kernel_v2,
        "*fp16 *fp16 *fp16" + 7 * " i32",
        {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "INPUT_PRECISION": "tf32"},
        {"num_warps": 8},
    ),
    (
        _fwd_kernel,
        "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 fp32" + 18 * " i32",
        {"EVEN_M": True, "EVEN_N": True, "EVEN_HEADDIM": True, "IS_CAUSAL": True,
         "BLOCK_HEADDIM": 128, "BLOCK_M": 128, "BLOCK_N": 64},
        {"num_warps": 8},
    ),
)  # fmt: skip


def compile_all() -> Iterator[tuple[str, float]]:
    """Each kernel with the CPU milliseconds that this process's Triton takes to compile it."""
    for kernel, types, constants, options in KERNELS:
        every_type = [*types.split(), *["constexpr"] * len(constants)]
        signature = dict(zip(kernel.arg_names, every_type, strict=True))
        divisible = [name for name, kind in signature.items() if kind == "i32" or kind[0] == "*"]
        target = target_of(TARGET).triton
        times = []
        for _ in range(COMPILATIONS + 1):
            start = _cpu_ms()
            compile_for_types(kernel, signature, constants, divisible, target, options)
            times.append(_cpu_ms() - start)
        yield kernel.__name__, median(times[1:])


def _cpu_ms() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return 1000 * sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


def compare(folders: list[str]) -> str:
    """A table of medians over ROUNDS rounds: a row per kernel, a column per folder."""
    rounds: dict[str, list[dict[str, float]]] = {folder: [] for folder in folders}
    for _ in range(ROUNDS):
        for folder in folders:
            rounds[folder].append(_in_a_process(folder))
    lines = [f"CPU ms for {TARGET}   " + "".join(f"{Path(folder).name:>16}" for folder in folders)]
    for name in rounds[folders[0]][0]:
        medians = (median(times[name] for times in rounds[folder]) for folder in folders)
        lines.append(f"{name:20}" + "".join(f"{ms:16.0f}" for ms in medians))
    return "\n".join(lines)


def _in_a_process(folder: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="course-compile-") as cache:
        environ = os.environ | {
            "COURSE_CHILD": "compile",
            "TRITON_INTERPRET": "0",
            "TRITON_ALWAYS_COMPILE": "1",
            "TRITON_CACHE_DIR": cache,
            "PYTHONPATH": f"{Path(folder).resolve()}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        command = [sys.executable, "-m", "course.benching.record.compile_times"]
        done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times


if __name__ == "__main__":
    print(compare(sys.argv[1:]) if len(sys.argv) > 1 else json.dumps(dict(compile_all())))
