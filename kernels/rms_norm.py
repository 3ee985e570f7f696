"""RMSNorm over the last axis: out[m, n] = x[m, n] * rstd[m] * weight[n], with
rstd[m] = 1 / sqrt(mean(x[m]^2) + eps).

    for each row of x, in parallel:
        rstd = 1 / sqrt(sum(x * x) / N + eps)
        out = x * rstd * weight

The ladder, in bytes for x of M x N elements of s bytes. Each element must be read once and written
once: 2 * M * N * s. The weight is read from the cache, and rstd is 4 bytes per row.

    v1  rms_norm_v1  a program per row, two sweeps      asks for 3 * M * N * s; any width
    v2  rms_norm_v2  a program per row, in registers    2 * M * N * s; as wide as the registers
    v3  rms_norm_v3  several rows per program, in       2 * M * N * s; narrow rows fill a program
                     registers
    v4  rms_norm_v4  as v1, its second sweep from       asks for 3 * M * N * s; memory moves
                     the cache                          2 * M * N * s while the rows being worked
                                                        on fit the caches
    v5  rms_norm_v5  as v2, with hints for the cache,   2 * M * N * s; wide loads wherever rows
                     and the weight after the sum       begin at multiples of 16 bytes
        rms_norm     picks v3, v4 or v5 by the width; an operator, with its gradient

The sum is kept in float32, or in float64 for float64: the type of rstd says which. It is 1 / sqrt,
and not rsqrt, which GPUs only approximate for float64. kernels/rms_norm_backward.py has the
gradient.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernels.device import as_stored
from kernels.rms_norm_backward import rms_norm_backward
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

EPS = 1e-6


@triton.jit
def rms_norm_kernel_v1(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps, BLOCK_N: tl.constexpr
):
    """Program m owns row m: one sweep for the sum of squares, one to write."""
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    total = tl.zeros([], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0).to(real)
        total += tl.sum(x * x)
    rstd = 1.0 / tl.sqrt(total / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xm + cols, mask=mask).to(real)
        weight = tl.load(weight_ptr + cols, mask=mask).to(real)
        tl.store(out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask)


@triton.jit
def rms_norm_kernel_v2(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps, BLOCK_N: tl.constexpr
):
    """Program m owns row m, and keeps it in registers: BLOCK_N >= n_cols."""
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=0.0).to(real)
    weight = tl.load(weight_ptr + cols, mask=mask).to(real)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask)


# From here on loads and stores carry hints for the cache: what is read shall leave it last, what is
# written first. ALIGN is a number of elements that n_cols and stride_xm are multiples of: dividing
# by it and multiplying tells the compiler so.


@triton.jit
def rms_norm_kernel_v3(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_rows, n_cols, stride_xm, eps,
    ALIGN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program i owns BLOCK_M rows from i * BLOCK_M on, in registers: BLOCK_N >= n_cols."""
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    real = rstd_ptr.dtype.element_ty
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x = tl.load(
        x_ptr + rows[:, None] * stride_xm + cols[None, :], mask=mask, other=0.0,
        eviction_policy="evict_last",
    ).to(real)
    weight = tl.load(
        weight_ptr + cols, mask=cols < n_cols, eviction_policy="evict_last"
    ).to(real)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / n_cols + eps)  # [BLOCK_M]
    tl.store(rstd_ptr + rows, rstd, mask=rows < n_rows)
    out = x * rstd[:, None] * weight[None, :]
    tl.store(
        out_ptr + rows[:, None] * n_cols + cols[None, :], out, mask=mask,
        eviction_policy="evict_first",
    )


@triton.jit
def rms_norm_kernel_v4(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps,
    ALIGN: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program m owns row m: as v1, but each lane keeps a sum of its own until the sweep ends.

    So no thread waits for another within a sweep. The second sweep goes backwards, since what was
    read last is still in the cache.
    """
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    sums = tl.zeros([BLOCK_N], real)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=0.0,
            eviction_policy="evict_last",
        ).to(real)
        sums += x * x
    rstd = 1.0 / tl.sqrt(tl.sum(sums) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    last = (n_cols - 1) // BLOCK_N * BLOCK_N
    for back in range(0, n_cols, BLOCK_N):
        cols = last - back + tl.arange(0, BLOCK_N)
        mask = cols < n_cols
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=mask, eviction_policy="evict_first"
        ).to(real)
        weight = tl.load(weight_ptr + cols, mask=mask, eviction_policy="evict_last").to(real)
        tl.store(
            out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask,
            eviction_policy="evict_first",
        )


@triton.jit
def rms_norm_kernel_v5(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, n_cols, stride_xm, eps,
    ALIGN: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program m owns row m, and keeps it in registers: BLOCK_N >= n_cols.

    The weight is loaded once rstd is known: loaded with x, it would take as many registers as x
    while the program waits for both, and rows of 32,768 float32 would spill.
    """
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    real = rstd_ptr.dtype.element_ty
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = cols < n_cols
    x = tl.load(
        x_ptr + row * stride_xm + cols, mask=mask, other=0.0, eviction_policy="evict_last"
    ).to(real)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + cols, mask=mask, eviction_policy="evict_last").to(real)
    tl.store(
        out_ptr + row * n_cols + cols, x * rstd * weight, mask=mask,
        eviction_policy="evict_first",
    )


def _align(x: torch.Tensor) -> int:
    """ALIGN for the matrix x: as many elements as 16 bytes hold, or fewer."""
    return math.gcd(int(x.shape[1]), int(x.stride(0)), 16 // x.itemsize)


def _warps(num_warps: int, block_n: int) -> int:
    """At least one warp per 2,048 columns, which keeps 64 columns in each thread's registers."""
    return min(32, max(num_warps, block_n // 2048))


class Launch(NamedTuple):
    """A kernel, how many programs of it, and its arguments besides the tensors and their sizes."""

    kernel: Any
    programs: int
    arguments: dict[str, int]


# Each takes the matrix x and the settings of its version. int: what torch.compile leaves open of a
# shape is fixed here, since constants of the kernel follow from it.


def _v1(x: torch.Tensor, block_n: int = 4096, num_warps: int = 8) -> Launch:
    return Launch(rms_norm_kernel_v1, x.shape[0], {"BLOCK_N": block_n, "num_warps": num_warps})


def _v2(x: torch.Tensor, num_warps: int = 4) -> Launch:
    block_n = block_n_of(x)
    arguments = {"BLOCK_N": block_n, "num_warps": _warps(num_warps, block_n)}
    return Launch(rms_norm_kernel_v2, x.shape[0], arguments)


def _v3(x: torch.Tensor, tile: int = 2048, num_warps: int = 2) -> Launch:
    block_n = block_n_of(x)
    block_m = max(1, tile // block_n)
    arguments = {
        "n_rows": x.shape[0], "ALIGN": _align(x), "BLOCK_M": block_m, "BLOCK_N": block_n,
        "num_warps": _warps(num_warps, block_n),
    }
    return Launch(rms_norm_kernel_v3, triton.cdiv(x.shape[0], block_m), arguments)


def _v4(x: torch.Tensor, block_n: int = 8192, num_warps: int = 16) -> Launch:
    arguments = {"ALIGN": _align(x), "BLOCK_N": block_n, "num_warps": num_warps}
    return Launch(rms_norm_kernel_v4, x.shape[0], arguments)


def _v5(x: torch.Tensor, num_warps: int = 4) -> Launch:
    block_n = block_n_of(x)
    arguments = {
        "ALIGN": _align(x), "BLOCK_N": block_n, "num_warps": _warps(num_warps, block_n)
    }
    return Launch(rms_norm_kernel_v5, x.shape[0], arguments)


def _forward(
    version: Callable[..., Launch], x: torch.Tensor, weight: torch.Tensor, eps: float,
    wrap: Wrap = as_it_is, **settings: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and rstd for the gradient."""
    check_inputs(rms_norm_kernel_v1, x, weight, eps)
    matrix, weight = as_matrix(x), as_stored(weight).contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rstd = torch.empty(x.shape[:-1], dtype=sum_dtype(x), device=x.device)
    if out.numel():
        launch = version(matrix, **settings)
        with torch.cuda.device_of(x):
            wrap(launch.kernel)[(launch.programs,)](
                matrix, weight, out, rstd, n_cols=matrix.shape[1], stride_xm=matrix.stride(0),
                eps=float(eps), **launch.arguments,
            )
    return out, rstd


def rms_norm_v1(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, block_n: int = 4096,
    num_warps: int = 8,
) -> torch.Tensor:
    """v1 of the ladder: two sweeps over a row."""
    return _forward(_v1, x, weight, eps, block_n=block_n, num_warps=num_warps)[0]


def rms_norm_v2(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, num_warps: int = 4
) -> torch.Tensor:
    """v2 of the ladder: a row in registers."""
    return _forward(_v2, x, weight, eps, num_warps=num_warps)[0]


def rms_norm_v3(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, tile: int = 2048, num_warps: int = 2
) -> torch.Tensor:
    """v3 of the ladder: each program takes as many rows as `tile` elements hold.

    Rows count as wide as the next power of two.
    """
    return _forward(_v3, x, weight, eps, tile=tile, num_warps=num_warps)[0]


def rms_norm_v4(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, block_n: int = 8192,
    num_warps: int = 16,
) -> torch.Tensor:
    """v4 of the ladder: two sweeps, the second from the cache."""
    return _forward(_v4, x, weight, eps, block_n=block_n, num_warps=num_warps)[0]


def rms_norm_v5(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, num_warps: int = 4
) -> torch.Tensor:
    """v5 of the ladder: a row in registers, with hints for the cache."""
    return _forward(_v5, x, weight, eps, num_warps=num_warps)[0]


# The fastest of those tried on an H200 with Triton 3.9.0 on 2026-11-22, for elements of 2
# (bfloat16) and 4 bytes.
PLANS: Plans = {
    2: (
        (1024, _v3, {"tile": 2048, "num_warps": 4}),
        (2048, _v5, {"num_warps": 4}),
        (4096, _v5, {"num_warps": 8}),
        (6144, _v5, {"num_warps": 4}),
        (8192, _v5, {"num_warps": 16}),
        (12288, _v5, {"num_warps": 8}),
        (32768, _v5, {"num_warps": 16}),
        (math.inf, _v4, {"block_n": 16384, "num_warps": 32}),
    ),
    4: (
        (512, _v3, {"tile": 1024, "num_warps": 4}),
        (1024, _v5, {"num_warps": 2}),
        (2048, _v5, {"num_warps": 8}),
        (5120, _v5, {"num_warps": 16}),
        (6144, _v5, {"num_warps": 4}),
        (8192, _v5, {"num_warps": 16}),
        (12288, _v4, {"block_n": 4096, "num_warps": 8}),
        (16384, _v4, {"block_n": 8192, "num_warps": 16}),
        (32768, _v5, {"num_warps": 32}),
        (math.inf, _v4, {"block_n": 16384, "num_warps": 32}),
    ),
    8: (
        (512, _v3, {"tile": 512, "num_warps": 2}), (8192, _v5, {"num_warps": 16}),
        (math.inf, _v4, {"block_n": 8192, "num_warps": 32}),
    ),
}


@torch.library.triton_op("kernels::rms_norm", mutates_args=())
def rms_norm_operator(
    x: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """rms_norm's result, and rstd: one number per row, which the gradient needs."""
    check_inputs(rms_norm_kernel_v1, x, weight, eps)
    version, settings = planned(PLANS, x)
    return _forward(version, x, weight, eps, wrap=torch.library.wrap_triton, **settings)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, weight, _ = inputs
    _, rstd = output
    ctx.mark_non_differentiable(rstd)
    ctx.save_for_backward(x, weight, rstd)


def _gradients(ctx: Any, d_out: torch.Tensor, _: Any) -> tuple[torch.Tensor, torch.Tensor, None]:
    return *rms_norm_backward(d_out, *ctx.saved_tensors), None


rms_norm_operator.register_autograd(_gradients, setup_context=_save_for_backward)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    """x * weight / sqrt(mean(x * x) + eps), the mean over the last dimension; with a gradient for x
    and weight.

    It is computed in float32, or in float64 for float64, and rounded once. The same input gives the
    same bits, gradients included, and a row's result does not depend on the other rows.

    x: one dimension or more, any strides. Where its rows are not contiguous, or no strides join its
        leading dimensions, it is copied first.
    weight: one dimension, as long as the last one of x, of the same dtype and device.
    eps: 0 or more; the kernel reads it as a float32.

    Raises TypeError for a non-tensor, or an eps that is no number; ValueError where shapes, dtypes
    or devices do not fit, for another dtype than DTYPES, for an eps below 0 or not finite, and for
    a CPU tensor where the kernel is compiled for a GPU.
    """
    if not torch.compiler.is_compiling():  # which could not ask what kind of kernel it is
        check_inputs(rms_norm_kernel_v1, x, weight, eps)
    return rms_norm_operator(x, weight, float(eps))[0]


if __name__ == "__main__":
    from kernels.program import main

    main(
        __doc__, [rms_norm_v1, rms_norm_v2, rms_norm_v3, rms_norm_v4, rms_norm_v5, rms_norm],
        lambda x, weight: torch.nn.functional.rms_norm(x, weight.shape, weight, EPS),
        lambda rows, cols: (torch.randn(rows, cols), torch.randn(cols)),
        small=(5, 9001), large=(2**14, 4096),
    )
