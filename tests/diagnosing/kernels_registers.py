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
def polynomial_kernel(x_ptr, out_ptr, n, COLUMNS: tl.constexpr):
    """Subtract the row's largest element, which needs the whole row at the same time."""
    row = tl.program_id(axis=0)
    columns = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0)
    tl.store(out_ptr + row * n + columns, x - tl.max(x), mask=columns < n)


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
    return Launch(polynomial_kernel, (4096,), (*tensors, 16384, 16384), options)


PAIRS = (
    Pair("spills", product(num_warps=4), product(num_warps=8)),
    Pair("spills", rows(num_warps=2), rows(num_warps=16)),
)
