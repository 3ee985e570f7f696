"""Softmax over the last axis: out[m, n] = exp(x[m, n] - max(x[m])) / sum(exp(x[m] - max(x[m]))).

    for each row of x, in parallel:
        row_max, row_sum = -inf, 0
        for each block x of BLOCK_N elements:              # a sweep
            new_max = max(row_max, max(x))
            row_sum = row_sum * exp(row_max - new_max) + sum(exp(x - new_max))
            row_max = new_max
        for each block x of BLOCK_N elements:              # another, unless registers hold the row
            out[block] = exp(x - row_max) / row_sum

The ladder, in bytes for x of M x N elements of s bytes. Each element must be read once and written
once: 2 * M * N * s. A second reading may come from a cache, so what is asked for and what memory
moves differ.

    v1  softmax_v1  a program per row, three sweeps     asks for 4 * M * N * s: for maximum, sum
                                                        and result
    v2  softmax_v2  a program per row, in registers     2 * M * N * s; as wide as the registers
    v3  softmax_v3  maximum and sum in one sweep        asks for 3 * M * N * s; any width
    v4  softmax_v4  several rows per program, in        2 * M * N * s; narrow rows fill a program
                    registers

and in kernels/softmax_tuned.py

    v5  softmax_v5  as v2, by whole vectors of          2 * M * N * s; also where rows begin
                    16 bytes                            anywhere
    v6  softmax_v6  as v3, its second sweep from        asks for 3 * M * N * s; memory moves
                    the cache                           2 * M * N * s while the rows being worked
                                                        on fit the caches
    v7  softmax_v7  as v6, several programs share       the same, and 16 bytes per program for what
                    a row                               they tell one another
    v8  softmax_v8  as v2, a program takes row          2 * M * N * s; persistent, the next rows'
                    after row                           loads in flight
        softmax     picks v4, v5, v6 or v7 by the width
"""

import torch
import triton
import triton.language as tl

from kernels.device import LOG2E, finite
from kernels.softmax_launch import block_n_of, check, launch, prepare, vectors_of, warps_for
from kernels.softmax_tuned import (
    Plan,
    softmax_plan,
    softmax_v5,
    softmax_v6,
    softmax_v7,
    softmax_v8,
    too_many_parts,
)

# In the kernels exp(t) is exp2(t * LOG2E), where t is x minus a maximum: x * LOG2E could overflow.


@triton.jit
def softmax_kernel_v1(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    """Program m owns row m: one sweep for the maximum, one for the sum, one to write."""
    row = tl.program_id(axis=0).to(tl.int64)
    row_max = -float("inf")
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        row_max = tl.maximum(row_max, tl.max(x))
    row_sum = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        row_sum += tl.sum(tl.exp2((x - row_max) * LOG2E))
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols).to(tl.float32)
        tl.store(
            out_ptr + row * n_cols + cols, tl.exp2((x - row_max) * LOG2E) / row_sum,
            mask=cols < n_cols,
        )


@triton.jit
def softmax_kernel_v2(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    """Program m owns row m, and keeps it in registers: BLOCK_N >= n_cols."""
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    x = tl.load(
        x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
    ).to(tl.float32)
    numerator = tl.exp2((x - tl.max(x)) * LOG2E)
    tl.store(out_ptr + row * n_cols + cols, numerator / tl.sum(numerator), mask=cols < n_cols)


@triton.jit
def softmax_kernel_v3(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    """Program m owns row m: one sweep for maximum and sum together, one to write.

    A new maximum makes the sum so far smaller: exp(x - new) = exp(x - old) * exp(old - new).
    """
    row = tl.program_id(axis=0).to(tl.int64)
    row_max = -float("inf")
    row_sum = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        new_max = tl.maximum(row_max, tl.max(x))
        row_sum *= tl.exp2((row_max - finite(new_max)) * LOG2E)
        row_sum += tl.sum(tl.exp2((x - finite(new_max)) * LOG2E))
        row_max = new_max
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols).to(tl.float32)
        tl.store(
            out_ptr + row * n_cols + cols, tl.exp2((x - row_max) * LOG2E) / row_sum,
            mask=cols < n_cols,
        )


@triton.jit
def softmax_kernel_v4(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm,
    ALIGN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program i owns BLOCK_M rows from i * BLOCK_M on, in registers: BLOCK_N >= n_cols.

    Loads and stores carry hints for the cache: what is read shall leave it last, what is written
    first. ALIGN is a number of elements that n_cols and stride_xm are multiples of: dividing by it
    and multiplying tells the compiler so.
    """
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x_ptrs = x_ptr + rows[:, None] * stride_xm + cols[None, :]
    x = tl.load(x_ptrs, mask=mask, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
    numerator = tl.exp2((x - tl.max(x, axis=1)[:, None]) * LOG2E)
    out_ptrs = out_ptr + rows[:, None] * n_cols + cols[None, :]
    tl.store(
        out_ptrs, numerator / tl.sum(numerator, axis=1)[:, None], mask=mask,
        eviction_policy="evict_first",
    )


def softmax_v1(
    x: torch.Tensor, out: torch.Tensor | None = None, block_n: int = 4096, num_warps: int = 8
) -> torch.Tensor:
    """v1 of the ladder: three sweeps over a row."""
    x, out = prepare(softmax_kernel_v1, x, out)
    return launch(softmax_kernel_v1, x.shape[0], x, out, BLOCK_N=block_n, num_warps=num_warps)


def softmax_v2(
    x: torch.Tensor, out: torch.Tensor | None = None, num_warps: int = 8
) -> torch.Tensor:
    """v2 of the ladder: a row in registers, which hold 32,768 columns before they spill."""
    x, out = prepare(softmax_kernel_v2, x, out)
    block_n = block_n_of(x)
    return launch(
        softmax_kernel_v2, x.shape[0], x, out,
        BLOCK_N=block_n, num_warps=warps_for(num_warps, block_n),
    )


def softmax_v3(
    x: torch.Tensor, out: torch.Tensor | None = None, block_n: int = 4096, num_warps: int = 8
) -> torch.Tensor:
    """v3 of the ladder: maximum and sum in one sweep over a row."""
    x, out = prepare(softmax_kernel_v3, x, out)
    return launch(softmax_kernel_v3, x.shape[0], x, out, BLOCK_N=block_n, num_warps=num_warps)


def softmax_v4(
    x: torch.Tensor, out: torch.Tensor | None = None, tile: int = 2048, num_warps: int = 2
) -> torch.Tensor:
    """v4 of the ladder: each program takes as many rows as `tile` elements hold.

    Rows count as wide as the next power of two.
    """
    x, out = prepare(softmax_kernel_v4, x, out)
    block_n = block_n_of(x)
    block_m = max(1, tile // block_n)
    return launch(
        softmax_kernel_v4, triton.cdiv(x.shape[0], block_m), x, out,
        n_rows=x.shape[0], ALIGN=vectors_of(x, out)["ALIGN"], BLOCK_M=block_m, BLOCK_N=block_n,
        num_warps=warps_for(num_warps, block_n),
    )


VERSIONS = {
    version.__name__: version
    for version in (
        softmax_v1, softmax_v2, softmax_v3, softmax_v4,
        softmax_v5, softmax_v6, softmax_v7, softmax_v8,
    )
}


def softmax(x: torch.Tensor, dim: int = -1, out: torch.Tensor | None = None) -> torch.Tensor:
    """Softmax over the last dimension of x, in one kernel, forward only.

    It is computed in float32 and rounded once.

    x: one dimension or more, any strides. Where its rows are not contiguous, or no strides join its
        leading dimensions, it is copied first.
    dim: the last dimension, as -1 or by its number.
    out: where to write the result, contiguous, of x's shape, dtype and device; it may be x itself.

    Raises TypeError for a non-tensor; ValueError for a scalar, another dtype than DTYPES,
    another dimension than the last, an output that does not fit, and a CPU tensor where the kernel
    is compiled for a GPU.
    """
    check(softmax_kernel_v1, x)
    if dim not in (-1, x.ndim - 1):
        raise ValueError(
            f"softmax: dim is {dim}, and must be the last one of {x.ndim}: move it there with "
            f"x.movedim({dim}, -1)."
        )
    plan = softmax_plan(x.shape[-1], x.dtype)
    if plan.version == "softmax_v7" and too_many_parts(x, plan.settings["part_n"]):
        plan = Plan("softmax_v6", {})
    return VERSIONS[plan.version](x, out, **plan.settings)


if __name__ == "__main__":
    from kernels.program import main

    main(
        __doc__, [*VERSIONS.values(), softmax], lambda x: torch.softmax(x, -1),
        lambda rows, cols: (torch.randn(rows, cols),), small=(5, 9001), large=(2**14, 4096),
    )
