"""Transpose: right against torch's own; fast against it and a copy of as many bytes."""

import torch

from course.benching.benchmarks import Operation, Study
from course.gpus.timing import copy_of
from course.verifying.inputs import matrices
from kernels.transpose import transpose, transpose_v1


def _by_torch(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous()


OPERATION = Operation(
    name="transpose",
    ladder={"transpose_v1": transpose_v1, "transpose": transpose},
    reference=_by_torch,
    cases=matrices(dtypes=(torch.float32, torch.float16, torch.bfloat16, torch.int8)),
    studies=(
        Study(
            name="transpose",
            x_name="rows and columns",
            xs=[2**k for k in range(8, 15)],
            make=lambda n: (torch.randn(n, n, device="cuda"),),
            bytes=lambda x: 2 * x.nbytes,  # read once, written once
            series={
                "transpose": lambda n: transpose,
                "transpose_v1": lambda n: transpose_v1,
                "torch": lambda n: _by_torch,
                "copy": lambda n: copy_of(8 * n * n),
            },
        ),
    ),
)
