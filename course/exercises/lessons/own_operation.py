"""The exercises on an operation of one's own: RMSNorm from a specification to an operator."""

import torch
import triton
from torch import Tensor

from course.exercises.kinds import (
    KernelExercise,
    LauncherExercise,
    RegistrationExercise,
    TensorFunction,
)
from course.exercises.result import Judged, wrong
from course.type_names import Kernel
from course.verifying.inputs import Case, Input

EPS = 1e-6


def _rstd(x: Tensor, eps: float = EPS) -> Tensor:
    return torch.rsqrt(x.square().mean(dim=1) + eps)


def _forward_case(
    rows: int, cols: int, layout: str = "contiguous", dtype: torch.dtype = torch.float32,
    eps: float = EPS,
) -> Case:  # fmt: skip
    inputs = (Input((rows, cols), dtype, layout), Input((cols,), dtype))
    return Case(inputs, seed=rows + cols, scalars=(eps,))


def _with_rstd(out: Tensor, rstd: Tensor) -> Tensor:
    """The result with one column more: check compares one tensor."""
    return torch.cat([out, rstd.to(out.dtype)[:, None]], dim=1)


def _forward(kernel: Kernel, x: Tensor, weight: Tensor, eps: float) -> Tensor:
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rstd = torch.empty(len(x), dtype=torch.float32, device=x.device)
    block_n = triton.next_power_of_2(x.shape[1])
    kernel[(len(x),)](x, weight, out, rstd, x.shape[1], x.stride(0), eps, BLOCK_N=block_n)
    return _with_rstd(out, rstd)


def _normed(x: Tensor, weight: Tensor, rstd: Tensor, kept: Tensor | None = None) -> Tensor:
    """x * rstd * weight beside `kept`, what the kernel keeps of each row: rstd by default."""
    return _with_rstd(x * rstd[:, None] * weight, rstd if kept is None else kept)


def _mean_taken_off(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    centered = x - x.mean(dim=1, keepdim=True)
    return _normed(centered, weight, _rstd(centered, eps))


def _by_lanes(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    lanes = triton.next_power_of_2(x.shape[1])
    return _normed(x, weight, torch.rsqrt(x.square().sum(1) / lanes + eps))


def _backward_cases(*shapes: tuple[int, int]) -> tuple[Case, ...]:
    return tuple(
        Case((Input(shape), Input(shape), Input(shape[1:])), seed=sum(shape)) for shape in shapes
    )


DX_EPS = 0.5
"""Large enough to be missed where it is left out."""


def _dx(kernel: Kernel, d_out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    dx = torch.empty_like(x)
    block_n = triton.next_power_of_2(x.shape[1])
    kernel[(len(x),)](d_out, x, weight, _rstd(x, DX_EPS), dx, x.shape[1], BLOCK_N=block_n)
    return dx


def _parts(
    d_out: Tensor, x: Tensor, weight: Tensor, eps: float = DX_EPS
) -> tuple[Tensor, Tensor, Tensor]:
    """g = d_out * weight, x_hat = x * rstd, and rstd as a column."""
    rstd = _rstd(x, eps)[:, None]
    return d_out * weight, x * rstd, rstd


def _dx_by(d_out: Tensor, x: Tensor, weight: Tensor, eps: float = DX_EPS) -> Tensor:
    g, x_hat, rstd = _parts(d_out, x, weight, eps)
    return rstd * (g - x_hat * (g * x_hat).mean(dim=1, keepdim=True))


def _dx_with(
    take: float = 1.0, divide: bool = True, weighted: bool = True
) -> TensorFunction:  # what a slip makes of the gradient
    def slip(d_out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        g, x_hat, rstd = _parts(d_out, x, weight if weighted else torch.ones_like(weight))
        total = (g * x_hat).sum(dim=1, keepdim=True)
        return rstd * (g - take * x_hat * (total / x.shape[1] if divide else total))

    return slip


def _weight_gradient_bytes(d_out: Tensor, x: Tensor, rstd: Tensor) -> int:
    """Both inputs once, rstd once for each block of 64 columns or more, the partial sums of each
    16 rows or more four times, which leaves room for atomics, and the result."""
    rows, cols = x.shape
    partials = 4 * cols * -(-rows // 16)
    return 2 * x.nbytes + rstd.nbytes * -(-cols // 64) + 4 * partials + 4 * cols


def no_atomics(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel whose sums must have the same bits each time; None if nothing
    is."""
    if "tt.atomic" not in stages["ttir"]:
        return None
    return wrong(
        "atomics",
        "It adds with an atomic, in the order in which programs happen to end, so that the same "
        "input may give other bits: let each program store its partial sum in a place of its own.",
    )


def _loss(kernel: Kernel, x: Tensor, target: Tensor) -> Tensor:
    loss = torch.empty(len(x), dtype=x.dtype, device=x.device)
    kernel[(len(x),)](x, target, loss, x.shape[1], x.stride(0), BLOCK_N=LOSS_BLOCK)
    return loss


def _losses(x: Tensor, target: Tensor) -> Tensor:
    return torch.logsumexp(x, dim=1) - x.gather(1, target[:, None])[:, 0]


LOSS_BLOCK = 32
"""Columns of a tile of exercise fused-cross-entropy."""


def _tile_losses(x: Tensor, target: Tensor, other: float, rescaled: bool = True) -> Tensor:
    """The losses as they come out tile by tile, with `other` in the lanes past the end."""
    columns = -(-x.shape[1] // LOSS_BLOCK) * LOSS_BLOCK
    padded = torch.nn.functional.pad(x, (0, columns - x.shape[1]), value=other)
    m, total = torch.full_like(x[:, 0], -float("inf")), torch.zeros_like(x[:, 0])
    for tile in padded.split(LOSS_BLOCK, dim=1):
        new_m = torch.maximum(m, tile.max(dim=1).values)
        kept = total * (m - new_m).exp() if rescaled else total
        m, total = new_m, kept + (tile - new_m[:, None]).exp().sum(dim=1)
    return m + total.log() - x.gather(1, target[:, None])[:, 0]


def _loss_case(rows: int, cols: int, layout: str = "contiguous", values: str = "normal") -> Case:
    """Targets are below 80, so that every row must have as many columns."""
    target = Input((rows,), torch.int64, values="small")
    inputs = (Input((rows, cols), layout=layout, values=values), target)
    return Case(inputs, seed=rows + cols)


def _operator(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    from kernels.rms_norm import rms_norm_operator

    out, rstd = rms_norm_operator(x, weight, eps)
    return out, rstd


def _gradient(d_out: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    from kernels.rms_norm_backward import rms_norm_backward

    d_x, d_weight = rms_norm_backward(d_out, x, weight, rstd)
    return d_x, d_weight


EXERCISES = (
    KernelExercise(
        "rms-norm-forward",
        parameters=(
            "x_ptr", "weight_ptr", "out_ptr", "rstd_ptr", "n_cols", "stride_xm", "eps", "BLOCK_N",
        ),
        reference=lambda x, weight, eps: _normed(x, weight, _rstd(x, eps)),
        cases=(
            _forward_case(5, 100, eps=0.5), _forward_case(4, 64, dtype=torch.float16),
            _forward_case(3, 33, "left part of a wider one"), _forward_case(6, 1, eps=0.5),
            _forward_case(2, 781),
        ),
        launch=_forward,
        in_float32=True,
        slips={
            "eps is added to the root, and not under it":
            lambda x, weight, eps: _normed(x, weight, 1 / (x.square().mean(1).sqrt() + eps)),
            "the sum of squares is not divided by the number of columns":
            lambda x, weight, eps: _normed(x, weight, torch.rsqrt(x.square().sum(1) + eps)),
            "the sum of squares is divided by the lanes of the block": _by_lanes,
            "the mean is taken off first, as LayerNorm does": _mean_taken_off,
            "the weight is left out":
            lambda x, weight, eps: _normed(x, torch.ones_like(weight), _rstd(x, eps)),
            "the mean of the squares is stored in place of rstd":
            lambda x, weight, eps: _normed(x, weight, _rstd(x, eps), x.square().mean(1)),
        },
    ),
    KernelExercise(
        "gradient-of-x",
        parameters=("d_out_ptr", "x_ptr", "weight_ptr", "rstd_ptr", "dx_ptr", "n_cols", "BLOCK_N"),
        reference=_dx_by,
        cases=_backward_cases((5, 100), (4, 64), (3, 257), (2, 33)),
        launch=_dx,
        absolute=1e-5,  # what is subtracted cancels
        slips={
            "nothing is taken off g": _dx_with(take=0.0),
            "the row's sum is not divided by the number of columns": _dx_with(divide=False),
            "the weight is left out": _dx_with(weighted=False),
            "the mean is added, and not subtracted": _dx_with(take=-1.0),
            "rstd is computed anew, without eps":
            lambda d_out, x, weight: _dx_by(d_out, x, weight, eps=0.0),
        },
    ),
    LauncherExercise(
        "gradient-of-weight",
        parameters=("d_out", "x", "rstd"),
        reference=lambda d_out, x, rstd: (d_out * x * rstd[:, None]).sum(dim=0),
        cases=tuple(
            Case((Input((m, n)), Input((m, n)), Input((m,), values="each at least 1")), seed=m)
            for m, n in ((100, 50), (64, 64), (1, 3), (33, 130), (1500, 20), (40, 1), (20, 1100))
        ),
        absolute=1e-3,  # sums of many rows cancel
        compiled=no_atomics,
        most_bytes=_weight_gradient_bytes,
        slips={
            "rstd is left out": lambda d_out, x, rstd: (d_out * x).sum(0),
            "x is left out": lambda d_out, x, rstd: (d_out * rstd[:, None]).sum(0),
        },
    ),
    RegistrationExercise(
        "register-operator",
        forward=_operator,
        backward=_gradient,
        reference=lambda x, weight, eps: x * _rstd(x, eps)[:, None] * weight,
    ),
    KernelExercise(
        "fused-cross-entropy",
        parameters=("x_ptr", "target_ptr", "loss_ptr", "n_cols", "stride_xm", "BLOCK_N"),
        reference=_losses,
        cases=(
            _loss_case(5, 100), _loss_case(3, 781), _loss_case(4, 96, values="far apart"),
            _loss_case(3, 99, "left part of a wider one"), _loss_case(2, 128),
            _loss_case(2, 99, values="near the minimum"),
        ),
        launch=_loss,
        absolute=1e-5,
        # Each logit once, the target's a second time; a target and a loss per row.
        most_bytes=lambda x, target: x.nbytes + len(x) * (x.itemsize + 8 + 4),
        slips={
            "the logit of the target is not taken off": lambda x, target: torch.logsumexp(x, 1),
            "the sign is the other one": lambda x, target: -_losses(x, target),
            "the maximum is not added again":
            lambda x, target: _losses(x, target) - x.max(1).values,
            "the sum so far is not rescaled when the maximum grows":
            lambda x, target: _tile_losses(x, target, -float("inf"), rescaled=False),
            "lanes past the end count as zeros": lambda x, target: _tile_losses(x, target, 0.0),
        },
    ),
)  # fmt: skip
