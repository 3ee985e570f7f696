"""Grids that leave multiprocessors idle or are made of tiny programs, each with a twin."""

import torch
import triton
import triton.language as tl

from .kernels_dots import product_kernel
from .kernels_widths import scale_kernel
from .launches import Launch, Pair, empty


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each program sums n elements."""
    first = tl.program_id(axis=0).to(tl.int64) * n
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=4):
        total += tl.load(x_ptr + first + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(axis=0), tl.sum(total))


@triton.jit
def adam_kernel(p_ptr, g_ptr, m_ptr, v_ptr, n, BLOCK: tl.constexpr):
    """One step of Adam, without its corrections."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    g = tl.load(g_ptr + i, mask=mask)
    m = 0.9 * tl.load(m_ptr + i, mask=mask) + 0.1 * g
    v = 0.99 * tl.load(v_ptr + i, mask=mask) + 0.01 * g * g
    p = tl.load(p_ptr + i, mask=mask) - 1e-3 * m / (tl.sqrt(v) + 1e-8)
    tl.store(p_ptr + i, p, mask=mask)
    tl.store(m_ptr + i, m, mask=mask)
    tl.store(v_ptr + i, v, mask=mask)


def tiles(rows: int, columns: int) -> Launch:
    """A product of so many blocks of 128 x 128."""
    half = torch.float16
    tensors = empty(128 * rows, 2048, dtype=half), empty(2048, 128 * columns, dtype=half)
    args = (*tensors, empty(128 * rows, 128 * columns), 2048, 128, 128, 64, "tf32")
    return Launch(product_kernel, (rows, columns), args, {"num_warps": 8, "num_stages": 4})


N = 2**22
MOMENTS = empty(N), empty(N), empty(N), empty(N)
PAIRS = (
    Pair(
        "few programs",
        Launch(sum_kernel, (8,), (empty(N), empty(8), N // 8, 4096)),
        Launch(sum_kernel, (1024,), (empty(N), empty(1024), N // 1024, 4096)),
    ),
    Pair(
        "small programs",  # blocks of half as many elements as there are threads
        Launch(adam_kernel, (N // 128,), (*MOMENTS, N, 128), {"num_warps": 8}),
        Launch(adam_kernel, (N // 1024,), (*MOMENTS, N, 1024)),
    ),
    Pair("last wave", tiles(19, 7), tiles(12, 11)),
    Pair(
        "small programs",
        Launch(scale_kernel, (N // 64,), (empty(N), empty(N), N, 64)),
        Launch(scale_kernel, (N // 1024,), (empty(N), empty(N), N, 1024)),
    ),
)
