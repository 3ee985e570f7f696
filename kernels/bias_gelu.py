"""Bias and GELU: out[m, n] = gelu(x[m, n] + bias[n]), with gelu(t) = t / 2 * (1 + erf(t /
sqrt(2))).

    for each tile of BLOCK_M x BLOCK_N elements of x, in parallel:
        out[tile] = gelu(x[tile] + bias[columns of the tile])

The ladder, in bytes for x of M x N elements of s bytes; the bias is read from the cache.

    v1  bias_gelu_v1  two kernels   4 * M * N * s: the sum is written to memory and read again
    v2  bias_gelu     one kernel    2 * M * N * s: the sum stays in registers

In 16 bits the bytes are so few that the arithmetic of erf takes longer than moving them.
"""

import torch
import triton
import triton.language as tl

from kernels.checks import GRID_LIMIT, check_runs_on, check_tensors
from kernels.device import as_stored

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def gelu(x):
    """x / 2 * (1 + erf(x / sqrt(2))), for float32."""
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def bias_kernel(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_xm, stride_xn, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """out = x + bias. Program (i, j) owns the tile of BLOCK_M rows from i * BLOCK_M and BLOCK_N
    columns from j * BLOCK_N."""
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x = tl.load(
        x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn, mask=mask
    ).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)  # [BLOCK_N]
    tl.store(out_ptr + rows[:, None] * n_cols + cols[None, :], x + bias[None, :], mask=mask)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """out = gelu(x). Program i owns elements [i * BLOCK_SIZE, (i + 1) * BLOCK_SIZE)."""
    offsets = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, gelu(tl.load(x_ptr + offsets, mask=mask).to(tl.float32)), mask=mask)


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """out = gelu(x + bias). Program (i, j) owns the same tile as in bias_kernel."""
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x = tl.load(
        x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn, mask=mask
    ).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)  # [BLOCK_N]
    tl.store(out_ptr + rows[:, None] * n_cols + cols[None, :], gelu(x + bias[None, :]), mask=mask)


def _prepare(
    kernel: object, x: torch.Tensor, bias: torch.Tensor, block_n: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Check the inputs; return x as a matrix, and the bias contiguous."""
    check_tensors("bias_gelu", x=x, bias=bias)
    check_runs_on("bias_gelu", kernel, x)
    if x.ndim < 1 or bias.shape != x.shape[-1:]:
        raise ValueError(
            f"bias_gelu: x has shape {tuple(x.shape)} and bias {tuple(bias.shape)}; the bias must "
            "have one dimension, as long as the last one of x."
        )
    if bias.device != x.device or bias.dtype != x.dtype:
        raise ValueError(
            f"bias_gelu: x is {x.dtype} on {x.device} and bias {bias.dtype} on {bias.device}; both "
            "must be the same."
        )
    if x.dtype not in DTYPES:
        raise ValueError(
            f"bias_gelu: x is {x.dtype}; this kernel takes float16, bfloat16 and float32."
        )
    if triton.cdiv(x.shape[-1], block_n) > GRID_LIMIT:
        raise ValueError(
            f"bias_gelu: {x.shape[-1]:,} columns are too many for blocks of {block_n}; take a "
            "larger block_n."
        )
    x = as_stored(x)
    matrix = x.reshape(-1, x.shape[-1]) if x.numel() else x.new_empty((0, x.shape[-1]))
    return matrix, as_stored(bias).contiguous()


def bias_gelu_v1(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """v1 of the ladder: one kernel adds the bias, in float32, and a second one applies GELU."""
    matrix, bias = _prepare(bias_kernel, x, bias, block_n=1024)
    # The sum is kept in the dtype of x, as two separate operations of PyTorch would keep it.
    total = torch.empty(matrix.shape, dtype=x.dtype, device=x.device)
    out = torch.empty_like(total)
    if out.numel():
        n_rows, n_cols = matrix.shape
        grid = (triton.cdiv(n_rows, 4), triton.cdiv(n_cols, 1024))
        with torch.cuda.device_of(x):
            bias_kernel[grid](
                matrix, bias, total, n_rows, n_cols, *matrix.stride(), BLOCK_M=4, BLOCK_N=1024,
                num_warps=4,
            )
            gelu_kernel[(triton.cdiv(out.numel(), 2048),)](
                total, out, out.numel(), BLOCK_SIZE=2048, num_warps=8
            )
    return out.reshape(x.shape)


def bias_gelu(
    x: torch.Tensor, bias: torch.Tensor, block_m: int = 4, block_n: int = 1024, num_warps: int = 4
) -> torch.Tensor:
    """gelu(x + bias) over the last dimension, in one launch; computed in float32, rounded once.
    Forward only.

    x: one dimension or more, any strides. Leading dimensions that no strides can join are copied
    first.
    bias: one dimension, as long as the last one of x, of the same dtype and device.
    block_m, block_n: rows and columns per program, powers of two.

    Raises TypeError for a non-tensor; ValueError where shapes, dtypes or devices do not fit,
    where there are more columns than 65,535 blocks hold, or the tensors are on the CPU and the
    kernel is compiled for a GPU.
    """
    matrix, bias = _prepare(bias_gelu_kernel, x, bias, block_n)
    out = torch.empty(matrix.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        n_rows, n_cols = matrix.shape
        grid = (triton.cdiv(n_rows, block_m), triton.cdiv(n_cols, block_n))
        with torch.cuda.device_of(x):
            bias_gelu_kernel[grid](
                matrix, bias, out, n_rows, n_cols, *matrix.stride(), BLOCK_M=block_m,
                BLOCK_N=block_n, num_warps=num_warps,
            )
    return out.reshape(x.shape)


if __name__ == "__main__":
    from kernels.program import main

    main(
        __doc__, [bias_gelu_v1, bias_gelu],
        lambda x, bias: torch.nn.functional.gelu(x + bias),
        lambda rows, cols: (torch.randn(rows, cols), torch.randn(cols)),
        small=(5, 1030), large=(2**14, 4096),
    )
