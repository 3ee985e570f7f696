"""Matrix product: right against torch in float64, exact in float32; every version's speed against torch's."""

from functools import wraps

import torch

from course.benching.benchmarks import Function, Operation, Study
from course.verifying.inputs import FLOATS, Case, Input
from kernels.matmul import matmul, matmul_v1, matmul_v2, matmul_v3, matmul_v4, matmul_v5

VERSIONS = (matmul_v1, matmul_v2, matmul_v3, matmul_v4, matmul_v5, matmul)


def _exact(version: Function) -> Function:
    """The version with float32 multiplied in float32: TF32 operands are too far from float64 to be told from wrong ones."""

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
    """Shapes that blocks do not divide, every pair of layouts, nothing to add up, and NaN beyond what must be read."""

    def case(
        m: int,
        n: int,
        k: int,
        dtype: torch.dtype,
        layouts: tuple[str, str] = ("contiguous",) * 2,
        values: str = "normal",
    ):
        a, b = Input((m, k), dtype, layouts[0], values), Input((k, n), dtype, layouts[1], values)
        return Case((a, b), seed=m + n + k)

    found = [
        case(m, n, k, torch.float32)
        for m, n, k in ((0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0), (1, 1, 1))
    ]
    for dtype in FLOATS:
        found += [
            case(m, n, k, dtype)
            for m, n, k in (
                (64, 64, 64),
                (128, 256, 64),
                (1, 300, 70),
                (300, 1, 70),
                (129, 257, 65),
            )
        ]
        found += [
            case(72, 40, 136, dtype, (ours, "contiguous"))
            for ours in ("transposed", "offset by one element")
        ]
        found += [
            case(72, 40, 136, dtype, ("contiguous", theirs))
            for theirs in ("transposed", "every second element")
        ]
        found += [
            case(65, 33, 47, dtype, ("transposed", "left part of a wider one")),
            case(72, 40, 136, dtype, ("transposed",) * 2),
        ]
        found.append(case(65, 72, 40, dtype, values="NaN and inf"))
        found.append(case(1024, 1040, 1032, dtype))
    found.append(case(1025, 1027, 1029, torch.float16))
    return found


def _study(name: str, dtype: torch.dtype, torchs: Function) -> Study:
    def make(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        m, k = (4097, 4099) if n == 4101 else (n, n)
        return torch.randn(m, k, dtype=dtype, device="cuda"), torch.randn(
            k, n, dtype=dtype, device="cuda"
        )

    return Study(
        name=name,
        x_name=f"N of {str(dtype).removeprefix('torch.')}",
        xs=(1024, 2048, 4096, 4101, 8192),
        make=make,
        bytes=lambda a, b: (
            (a.numel() + b.numel() + a.shape[0] * b.shape[1]) * a.itemsize
        ),  # read once, written once
        operations=lambda a, b: 2 * a.numel() * b.shape[1],
        series={
            "matmul": lambda n: matmul,
            "torch": lambda n: torchs,
            "matmul_v1": lambda n: matmul_v1,
            "matmul_v2": lambda n: matmul_v2,
            "matmul_v3": lambda n: matmul_v3,
            "matmul_v4": lambda n: matmul_v4,
            "matmul_v5": lambda n: matmul_v5,
        },
    )


OPERATION = Operation(
    name="matmul",
    ladder={version.__name__: _exact(version) for version in VERSIONS},
    reference=_by_torch,
    cases=_cases(),
    absolute=2e-4,  # sums of up to 1,032 products of either sign, in float32
    studies=(
        _study("matmul", torch.float16, _by_torch),
        _study("matmul_bfloat16", torch.bfloat16, _by_torch),
        _study("matmul_float32", torch.float32, _by_torch_in_tf32),
    ),
)
