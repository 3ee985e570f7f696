"""The gradient of RMSNorm, for x, which has M rows of N, and for the weight.

Let d_out be the upstream gradient, and x_hat = x * rstd what the weight multiplies. Every element
of a row stands in the row's rstd, so each element's gradient needs a sum over its row. The weight's
gradient is a sum over all rows, which belong to many programs:

    for each program p of P, in parallel:
        partial[p] = 0
        for row in p, p + P, p + 2 P, …:
            g = d_out * weight
            d_x = rstd * (g - x_hat * sum(g * x_hat) / N)
            partial[p] += d_out * x_hat
    d_weight = sum of partial[p] over p

Atomic additions would take them in the order in which programs end, and float additions in another
order give other bits. Here each program has a place of its own for its partial sums, and a second
kernel adds them up, always in the same order: the same input gives the same bits. P follows from
the shape alone, so that it is the same on every GPU.

    v1  rms_norm_backward_v1  two kernels: d_x in two     asks for 7 * M * N * s; any width
                              sweeps, partial sums by
                              columns
    v2  rms_norm_backward_v2  one kernel for both, a      3 * M * N * s, and 8 * P * N for partial
                              row in registers            sums; as wide as the registers
        rms_norm_backward     picks by the width

Partial sums have the dtype of rstd: float32, or float64 for float64.
"""

import math

import torch
import triton
import triton.language as tl

from kernels.checks import check_same, check_tensors
from kernels.device import as_stored
from kernels.rms_norm_launch import (
    Plans,
    Wrap,
    as_it_is,
    as_matrix,
    block_n_of,
    check_inputs,
    planned,
    sum_dtype,
)

# Rows of d_x are contiguous; those of x and d_out have a stride each. Rows are counted in 64 bits:
# one times its stride may pass 2**31, and so may the step past the last one.


@triton.jit
def rms_norm_backward_x_kernel(
    d_out_ptr, x_ptr, weight_ptr, rstd_ptr, d_x_ptr, n_cols, stride_dm, stride_xm,
    BLOCK_N: tl.constexpr,
):
    """Program m owns row m: one sweep for the sum of g * x_hat, one to write d_x."""
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    rstd = tl.load(rstd_ptr + row)
    sums = tl.zeros([BLOCK_N], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=0.0).to(real)
        d_out = tl.load(d_out_ptr + row * stride_dm + cols, mask=mask, other=0.0).to(real)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(real)
        sums += d_out * weight * (x * rstd)
    mean = tl.sum(sums) / n_cols
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xm + cols, mask=mask).to(real)
        d_out = tl.load(d_out_ptr + row * stride_dm + cols, mask=mask).to(real)
        weight = tl.load(weight_ptr + cols, mask=mask).to(real)
        d_x = rstd * (d_out * weight - x * rstd * mean)
        tl.store(d_x_ptr + row * n_cols + cols, d_x, mask=mask)


@triton.jit
def rms_norm_backward_weight_kernel(
    d_out_ptr, x_ptr, rstd_ptr, partials_ptr, n_rows, n_cols, stride_dm, stride_xm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program (j, p) of P owns columns [j * BLOCK_N, (j + 1) * BLOCK_N), and of the blocks of
    BLOCK_M rows every P-th one from p on: it writes the sum of d_out * x_hat to partials[p]."""
    real = rstd_ptr.dtype.element_ty
    cols = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    part = tl.program_id(axis=1).to(tl.int64)
    sums = tl.zeros([BLOCK_M, BLOCK_N], real)
    for start in range(part * BLOCK_M, n_rows, tl.num_programs(axis=1) * BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)  # [BLOCK_M]
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
        rstd = tl.load(rstd_ptr + rows, mask=rows < n_rows, other=0.0)
        x = tl.load(
            x_ptr + rows[:, None] * stride_xm + cols[None, :], mask=mask, other=0.0
        ).to(real)
        d_out = tl.load(
            d_out_ptr + rows[:, None] * stride_dm + cols[None, :], mask=mask, other=0.0
        ).to(real)
        sums += d_out * (x * rstd[:, None])
    tl.store(partials_ptr + part * n_cols + cols, tl.sum(sums, axis=0), mask=cols < n_cols)


@triton.jit
def rms_norm_backward_kernel_v2(
    d_out_ptr, x_ptr, weight_ptr, rstd_ptr, d_x_ptr, partials_ptr, n_rows, n_cols,
    stride_dm, stride_xm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr,
):
    """Program p of P owns, of the blocks of BLOCK_M rows, every P-th one from p on: it writes their
    d_x, and the sum of d_out * x_hat to partials[p]. BLOCK_N >= n_cols.

    While one block is computed, the loads of the next DEPTH - 1 are on their way.
    """
    real = rstd_ptr.dtype.element_ty
    part = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(real)
    sums = tl.zeros([BLOCK_M, BLOCK_N], real)
    for start in tl.range(
        part * BLOCK_M, n_rows, tl.num_programs(axis=0) * BLOCK_M, num_stages=DEPTH
    ):
        rows = start + tl.arange(0, BLOCK_M)  # [BLOCK_M]
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
        rstd = tl.load(rstd_ptr + rows, mask=rows < n_rows, other=0.0)[:, None]
        x = tl.load(
            x_ptr + rows[:, None] * stride_xm + cols[None, :], mask=mask, other=0.0
        ).to(real)
        d_out = tl.load(
            d_out_ptr + rows[:, None] * stride_dm + cols[None, :], mask=mask, other=0.0
        ).to(real)
        x_hat = x * rstd
        g = d_out * weight[None, :]
        mean = tl.sum(g * x_hat, axis=1)[:, None] / n_cols
        d_x = rstd * (g - x_hat * mean)
        tl.store(d_x_ptr + rows[:, None] * n_cols + cols[None, :], d_x, mask=mask)
        sums += d_out * x_hat
    tl.store(partials_ptr + part * n_cols + cols, tl.sum(sums, axis=0), mask=cols < n_cols)


@triton.jit
def sum_partials_kernel(
    partials_ptr, out_ptr, n_parts, n_cols, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Program j owns columns [j * BLOCK_N, (j + 1) * BLOCK_N): it adds up their n_parts partial
    sums, BLOCK_P at a time, from first to last."""
    cols = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    sums = tl.zeros([BLOCK_P, BLOCK_N], partials_ptr.dtype.element_ty)
    for start in range(0, n_parts, BLOCK_P):
        parts = start + tl.arange(0, BLOCK_P).to(tl.int64)  # [BLOCK_P]
        mask = (parts[:, None] < n_parts) & (cols[None, :] < n_cols)  # [BLOCK_P, BLOCK_N]
        sums += tl.load(
            partials_ptr + parts[:, None] * n_cols + cols[None, :], mask=mask, other=0.0
        )
    tl.store(out_ptr + cols, tl.sum(sums, axis=0), mask=cols < n_cols)


Gradients = tuple[torch.Tensor, torch.Tensor]
"""d_x and d_weight."""


def _check_backward(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> None:
    check_inputs(rms_norm_backward_x_kernel, x, weight, eps=0.0)
    check_tensors("rms_norm", d_out=d_out, rstd=rstd)
    check_same("rms_norm", x=x, d_out=d_out)
    if (rstd.shape, rstd.dtype, rstd.device) != (x.shape[:-1], sum_dtype(x), x.device):
        raise ValueError(
            f"rms_norm: rstd has shape {tuple(rstd.shape)} and is {rstd.dtype} on {rstd.device}; "
            f"it must have shape {tuple(x.shape[:-1])} and be {sum_dtype(x)} on {x.device}."
        )


def _sum_partials(
    partials: torch.Tensor, weight: torch.Tensor, wrap: Wrap
) -> torch.Tensor:
    """The sum of the rows of partials, in the dtype of the weight."""
    n_parts, n_cols = partials.shape
    d_weight = torch.empty_like(weight)
    wrap(sum_partials_kernel)[(triton.cdiv(n_cols, 16),)](
        partials, d_weight, n_parts, n_cols, BLOCK_P=128, BLOCK_N=16, num_warps=4
    )
    return d_weight


def rms_norm_backward_v1(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor,
    block_n: int = 4096, parts: int = 16, num_warps: int = 8,
    wrap: Wrap = as_it_is,
) -> Gradients:
    """v1 of the gradient's ladder: d_x in two sweeps, then the weight's partial sums.

    parts: partial sums per column, P at most. The others: see rms_norm_backward.
    """
    _check_backward(d_out, x, weight, rstd)
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    d_out, x, weight = as_matrix(d_out), as_matrix(x), as_stored(weight).contiguous()
    if not x.numel():
        return d_x, torch.zeros_like(weight)
    n_rows, n_cols = x.shape
    block_m, block_c = 32, 128
    parts = min(parts, triton.cdiv(n_rows, block_m))
    partials = torch.empty((parts, n_cols), dtype=rstd.dtype, device=x.device)
    with torch.cuda.device_of(x):
        wrap(rms_norm_backward_x_kernel)[(n_rows,)](
            d_out, x, weight, rstd, d_x, n_cols, d_out.stride(0), x.stride(0), BLOCK_N=block_n,
            num_warps=num_warps,
        )
        wrap(rms_norm_backward_weight_kernel)[(triton.cdiv(n_cols, block_c), parts)](
            d_out, x, rstd, partials, n_rows, n_cols, d_out.stride(0), x.stride(0),
            BLOCK_M=block_m, BLOCK_N=block_c, num_warps=8,
        )
        return d_x, _sum_partials(partials, weight, wrap)


def rms_norm_backward_v2(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor,
    tile: int = 2048, parts: int = 1024, num_warps: int = 4, depth: int = 1,
    wrap: Wrap = as_it_is,
) -> Gradients:
    """v2 of the gradient's ladder: one kernel for d_x and the weight's partial sums.

    tile: elements per block of rows. parts: programs, P at most. depth: blocks whose loads are
    under way at once. The others: see rms_norm_backward.
    """
    _check_backward(d_out, x, weight, rstd)
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    d_out, x, weight = as_matrix(d_out), as_matrix(x), as_stored(weight).contiguous()
    if not x.numel():
        return d_x, torch.zeros_like(weight)
    n_rows, n_cols = x.shape
    block_n = block_n_of(x)
    block_m = max(1, tile // block_n)
    parts = min(parts, triton.cdiv(n_rows, block_m))
    partials = torch.empty((parts, n_cols), dtype=rstd.dtype, device=x.device)
    with torch.cuda.device_of(x):
        wrap(rms_norm_backward_kernel_v2)[(parts,)](
            d_out, x, weight, rstd, d_x, partials, n_rows, n_cols, d_out.stride(0), x.stride(0),
            BLOCK_M=block_m, BLOCK_N=block_n, DEPTH=depth,
            # At least one warp per 1,024 columns: four tiles of that width are in registers.
            num_warps=min(32, max(num_warps, block_n // 1024)),
        )
        return d_x, _sum_partials(partials, weight, wrap)


# The fastest of those tried on an H200 with Triton 3.9.0 on 2026-11-22, for elements of 2
# (bfloat16) and 4 bytes.
BACKWARD_PLANS: Plans = {
    2: (
        (512, rms_norm_backward_v2, {"tile": 2048, "parts": 528, "num_warps": 8, "depth": 1}),
        (1024, rms_norm_backward_v2, {"tile": 4096, "parts": 1024, "num_warps": 4, "depth": 1}),
        (2048, rms_norm_backward_v2, {"tile": 2048, "parts": 528, "num_warps": 4, "depth": 1}),
        (4096, rms_norm_backward_v2, {"tile": 2048, "parts": 1024, "num_warps": 4, "depth": 1}),
        (16384, rms_norm_backward_v2, {"tile": 2048, "parts": 264, "num_warps": 32, "depth": 1}),
        (math.inf, rms_norm_backward_v1, {"block_n": 8192, "parts": 64, "num_warps": 16}),
    ),
    4: (
        (512, rms_norm_backward_v2, {"tile": 4096, "parts": 264, "num_warps": 4, "depth": 2}),
        (1024, rms_norm_backward_v2, {"tile": 4096, "parts": 264, "num_warps": 8, "depth": 2}),
        (2048, rms_norm_backward_v2, {"tile": 2048, "parts": 528, "num_warps": 4, "depth": 2}),
        (4096, rms_norm_backward_v2, {"tile": 2048, "parts": 264, "num_warps": 16, "depth": 2}),
        (16384, rms_norm_backward_v2, {"tile": 2048, "parts": 264, "num_warps": 32, "depth": 1}),
        (math.inf, rms_norm_backward_v1, {"block_n": 8192, "parts": 16, "num_warps": 16}),
    ),
    8: (
        (4096, rms_norm_backward_v2, {"tile": 1024, "parts": 1024, "num_warps": 8}),
        (math.inf, rms_norm_backward_v1, {"block_n": 2048, "parts": 16, "num_warps": 8}),
    ),
}


@torch.library.triton_op("kernels::rms_norm_backward", mutates_args=())
def rms_norm_backward(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients d_x and d_weight, with the same bits for the same input.

    d_out: the upstream gradient, of x's shape, dtype and device, any strides.
    x, weight: as rms_norm was given them. rstd: as rms_norm_operator returned it: x.shape[:-1], in
    float32, or float64 for float64.

    Raises TypeError for a non-tensor; ValueError where shapes, dtypes or devices do not fit.
    """
    _check_backward(d_out, x, weight, rstd)
    version, settings = planned(BACKWARD_PLANS, x)
    return version(d_out, x, weight, rstd, wrap=torch.library.wrap_triton, **settings)
