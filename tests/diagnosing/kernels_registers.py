"""Kernels that need more registers than there are, each with a twin that does not."""

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    """A block of M x N of a product, which lies in registers all the time."""
    rows = tl.program_id(axis=0) * M + tl.arange(0, M)
    columns, ks = tl.arange(0, N), tl.arange(0, BLOCK)
    acc = tl.zeros([M, N], tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks[:, None]) * N + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@triton.jit
def subtract_largest_kernel(x_ptr, out_ptr, n, COLUMNS: tl.constexpr):
    """Subtract the row's largest element, which needs the whole row at the same time."""
    row = tl.program_id(axis=0)
    columns = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0)
    tl.store(out_ptr + row * n + columns, x - tl.max(x), mask=columns < n)


@triton.jit
def outer_sum_kernel(x_ptr, y_ptr, out_ptr, K, N, M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr):
    """A block of the sum of K outer products; its sums lie in registers all the time."""
    rows = tl.program_id(axis=0) * M_BLOCK + tl.arange(0, M_BLOCK)
    columns = tl.program_id(axis=1) * N_BLOCK + tl.arange(0, N_BLOCK)
    total = tl.zeros([M_BLOCK, N_BLOCK], tl.float32)
    for k in tl.range(0, K, num_stages=2):
        x, y = tl.load(x_ptr + k * N + rows), tl.load(y_ptr + k * N + columns)
        total += x[:, None] * y[None, :]
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], total)


HALF = torch.float16


def product(num_warps: int) -> Launch:
    """128 x 256 elements of a product by so many warps."""
    tensors = empty(33792, 256, dtype=HALF), empty(256, 256, dtype=HALF), empty(33792, 256)
    options = {"num_warps": num_warps}
    return Launch(product_kernel, (264,), (*tensors, 256, 128, 256, 64), options)


def rows(num_warps: int) -> Launch:
    """Rows of 16,384 elements, each held by so many warps."""
    tensors = empty(4096, 16384), empty(4096, 16384)
    options = {"num_warps": num_warps}
    return Launch(subtract_largest_kernel, (4096,), (*tensors, 16384, 16384), options)


def outer_sum(block: int, num_warps: int) -> Launch:
    """A 4,096 x 4,096 sum of 32 outer products in square blocks."""
    tensors = empty(32, 4096), empty(32, 4096), empty(4096, 4096)
    grid = 4096 // block, 4096 // block
    return Launch(
        outer_sum_kernel, grid, (*tensors, 32, 4096, block, block), {"num_warps": num_warps}
    )


PAIRS = (
    Pair("occupancy", outer_sum(128, num_warps=4), outer_sum(32, num_warps=1)),
    Pair("spills", product(num_warps=4), product(num_warps=8)),
    Pair("spills", rows(num_warps=2), rows(num_warps=16)),
)
