"""Kernels with something to be told that is no ranked cause, each with a twin without it."""

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def gather_by_division_kernel(x_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + (start + i) // width * width + (start + i) % width)
    tl.store(out_ptr + tl.program_id(axis=0) * BLOCK + i, total)


@triton.jit
def gather_kernel(x_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + start + i)
    tl.store(out_ptr + tl.program_id(axis=0) * BLOCK + i, total)


@triton.jit
def square_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * x)


@triton.jit
def copy_row_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(axis=0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + i, mask=i < n)
    tl.store(out_ptr + row * n + i, x, mask=i < n)


N = 2**18
TABLE = empty(4096), empty(256 * 1024), 4096, 48, 1024
DOUBLE = torch.float64
PAIRS = (
    Pair(
        "divides integers, or takes a remainder, inside a loop",
        Launch(gather_by_division_kernel, (256,), TABLE),
        Launch(gather_kernel, (256,), TABLE),
    ),
    Pair(
        "operations are in float64",
        Launch(square_kernel, (N // 1024,), (empty(N, dtype=DOUBLE), empty(N, dtype=DOUBLE), 1024)),
        Launch(square_kernel, (N // 1024,), (empty(N), empty(N), 1024)),
    ),
    Pair(
        "the mask keeps 50% of the lanes out",
        Launch(copy_row_kernel, (256,), (empty(256, 512), empty(256, 512), 512, 1024)),
        Launch(copy_row_kernel, (256,), (empty(256, 512), empty(256, 512), 512, 512)),
    ),
    Pair(
        "is asked of L1 or L2",
        Launch(gather_kernel, (256,), TABLE),
        Launch(square_kernel, (N // 1024,), (empty(N), empty(N), 1024)),
    ),
    Pair(
        "launching it takes the CPU longer",
        Launch(square_kernel, (N // 1024,), (empty(N), empty(N), 1024)),
        Launch(square_kernel, (64 * N // 1024,), (empty(64 * N), empty(64 * N), 1024)),
    ),
)
