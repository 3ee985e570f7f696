"""Softmax: right against torch in float64; fast against torch's, a compiled one, and a copy."""

import torch

from course.benching.benchmarks import Function, Operation, Study
from course.gpus.timing import copy_of
from course.verifying.inputs import FLOATS, Case, Input, matrices
from kernels.softmax import (
    VERSIONS,
    softmax,
    softmax_v1,
    softmax_v2,
    softmax_v3,
    softmax_v4,
    softmax_v5,
    softmax_v6,
    softmax_v7,
    softmax_v8,
)

X_BYTES = 2**30
"""The matrix that is timed, whatever its width: many times what the L2 cache holds."""


def _by_torch(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


def _compiled() -> Function:
    """torch.compile's, for the next shape alone: it would give up compiling after a few shapes."""
    torch._dynamo.reset()
    compiled: Function = torch.compile(_by_torch, dynamic=False)
    return compiled


def _cases() -> list[Case]:
    """Any matrix, and rows that each version splits in another way: blocks, vectors, programs."""
    cases = matrices()
    for dtype in FLOATS:
        for shape in ((5, 1000), (3, 4097), (2, 16384), (3, 20_001), (2, 50_257)):
            cases.append(Case((Input(shape, dtype),), seed=shape[1]))
        for layout in ("offset by one element", "left part of a wider one", "transposed"):
            cases.append(Case((Input((3, 17_000), dtype, layout),), seed=1))
        for values in ("large", "NaN and inf"):
            cases.append(Case((Input((3, 17_001), dtype, values=values),), seed=2))
    return cases


def _study(name: str, dtype: torch.dtype) -> Study:
    def make(columns: int) -> tuple[torch.Tensor]:
        rows = X_BYTES // (columns * dtype.itemsize)
        return (torch.randn(rows, columns, dtype=dtype, device="cuda"),)

    return Study(
        name=name,
        x_name=f"columns of {str(dtype).removeprefix('torch.')}",
        xs=sorted([*(2**k for k in range(6, 19)), 781, 50_257]),
        make=make,
        bytes=lambda x: 2 * x.nbytes,  # read once, written once
        series={
            "softmax": lambda n: softmax,
            "softmax_v1": lambda n: softmax_v1,
            "softmax_v2": lambda n: softmax_v2 if n <= 2**15 else None,  # wider rows spill
            "softmax_v3": lambda n: softmax_v3,
            "softmax_v4": lambda n: softmax_v4 if n <= 2**11 else None,
            "softmax_v5": lambda n: softmax_v5 if n <= 2**15 else None,
            "softmax_v6": lambda n: softmax_v6,
            "softmax_v8": lambda n: softmax_v8 if n <= 2**15 else None,
            "torch": lambda n: _by_torch,
            "torch.compile": lambda n: _compiled(),
            "copy": lambda n: copy_of(2 * (X_BYTES // (n * dtype.itemsize)) * n * dtype.itemsize),
            "softmax_v7": lambda n: softmax_v7 if 2**13 <= n <= 2**18 else None,
        },
    )


def _at_depth(depth: int) -> Function:
    return lambda x: softmax_v8(x, depth=depth)


DEPTHS = Study(
    name="softmax_depths",
    x_name="pipeline depth",
    xs=(1, 2, 3, 4),
    make=lambda depth: (
        torch.randn(X_BYTES // (2 * 8192), 8192, dtype=torch.bfloat16, device="cuda"),
    ),
    bytes=lambda x: 2 * x.nbytes,
    series={
        "persistent": _at_depth,
        "a row a program": lambda depth: softmax_v2,
        "copy": lambda depth: copy_of(2 * X_BYTES),
    },
)


OPERATION = Operation(
    name="softmax",
    ladder={**VERSIONS, "softmax": softmax},
    reference=_by_torch,
    cases=_cases(),
    absolute=1e-10,  # where the exponent is far below 0, its rounding is large beside a tiny result
    studies=(_study("softmax", torch.float32), _study("softmax_bfloat16", torch.bfloat16), DEPTHS),
)
