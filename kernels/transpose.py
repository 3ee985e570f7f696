"""Transpose: out[b, n, m] = x[b, m, n], written contiguously.

    for each tile of BLOCK_M x BLOCK_N elements of x[b], in parallel:
        out[b, columns of the tile, rows of the tile] = x[b, tile].T

The ladder. Every version must read and write each element once: 2 * numel * itemsize bytes. What
differs is how many 32-byte sectors a warp touches for them.

    v1  transpose_v1  a row per program    reads neighbors; writes n_rows elements apart, a sector
                                           for each element
    v2  transpose     a tile per program   reads and writes neighbors: the compiler turns the tile
                                           around in shared memory
"""

import torch
import triton
import triton.language as tl

from kernels.checks import GRID_LIMIT, check_runs_on, check_tensors
from kernels.device import as_stored


@triton.jit
def transpose_kernel_v1(
    x_ptr, out_ptr, n_rows, n_cols, stride_xb, stride_xm, stride_xn, BLOCK_N: tl.constexpr
):
    """Program (m, b) owns row m of matrix b."""
    row = tl.program_id(axis=0).to(tl.int64)
    batch = tl.program_id(axis=1).to(tl.int64)
    # In 64 bits too: a column times n_rows may pass 2**31, and so may the step past the last one.
    for start in range(0, tl.cast(n_cols, tl.int64), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        mask = cols < n_cols
        x = tl.load(x_ptr + batch * stride_xb + row * stride_xm + cols * stride_xn, mask=mask)
        tl.store(out_ptr + batch * n_rows * n_cols + cols * n_rows + row, x, mask=mask)


@triton.jit
def transpose_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xb, stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program (i, j, b) owns rows i * BLOCK_M … and columns j * BLOCK_N … of matrix b."""
    batch = tl.program_id(axis=2).to(tl.int64)
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.program_id(axis=1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x_offsets = rows[:, None] * stride_xm + cols[None, :] * stride_xn
    out_offsets = cols[None, :] * n_rows + rows[:, None]
    x = tl.load(x_ptr + batch * stride_xb + x_offsets, mask=mask)
    tl.store(out_ptr + batch * n_rows * n_cols + out_offsets, x, mask=mask)


def _prepare(kernel: object, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Check x; return it as [batch, rows, columns], and an output of [batch, columns, rows] with
    nothing written."""
    check_tensors("transpose", x=x)
    check_runs_on("transpose", kernel, x)
    if x.ndim < 2:
        raise ValueError(
            f"transpose: x has shape {tuple(x.shape)}; it must have two dimensions or more."
        )
    if x.is_complex():
        raise ValueError(
            f"transpose: x is {x.dtype}, which Triton does not know; view it as real numbers first."
        )
    x = as_stored(x)
    x = x.reshape(-1, *x.shape[-2:]) if x.numel() else x.new_empty((0, *x.shape[-2:]))
    return x, x.new_empty((x.shape[0], x.shape[2], x.shape[1]))


def _parts(x: torch.Tensor, out: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """x and out cut along their first dimension into parts that a grid's last axis takes; none
    where they are empty."""
    if not out.numel():
        return []
    if x.shape[0] <= GRID_LIMIT:
        return [(x, out)]
    return list(zip(x.split(GRID_LIMIT), out.split(GRID_LIMIT), strict=True))


def transpose_v1(x: torch.Tensor) -> torch.Tensor:
    """v1 of the ladder: a row per program."""
    batched, out = _prepare(transpose_kernel_v1, x)
    with torch.cuda.device_of(x):
        for part, out_part in _parts(batched, out):
            batch, n_rows, n_cols = part.shape
            transpose_kernel_v1[(n_rows, batch)](
                part, out_part, n_rows, n_cols, *part.stride(), BLOCK_N=1024
            )
    return out.reshape(x.mT.shape)


def transpose(
    x: torch.Tensor, block_m: int = 64, block_n: int = 64, num_warps: int = 4
) -> torch.Tensor:
    """The last two dimensions of x exchanged, as a new contiguous tensor. Forward only.

    x: two dimensions or more, any strides. Leading dimensions that no strides can join are copied
    first.
    block_m, block_n: rows and columns per program, powers of two.

    Raises TypeError for a non-tensor; ValueError for fewer than two dimensions, a complex
    dtype, more columns than 65,535 blocks hold, and a CPU tensor where the kernel is compiled for a
    GPU.
    """
    batched, out = _prepare(transpose_kernel, x)
    if triton.cdiv(x.shape[-1], block_n) > GRID_LIMIT:
        raise ValueError(
            f"transpose: {x.shape[-1]:,} columns are too many for blocks of {block_n}; take a "
            "larger block_n."
        )
    with torch.cuda.device_of(x):
        for part, out_part in _parts(batched, out):
            batch, n_rows, n_cols = part.shape
            grid = (triton.cdiv(n_rows, block_m), triton.cdiv(n_cols, block_n), batch)
            transpose_kernel[grid](
                part, out_part, n_rows, n_cols, *part.stride(), BLOCK_M=block_m, BLOCK_N=block_n,
                num_warps=num_warps,
            )
    return out.reshape(x.mT.shape)


if __name__ == "__main__":
    from kernels.program import main

    main(
        __doc__, [transpose_v1, transpose], lambda x: x.mT.contiguous(),
        lambda rows, cols: (torch.randn(rows, cols),), small=(67, 1030), large=(8192, 8192),
    )
