"""Matrix product: right against torch in float64, exact in float32; fast against torch's."""

from functools import wraps

import torch

from course.benching.benchmarks import Function, Operation, Study
from course.benching.series import at_every_size, series_of, text_of, versions_of
from course.verifying.inputs import FLOATS, Case, matrix_pair

VERSIONS = versions_of("matmul")


def _exact(version: Function) -> Function:
    """The version with float32 multiplied in float32: TF32 operands would look wrong."""

    @wraps(version)
    def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return version(a, b, input_precision="ieee")

    return multiply


def _by_torch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def _by_torch_in_tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch multiplies float32 exactly, unless it is told otherwise."""
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return a @ b
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def _cases() -> list[Case]:
    """Shapes that blocks do not divide, pairs of layouts, nothing to add up, NaN and infinities."""
    empty = ((0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0))
    sizes = ((64, 64, 64), (128, 256, 64), (1, 300, 70), (300, 1, 70), (129, 257, 65))
    cases = [matrix_pair(*size, torch.float32) for size in (*empty, (1, 1, 1))]
    for dtype in FLOATS:
        cases += [matrix_pair(*size, dtype) for size in sizes]
        cases += [
            matrix_pair(72, 40, 136, dtype, a_layout="transposed"),
            matrix_pair(72, 40, 136, dtype, a_layout="offset by one element"),
            matrix_pair(72, 40, 136, dtype, b_layout="transposed"),
            matrix_pair(72, 40, 136, dtype, b_layout="every second element"),
            matrix_pair(65, 33, 47, dtype, "transposed", "left part of a wider one"),
            matrix_pair(72, 40, 136, dtype, "transposed", "transposed"),
            matrix_pair(65, 72, 40, dtype, values="NaN and inf"),
            matrix_pair(1024, 1040, 1032, dtype),
        ]
    cases.append(matrix_pair(1025, 1027, 1029, torch.float16))
    return cases


def _study(name: str, dtype: torch.dtype, torchs: Function) -> Study:
    def make(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        m, k = (4097, 4099) if n == 4101 else (n, n)
        a, b = (torch.randn(s, dtype=dtype, device="cuda") for s in ((m, k), (k, n)))
        return a, b

    return Study(
        name=name,
        x_name=f"N of {text_of(dtype)}",
        xs=(1024, 2048, 4096, 4101, 8192),
        make=make,
        # read once, written once
        bytes=lambda a, b: (a.numel() + b.numel() + a.shape[0] * b.shape[1]) * a.itemsize,
        operations=lambda a, b: 2 * a.numel() * b.shape[1],
        series={
            "matmul": at_every_size(VERSIONS["matmul"]),
            "torch": at_every_size(torchs),
            **series_of(VERSIONS),
        },
    )


OPERATION = Operation(
    name="matmul",
    ladder={name: _exact(version) for name, version in VERSIONS.items()},
    reference=_by_torch,
    cases=_cases(),
    absolute=2e-4,  # sums of up to 1,032 products of either sign, in float32
    studies=(
        _study("matmul", torch.float16, _by_torch),
        _study("matmul_bfloat16", torch.bfloat16, _by_torch),
        _study("matmul_float32", torch.float32, _by_torch_in_tf32),
    ),
)
