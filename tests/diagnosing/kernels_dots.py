"""Products that the tensor cores do not do, or not as fast as they can, each with a twin."""

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0) * M + tl.arange(0, M)
    columns = tl.program_id(axis=1) * N + tl.arange(0, N)
    ks = tl.arange(0, BLOCK)
    acc = tl.zeros([M, N], tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks[:, None]) * (N * tl.num_programs(1)) + columns[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + rows[:, None] * (N * tl.num_programs(1)) + columns[None, :], acc)


@triton.jit
def window_kernel(
    q_ptr, k_ptr, out_ptr, WINDOW: tl.constexpr, BLOCK: tl.constexpr, BOUNDED: tl.constexpr
):
    """The largest score of each query with the keys up to WINDOW - 1 places before it."""
    first = tl.program_id(axis=0) * BLOCK
    rows, dims = first + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    q = tl.load(q_ptr + rows[:, None] * BLOCK + dims[None, :])
    best = tl.full([BLOCK], -1.0e6, tl.float32)
    begin = tl.maximum(first - WINDOW + 1, 0) // BLOCK * BLOCK if BOUNDED else 0
    for start in range(begin, first + BLOCK, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + columns[:, None] * BLOCK + dims[None, :])
        before = rows[:, None] - columns[None, :]
        S = tl.where((before >= 0) & (before < WINDOW), tl.dot(q, k.T), -1.0e6)
        best = tl.maximum(best, tl.max(S, axis=1))
    tl.store(out_ptr + rows, best)


def window(bounded: bool) -> Launch:
    """8,448 queries and keys, and a window of 128."""
    half = torch.float16
    tensors = empty(8448, 64, dtype=half), empty(8448, 64, dtype=half), empty(8448)
    return Launch(window_kernel, (132,), (*tensors, 128, 64, bounded))


def product(dtype: torch.dtype, precision: str, **options: int) -> Launch:
    """A product of 4,224 x 256 by 256 x 1,024 in blocks of 64 x 128."""
    tensors = empty(4224, 256, dtype=dtype), empty(256, 1024, dtype=dtype), empty(4224, 1024)
    args = (*tensors, 256, 64, 128, 32, precision)
    return Launch(product_kernel, (66, 8), args, options)


def tiles(side: int) -> Launch:
    """A product of 1,024 x 1,024 x 1,024 in square tiles."""
    args = (*(empty(1024, 1024),) * 3, 1024, side, side, 32, "tf32")
    return Launch(product_kernel, (1024 // side, 1024 // side), args)


FLOAT, HALF = torch.float32, torch.float16
PAIRS = (
    Pair("tensor cores", product(FLOAT, "ieee"), product(FLOAT, "tf32")),
    Pair("older dot", product(HALF, "tf32", num_warps=2), product(HALF, "tf32", num_warps=4)),
    Pair("small tiles", tiles(32), tiles(128)),
    Pair("hidden tiles", window(False), window(True)),
)
