"""Kernels whose blocks hold an address several times, each with a twin whose blocks do not."""

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def scaled_product_kernel(
    a_ptr, b_ptr, scales_ptr, c_ptr, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """a @ b for b in eight bits, where 32 rows of b share a scale for each column."""
    rows = tl.program_id(axis=0) * M + tl.arange(0, M)
    columns = tl.program_id(axis=1) * N + tl.arange(0, N)
    c = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :])
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :])
        scales = tl.load(scales_ptr + (inner // 32)[:, None] * n + columns[None, :])
        c = tl.dot(a, (b * scales).to(tl.float16), c)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c)


@triton.jit
def product_of_groups_kernel(
    a_ptr, b_ptr, scales_ptr, c_ptr, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """The same, where each scale is loaded once."""
    rows = tl.program_id(axis=0) * M + tl.arange(0, M)
    columns = tl.program_id(axis=1) * N + tl.arange(0, N)
    c = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        groups = start // 32 + tl.arange(0, K // 32)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :])
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :])
        scales = tl.load(scales_ptr + groups[:, None] * n + columns[None, :])
        each = tl.reshape(tl.broadcast_to(scales[:, None, :], (K // 32, 32, N)), (K, N))
        c = tl.dot(a, (b * each).to(tl.float16), c)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c)


@triton.jit
def take_kernel(places_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """out[i] = x[places[i]]"""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    places = tl.load(places_ptr + i)
    tl.store(out_ptr + i, tl.load(x_ptr + places))


@triton.jit
def unpack_kernel(words_ptr, out_ptr, BLOCK: tl.constexpr):
    """out[i] = the four bits i % 8 of words[i // 8]"""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    words = tl.load(words_ptr + i // 8)
    tl.store(out_ptr + i, ((words >> (i % 8 * 4)) & 15).to(tl.int8))


SIZE = 4096
QUANTIZED = (
    empty(SIZE, SIZE, dtype=torch.float16),
    empty(SIZE, SIZE, dtype=torch.int8),
    empty(SIZE // 32, SIZE),
    empty(SIZE, SIZE),
    *(SIZE, SIZE, 128, 128, 64),
)
GRID = SIZE // 128, SIZE // 128
PAIRS = (
    Pair(
        "repeats",
        Launch(scaled_product_kernel, GRID, QUANTIZED, {"num_warps": 8}),
        Launch(product_of_groups_kernel, GRID, QUANTIZED, {"num_warps": 8}),
    ),
)
ONE_PLACE = Launch(
    take_kernel,
    (2**21 // 1024,),
    (torch.arange(2**21, dtype=torch.int32) // 64, empty(2**21), empty(2**21), 1024),
)
"""A gather whose places are 64 times the same."""
ONE_REQUEST = Launch(
    unpack_kernel, (2**15,), (empty(2**23, dtype=torch.int32), empty(2**26, dtype=torch.int8), 2048)
)
"""Eight lanes of one request ask for the same word."""
