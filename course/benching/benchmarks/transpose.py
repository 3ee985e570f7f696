"""Transpose: right against torch's own; fast against it and a copy of as many bytes."""

import torch

from course.benching.benchmarks import Operation, Study
from course.benching.series import at_every_size, series_of, versions_of
from course.gpus.timing import copy_of
from course.verifying.inputs import matrices

VERSIONS = versions_of("transpose")


def _by_torch(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous()


OPERATION = Operation(
    name="transpose",
    ladder=VERSIONS,
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
                **series_of(VERSIONS),
                "torch": at_every_size(_by_torch),
                "copy": lambda n: copy_of(8 * n * n),
            },
        ),
    ),
)
