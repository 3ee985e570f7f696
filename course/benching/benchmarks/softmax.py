"""Softmax: right against torch in float64; fast against torch's, a compiled one, and a copy."""

from functools import partial

import torch

from course.benching.benchmarks import Function, Operation, Study
from course.benching.series import X_BYTES, at_every_size, peers, row_study, series_of, versions_of
from course.gpus.timing import copy_of
from course.verifying.inputs import FLOATS, Case, Input, matrices

VERSIONS = versions_of("softmax")


def _by_torch(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


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
    # Wider rows spill.
    most = {"softmax_v2": 2**15, "softmax_v4": 2**11, "softmax_v5": 2**15, "softmax_v8": 2**15}
    versions = dict(VERSIONS)
    v7 = versions.pop("softmax_v7")
    return row_study(
        name,
        dtype,
        widths=sorted([*(2**k for k in range(6, 19)), 781, 50_257]),
        inputs=lambda x: (x,),
        bytes=lambda x: 2 * x.nbytes,  # read once, written once
        series={
            **series_of(versions, most),
            **peers(_by_torch, _by_torch, copies=2, dtype=dtype),
            "softmax_v7": lambda n: v7 if 2**13 <= n <= 2**18 else None,
        },
    )


def _at_depth(depth: int) -> Function:
    return partial(VERSIONS["softmax_v8"], depth=depth)


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
        "a row a program": at_every_size(VERSIONS["softmax_v2"]),
        "copy": lambda depth: copy_of(2 * X_BYTES),
    },
)


OPERATION = Operation(
    name="softmax",
    ladder=VERSIONS,
    reference=_by_torch,
    cases=_cases(),
    absolute=1e-10,  # where the exponent is far below 0, its rounding is large beside a tiny result
    studies=(_study("softmax", torch.float32), _study("softmax_bfloat16", torch.bfloat16), DEPTHS),
)
