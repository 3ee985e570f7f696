"""Kernels whose addresses lie apart, each with a twin whose addresses do not."""

import torch
import triton
import triton.language as tl

from .kernels_loops import row_sum_ahead_kernel
from .launches import Launch, Pair, empty


@triton.jit
def copy_column_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    """Copy one column of a matrix with rows of `stride` elements."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + rows, tl.load(x_ptr + rows * stride))


@triton.jit
def copy_row_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    """Copy one row of a matrix."""
    columns = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + columns, tl.load(x_ptr + columns))


@triton.jit
def transpose_rows_kernel(x_ptr, out_ptr, N: tl.constexpr):
    """Program i writes row i of an N x N matrix into column i."""
    row = tl.program_id(axis=0)
    columns = tl.arange(0, N)
    tl.store(out_ptr + columns * N + row, tl.load(x_ptr + row * N + columns))


@triton.jit
def transpose_tiles_kernel(x_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    """Program (i, j) turns a tile around."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    tl.store(out_ptr + columns[:, None] * N + rows[None, :], tl.trans(x))


@triton.jit(do_not_specialize=["stride_row"])
def sum_tile_unseen_kernel(x_ptr, out_ptr, stride_row, stride_col, BLOCK: tl.constexpr):
    """Sum the rows of a tile whose rows lie side by side, which the compiler cannot see."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * stride_row + columns[None, :] * stride_col)
    tl.store(out_ptr + rows, tl.sum(x, axis=1))


@triton.jit
def sum_tile_seen_kernel(x_ptr, out_ptr, stride_row, stride_col, BLOCK: tl.constexpr):
    """The same with strides that the compiler is told of."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * stride_row + columns[None, :] * stride_col)
    tl.store(out_ptr + rows, tl.sum(x, axis=1))


@triton.jit
def norms_of_structs_kernel(points_ptr, out_ptr, BLOCK: tl.constexpr):
    """The lengths of points, of which each lies with five other numbers in a row of eight."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(points_ptr + 8 * i), tl.load(points_ptr + 8 * i + 1)
    tl.store(out_ptr + i, tl.sqrt(x * x + y * y))


@triton.jit
def norms_of_arrays_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    """The lengths of points, with an array for each axis."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(out_ptr + i, tl.sqrt(x * x + y * y))


@triton.jit
def to_bytes_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Round to bytes: a thread has 16 elements side by side, 16 bytes of out and 32 of x."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(tl.int8))


@triton.jit
def dequantize_kernel(x_ptr, scale_ptr, out_ptr, N, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Multiply by scales, of which GROUP rows share one row of N: threads ask again for each."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + (rows // GROUP)[:, None] * N + columns[None, :])
    at = rows[:, None] * BLOCK + columns[None, :]
    tl.store(out_ptr + at, tl.load(x_ptr + at) * scale)


@triton.jit
def rotate_pairs_kernel(x_ptr, out_ptr, cos, sin, BLOCK: tl.constexpr):
    """Turn each pair of neighbors by an angle, the first ones and the second ones by themselves."""
    first = 2 * (tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK))
    x, y = tl.load(x_ptr + first), tl.load(x_ptr + first + 1)
    tl.store(out_ptr + first, x * cos - y * sin)
    tl.store(out_ptr + first + 1, x * sin + y * cos)


@triton.jit
def rotate_split_pairs_kernel(x_ptr, out_ptr, cos, sin, BLOCK: tl.constexpr):
    """The same, with both of each pair in one block."""
    i = tl.program_id(axis=0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    x, y = tl.split(tl.reshape(tl.load(x_ptr + i), (BLOCK, 2)))
    turned = tl.join(x * cos - y * sin, x * sin + y * cos)
    tl.store(out_ptr + i, tl.reshape(turned, (2 * BLOCK,)))


def row_sums(first: int) -> Launch:
    """The sums of 132 rows of a tensor from its element `first` on; each warp loads 128 bytes."""
    x = torch.zeros(132 * 4096 + first)[first:].view(132, 4096)  # a view of "meta" would not do
    return Launch(row_sum_ahead_kernel, (132,), (x, empty(132), 4096, 128))


N = 2**20
MISALIGNED = Pair("sectors", row_sums(1), row_sums(8))
PAIRS = (
    MISALIGNED,
    Pair(
        "sectors",
        Launch(copy_column_kernel, (N // 1024,), (empty(16 * N), empty(N), 16, 1024)),
        Launch(copy_row_kernel, (N // 1024,), (empty(16 * N), empty(N), 16, 1024)),
    ),
    Pair(
        "sectors",
        Launch(transpose_rows_kernel, (2048,), (empty(2048, 2048), empty(2048, 2048), 2048)),
        Launch(transpose_tiles_kernel, (32, 32), (empty(2048, 2048), empty(2048, 2048), 2048, 64)),
    ),
    Pair(
        "sectors",
        Launch(sum_tile_unseen_kernel, (N // 64,), (empty(64, N), empty(N), 1, N, 64)),
        Launch(sum_tile_seen_kernel, (N // 64,), (empty(64, N), empty(N), 1, N, 64)),
    ),
    Pair(
        "sectors",
        Launch(norms_of_structs_kernel, (N // 1024,), (empty(N, 8), empty(N), 1024)),
        Launch(norms_of_arrays_kernel, (N // 1024,), (empty(N), empty(N), empty(N), 1024)),
    ),
)
BYTES = Launch(
    to_bytes_kernel, (N // 4096,), (empty(N, dtype=torch.float16), empty(N, dtype=torch.int8), 4096)
)
ROTATED = Pair(
    "sectors",
    Launch(rotate_pairs_kernel, (N // 1024,), (empty(2 * N), empty(2 * N), 0.6, 0.8, 1024)),
    Launch(rotate_split_pairs_kernel, (N // 1024,), (empty(2 * N), empty(2 * N), 0.6, 0.8, 1024)),
)


def dequantized(scale: torch.Tensor) -> Launch:
    """Each block holds two rows of scales, and each warp asks for them by itself."""
    x, out = empty(65536, 32), empty(65536, 32)
    return Launch(dequantize_kernel, (2048,), (x, scale, out, scale.shape[1], 16, 32))


ODD_SCALES = dequantized(torch.zeros(4096, 1001, dtype=torch.float16))
SHIFTED_SCALES = dequantized(torch.zeros(4096 * 1024 + 8, dtype=torch.float16)[8:].view(4096, 1024))
