"""RMSNorm: right against torch in float64; fast against torch's, a compiled one, and a copy."""

from dataclasses import replace

import torch
from torch.nn.functional import rms_norm as torchs_rms_norm

from course.benching.benchmarks import Operation, Study
from course.benching.series import at_every_size, peers, row_study, series_of, versions_of
from course.verifying.inputs import FLOATS, Case, Input, matrices
from kernels.rms_norm import EPS

VERSIONS = versions_of("rms_norm")
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
    def inputs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, torch.randn(x.shape[1], dtype=dtype, device="cuda")

    return row_study(
        name,
        dtype,
        WIDTHS,
        inputs,
        bytes=lambda x, weight: 2 * x.nbytes + weight.nbytes,  # read once, written once
        series={
            **series_of(VERSIONS, most={"rms_norm_v3": 2**11}),  # a row fills the tile
            "torch": at_every_size(by_torch),
            "torch, in steps": at_every_size(in_steps),
            **peers(by_torch, in_steps, copies=2, dtype=dtype),
        },
    )


def _without_ladder(study: Study) -> Study:
    """The course's own function and its peers alone, which takes the GPU a third of the time."""
    kept = {name: make for name, make in study.series.items() if not name.startswith("rms_norm_v")}
    return replace(study, series=kept)


OPERATION = Operation(
    name="rms_norm",
    ladder=VERSIONS,
    reference=reference,
    cases=_cases(),
    studies=(
        _study("rms_norm", torch.float32),
        _without_ladder(_study("rms_norm_bfloat16", torch.bfloat16)),
    ),
)
