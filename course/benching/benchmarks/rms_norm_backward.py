"""RMSNorm's gradient: right against torch in float64; fast against torch's, a compiled one, and a
copy of as many bytes."""

import math
from collections.abc import Callable
from typing import cast

import torch

from course.benching.benchmarks import Function, Operation, Study
from course.benching.benchmarks.rms_norm import WIDTHS, by_torch, in_steps
from course.benching.benchmarks.rms_norm import reference as formula
from course.benching.series import at_every_size, backward_of, compiled, matrices_copied, row_study
from course.verifying.inputs import FLOATS, Case, Input
from kernels.rms_norm import EPS
from kernels.rms_norm_backward import rms_norm_backward, rms_norm_backward_v1, rms_norm_backward_v2

Gradients = tuple[torch.Tensor, torch.Tensor]


def _joined(
    gradients: Callable[..., Gradients], d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    """d_x, and d_weight as one row more: `verify` compares one tensor."""
    rstd = torch.rsqrt(x.float().square().mean(-1) + EPS)
    d_x, d_weight = gradients(d_out, x, weight, rstd)
    return torch.cat([d_x, d_weight[None]])


def planned(d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The gradient that the operator takes."""
    return _joined(rms_norm_backward, d_out, x, weight)


def v1(d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """v1 of the ladder."""
    return _joined(rms_norm_backward_v1, d_out, x, weight)


def v2(d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """v2 of the ladder."""
    return _joined(rms_norm_backward_v2, d_out, x, weight)


def reference(d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Both gradients by PyTorch's autograd, joined."""
    with torch.enable_grad():
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        d_x, d_weight = torch.autograd.grad(formula(x, weight), (x, weight), d_out)
    return torch.cat([d_x, d_weight[None]])


def _cases() -> list[Case]:
    """Rows that each version splits in another way: blocks, programs, partial sums.

    No row of a single column: its gradient is 0 but for what rounding leaves.
    """
    shapes = ((33, 100), (256, 64), (63, 65), (1, 781), (5, 1000), (40, 4097), (3, 8193))
    cases = []
    for dtype in FLOATS:
        for shape in shapes:
            matrix = Input(shape, dtype)
            cases.append(Case((matrix, matrix, Input(shape[1:], dtype)), seed=sum(shape)))
        strided = Input((65, 40), dtype, "left part of a wider one")
        cases.append(Case((strided, Input((65, 40), dtype), Input((40,), dtype)), seed=1))
    return cases


def _of(
    function: Callable[..., Gradients], most: float = math.inf
) -> Callable[[int], Function | None]:
    """A series; what it returns is not looked at."""
    return at_every_size(cast(Function, function), most)


def _study(name: str, dtype: torch.dtype) -> Study:
    def inputs(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rstd = torch.rsqrt(x.float().square().mean(-1) + EPS)
        return torch.randn_like(x), x, torch.randn_like(x[0]), rstd

    return row_study(
        name,
        dtype,
        [width for width in WIDTHS if width >= 1024],
        inputs,
        # d_out and x are read once, d_x is written once; one rstd per row is read.
        bytes=lambda d_out, x, weight, rstd: 3 * x.nbytes + 2 * weight.nbytes + rstd.nbytes,
        series={
            "rms_norm_backward": _of(rms_norm_backward),
            "rms_norm_backward_v1": _of(rms_norm_backward_v1),
            "rms_norm_backward_v2": _of(rms_norm_backward_v2, most=2**13),  # wider rows spill
            "torch": lambda n: backward_of(by_torch, 2),
            "torch.compile": lambda n: backward_of(compiled(in_steps), 2),
            "copy": matrices_copied(3, dtype),
        },
    )


OPERATION = Operation(
    name="rms_norm_backward",
    ladder={version.__name__: version for version in (v1, v2, planned)},
    reference=reference,
    cases=_cases(),
    absolute=3e-5,  # sums of float32 cancel
    studies=(_study("rms_norm_backward_bfloat16", torch.bfloat16),),
)
