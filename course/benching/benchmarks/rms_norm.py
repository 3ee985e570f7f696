"""RMSNorm: right against torch in float64; fast against torch's, a compiled one, and a copy."""

from dataclasses import replace

import torch
from torch.nn.functional import rms_norm as torchs_rms_norm

from course.benching.benchmarks import Function, Operation, Study
from course.gpus.timing import copy_of
from course.verifying.inputs import FLOATS, Case, Input, matrices
from kernels.rms_norm import (
    EPS,
    rms_norm,
    rms_norm_v1,
    rms_norm_v2,
    rms_norm_v3,
    rms_norm_v4,
    rms_norm_v5,
)

VERSIONS: tuple[Function, ...] = (
    rms_norm_v1, rms_norm_v2, rms_norm_v3, rms_norm_v4, rms_norm_v5, rms_norm,
)  # fmt: skip
X_BYTES = 2**30
"""The matrix that is timed, whatever its width: many times what the L2 cache holds."""
WIDTHS = sorted([*(2**k for k in range(7, 16)), 3584, 5120])
"""Widths that models have, from a head to the widest hidden layers."""


def by_torch(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMSNorm as PyTorch computes it."""
    return torchs_rms_norm(x, weight.shape, weight, EPS)


def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The formula, in the dtype of x. PyTorch's fused kernel treats infinities otherwise."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPS) * weight


def in_steps(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMSNorm as models spell it out: in float32, a step at a time."""
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPS)
    return (wide * rstd * weight).to(x.dtype)


def compiled(function: Function) -> Function:
    """torch.compile's, for the next shape alone: it would give up compiling after a few shapes."""
    torch._dynamo.reset()
    faster: Function = torch.compile(function, dynamic=False)
    return faster


def _cases() -> list[Case]:
    """Any matrix, and rows that each version splits in another way: blocks, vectors, programs."""
    cases = matrices(with_row=True)
    for dtype in FLOATS:
        for shape in ((5, 1000), (3, 4097), (2, 16384), (3, 20_001), (2, 40_000)):
            cases.append(Case((Input(shape, dtype), Input(shape[1:], dtype)), seed=shape[1]))
        for layout in ("offset by one element", "left part of a wider one", "transposed"):
            matrix = Input((3, 17_000), dtype, layout)
            cases.append(Case((matrix, Input((17_000,), dtype)), seed=1))
    return cases


def _study(name: str, dtype: torch.dtype) -> Study:
    def make(columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = X_BYTES // (columns * dtype.itemsize)
        return (
            torch.randn(rows, columns, dtype=dtype, device="cuda"),
            torch.randn(columns, dtype=dtype, device="cuda"),
        )

    def copy(columns: int) -> Function:
        return copy_of(2 * (X_BYTES // (columns * dtype.itemsize)) * columns * dtype.itemsize)

    return Study(
        name=name,
        x_name=f"columns of {str(dtype).removeprefix('torch.')}",
        xs=WIDTHS,
        make=make,
        bytes=lambda x, weight: 2 * x.nbytes + weight.nbytes,  # read once, written once
        series={
            "rms_norm": lambda n: rms_norm,
            "rms_norm_v1": lambda n: rms_norm_v1,
            "rms_norm_v2": lambda n: rms_norm_v2,
            "rms_norm_v3": lambda n: rms_norm_v3 if n <= 2**11 else None,  # a row fills the tile
            "rms_norm_v4": lambda n: rms_norm_v4,
            "rms_norm_v5": lambda n: rms_norm_v5,
            "torch": lambda n: by_torch,
            "torch, in steps": lambda n: in_steps,
            "torch.compile": lambda n: compiled(in_steps),
            "copy": copy,
        },
    )


def _without_ladder(study: Study) -> Study:
    """The course's own function and its peers alone, which takes the GPU a third of the time."""
    kept = {name: make for name, make in study.series.items() if not name.startswith("rms_norm_v")}
    return replace(study, series=kept)


OPERATION = Operation(
    name="rms_norm",
    ladder={version.__name__: version for version in VERSIONS},
    reference=reference,
    cases=_cases(),
    studies=(
        _study("rms_norm", torch.float32),
        _without_ladder(_study("rms_norm_bfloat16", torch.bfloat16)),
    ),
)
