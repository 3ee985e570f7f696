"""SwiGLU: right against torch in float64; fast against torch, torch.compile and a copy."""

import torch

from course.benching.benchmarks import Operation, Study
from course.benching.series import at_every_size
from course.gpus.timing import copy_of
from course.verifying.inputs import vectors
from kernels.swiglu import swiglu


def _three_kernels(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return gate * torch.sigmoid(gate) * up


OPERATION = Operation(
    name="swiglu",
    ladder={"swiglu": swiglu},
    reference=_three_kernels,
    cases=vectors(2, dtypes=(torch.float32, torch.float16, torch.bfloat16)),
    studies=(
        Study(
            name="swiglu",
            x_name="elements",
            xs=[2**k for k in range(16, 28)],
            make=lambda n: (torch.randn(n, device="cuda"), torch.randn(n, device="cuda")),
            bytes=lambda gate, up: 3 * gate.nbytes,  # both inputs read once, the result written
            series={
                "swiglu": at_every_size(swiglu),
                "torch.compile": at_every_size(torch.compile(_three_kernels)),
                "torch": at_every_size(_three_kernels),
                "copy": lambda n: copy_of(12 * n),
            },
        ),
    ),
)
