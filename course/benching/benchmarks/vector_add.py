"""Vector add: right against torch.add in float64; fast against torch.add and a copy."""

from collections.abc import Callable
from functools import partial

import torch

from course.benching.benchmarks import Function, Operation, Study
from course.benching.series import at_every_size, versions_of
from course.gpus.timing import copy_of
from course.verifying.inputs import vectors

VERSIONS = versions_of("vector_add")


def _bytes(x: torch.Tensor, y: torch.Tensor) -> int:
    return x.nbytes + y.nbytes + x.nbytes  # read x, read y, write out


def _inputs(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, device="cuda"), torch.randn(n, device="cuda")


BLOCKS_AT = 2**26
"""The number of elements at which block sizes and warps are compared."""


def _with_warps(num_warps: int) -> Callable[[int], Function]:
    return lambda block_size: partial(VERSIONS["add"], block_size=block_size, num_warps=num_warps)


OPERATION = Operation(
    name="vector_add",
    ladder=VERSIONS,
    reference=torch.add,
    cases=vectors(
        2, dtypes=(torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32)
    ),
    studies=(
        Study(
            name="vector_add",
            x_name="elements",
            xs=[2**k for k in range(12, 30)],
            make=_inputs,
            bytes=_bytes,
            series={
                "add": at_every_size(VERSIONS["add"]),
                "add_v2": at_every_size(VERSIONS["add_v2"]),
                "add_v1": at_every_size(VERSIONS["add_v1"], most=2**26),
                "torch.add": at_every_size(torch.add),
                "copy": lambda n: copy_of(12 * n),
            },
        ),
        Study(
            name="vector_add_blocks",
            x_name="BLOCK_SIZE",
            xs=[2**k for k in range(5, 16)],
            make=lambda block_size: _inputs(BLOCKS_AT),
            bytes=_bytes,
            series={f"num_warps={warps}": _with_warps(warps) for warps in (1, 2, 4, 8, 16)},
        ),
    ),
    first_call="""
import torch
from kernels.vector_add import add
x = torch.randn(4096, device="cuda")
torch.cuda.synchronize()
call = lambda: (add(x, x), torch.cuda.synchronize())
""",
)
