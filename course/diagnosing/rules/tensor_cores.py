"""tl.dot that became no tensor-core instruction, or an older one than the GPU has."""

import re
from collections.abc import Iterator
from dataclasses import replace

from course.gpus import throughput as unit
from course.lowering.source_map import SourceLine

from ..evidence import Evidence
from ..result import Finding
from ..time_model import Work

_DOT = re.compile(r"\btt\.dot\b")
IN_GLUON = {"mma": "mma_v2", "wgmma": "hopper.warpgroup_mma", "tcgen05": "blackwell.tcgen05_mma"}
"""The functions of gluon.language.nvidia by which the tensor cores multiply."""
_OPERANDS = re.compile(r"tensor<[\dx]*x(\w+)")
TENSOR_TYPE = {"f32": "tf32", "f16": "fp16", "bf16": "bf16", "f64": "fp64"}
ONE_BY_ONE = (unit.FLOAT16, unit.FLOAT32, unit.FLOAT64, unit.SHARED)
"""The units that compute products outside the tensor cores."""


def no_tensor_core(evidence: Evidence) -> Iterator[Finding]:
    """Products that multiply-adds do, one by one."""
    dots, work = dots_of(evidence), evidence.work
    if not dots or evidence.dot_instruction or not evidence.gpu.dot:
        return
    line, row = dots[0]
    if "xf64" in row:
        return  # wgmma has no float64
    kind = next(iter(_OPERANDS.findall(row)), "")
    number = f"{len(dots)} tl.dot, " if len(dots) > 1 else ""
    yield Finding(
        "tensor cores",
        f"{number}no tensor-core instruction: the products are done by multiply-adds",
        *_reason(evidence, kind, row),
        mended=None if work is None else _in_tensor_cores(evidence, work, kind),
        place=line,
        always=True,
    )


def _in_tensor_cores(evidence: Evidence, work: Work, kind: str) -> Work:
    """The launch's work once tensor cores do the products, of operands of this kind."""
    assert evidence.counts is not None
    simple = dict(work.simple)
    for operand, number in evidence.counts.dot.items():
        simple[operand if operand in evidence.gpu.vector else "fp32"] -= number
    lines = {line.frame for line, _ in dots_of(evidence) if line}
    return replace(
        work,
        simple=simple,
        dot={TENSOR_TYPE.get(kind, "fp16"): sum(evidence.counts.dot.values())},
        instructions=evidence.instructions_without(
            lambda run: run.instruction.unit in ONE_BY_ONE and run.line in lines
        ),
    )


def _reason(evidence: Evidence, kind: str, row: str) -> tuple[str, str]:
    """Why a product became no tensor-core instruction, and the change to try."""
    name = evidence.target.name
    if evidence.gluon:
        return (
            "gl.dot_fma multiplies and adds outside the tensor cores.",
            f"{IN_GLUON.get(evidence.target.dot, 'the product of the tensor cores')}.",
        )
    if evidence.target.nvidia and evidence.target.capability < 80:
        return f"Triton uses no tensor cores on {name}.", "run it on sm_80 or later."
    if kind == "f32" and "tf32" not in row:
        return (
            'float32 with input_precision="ieee" is computed without tensor cores.',
            'input_precision="tf32" or "tf32x3" if its rounding is good enough, or operands of '
            "16 bits.",
        )
    if kind == "f64":
        return (
            "the operands are float64.",
            "operands of 16 bits, or float32 with tf32, if their rounding is good enough.",
        )
    return (
        f"the compiler found no instruction on {name} for these types and sizes.",
        "operands of 16 bits in blocks of 16 or more along every axis.",
    )


def older_instruction(evidence: Evidence) -> Iterator[Finding]:
    """Products by mma.sync where the GPU has the faster wgmma."""
    work, dots = evidence.work, dots_of(evidence)
    if evidence.target.dot != "wgmma" or evidence.dot_instruction != "mma" or not dots:
        return
    warps = evidence.lowered.resources.num_warps
    rows = next(iter(tile_of(evidence)), 0)
    if evidence.gluon:
        why, change = "mma_v2 is mma.sync.", f"{IN_GLUON['wgmma']}, on operands in shared memory."
    elif warps < 4:
        why = f"wgmma takes four warps together, and a program has {warps}."
        change = "num_warps=4 or 8."
    elif rows < 64:
        why = f"wgmma takes 64 rows at least, and the block has {rows}."
        change = "let the block of the result have 64 rows or more."
    else:
        why = "the compiler did not choose it for these types and this order of the operands."
        change = "16 bits for both operands, and load each as it is multiplied."
    yield Finding(
        "older dot",
        "tl.dot became mma.sync, which reaches about 62% of what wgmma does",
        why,
        change,
        mended=None if work is None else replace(work, dot_share=1),
        place=dots[0][0],
        always=True,
    )


def tile_of(evidence: Evidence) -> tuple[int, ...]:
    """The rows and columns of the first product's result; none if they are not known."""
    for _, row in dots_of(evidence)[:1]:
        for sizes in re.findall(r"tensor<([\dx]+)x\w+", row)[-1:]:
            return tuple(map(int, sizes.split("x")[-2:]))  # the first axis may be a batch
    return ()


def dots_of(evidence: Evidence) -> list[tuple[SourceLine | None, str]]:
    """The products of the TTIR, or of Gluon's TTGIR, each with its line."""
    stage = "ttgir" if evidence.gluon else "ttir"
    rows = evidence.lowered.text(stage).split("\n")
    return [
        (evidence.lowered.lines.back(stage, number), row)
        for number, row in enumerate(rows, start=1)
        if _DOT.search(row)
    ]
