"""Bias and GELU: right against torch in float64; fast against two kernels, torch and a copy."""

import torch
from torch.nn.functional import gelu

from course.benching.benchmarks import Operation, Study
from course.benching.series import at_every_size, text_of
from course.gpus.timing import copy_of
from course.verifying.inputs import matrices
from kernels.bias_gelu import bias_gelu, bias_gelu_v1

COLUMNS = 4096


def _by_torch(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return gelu(x + bias)


def _study(name: str, dtype: torch.dtype) -> Study:
    def make(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (
            torch.randn(rows, COLUMNS, dtype=dtype, device="cuda"),
            torch.randn(COLUMNS, dtype=dtype, device="cuda"),
        )

    return Study(
        name=name,
        x_name=f"rows of {COLUMNS:,} {text_of(dtype)}",
        xs=[2**k for k in range(4, 17, 2)],
        make=make,
        bytes=lambda x, bias: 2 * x.nbytes + bias.nbytes,  # read once, the result written once
        series={
            "bias_gelu": at_every_size(bias_gelu),
            "bias_gelu_v1": at_every_size(bias_gelu_v1),
            "torch": at_every_size(_by_torch),
            "copy": lambda rows: copy_of(2 * rows * COLUMNS * dtype.itemsize),
        },
    )


OPERATION = Operation(
    name="bias_gelu",
    ladder={"bias_gelu": bias_gelu},
    reference=_by_torch,
    cases=matrices(with_row=True),
    absolute=1e-6,  # 1 + erf(t) cancels where t is below zero
    studies=(_study("bias_gelu", torch.float32), _study("bias_gelu_bfloat16", torch.bfloat16)),
)
