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
def gather_by_constants_kernel(x_ptr, out_ptr, n, width: tl.constexpr, BLOCK: tl.constexpr):
    """Divided by what the compiler knows, which takes a multiplication and a shift."""
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


@triton.jit
def add_up_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each program adds the sum of n elements to one."""
    first = tl.program_id(axis=0) * n
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=3):
        total += tl.load(x_ptr + first + start + tl.arange(0, BLOCK))
    tl.atomic_add(out_ptr, tl.sum(total))


@triton.jit
def largest_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Each second number is below 0."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(axis=0) * BLOCK + i)
    tl.atomic_max(out_ptr + i, x + (2 * (i % 2) - 1).to(x.dtype))


N = 2**18
INTEGERS = torch.int32
TABLE = empty(4096), empty(256 * 1024), 4096, 48, 1024
DOUBLE = torch.float64
PAIRS = (
    Pair(
        "divides integers, or takes a remainder, inside a loop",
        Launch(gather_by_division_kernel, (256,), TABLE),
        Launch(gather_by_constants_kernel, (256,), TABLE),
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
        "updates each element of out_ptr 256 times: let a program add up more before it does",
        Launch(add_up_kernel, (256,), (empty(N), empty(1), 1024, 1024)),
        Launch(add_up_kernel, (8,), (empty(N), empty(1), 32768, 1024)),
    ),
    Pair(
        "is two atomics for each block: one of the numbers below 0, and one of the others",
        Launch(largest_kernel, (256,), (empty(N), empty(1024), 1024)),
        Launch(largest_kernel, (256,), (*(empty(n, dtype=INTEGERS) for n in (N, 1024)), 1024)),
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
