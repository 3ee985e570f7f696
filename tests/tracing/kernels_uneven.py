"""Kernels whose programs do not all do the same, and kernels that promise or leave out too much."""

import triton
import triton.language as tl


@triton.jit
def rising_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Program p loads p + 1 rows, as causal attention does."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0) + 1):
        total += tl.load(x_ptr + row * BLOCK + i)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, total)


@triton.jit
def falling_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), tl.num_programs(0)):
        total += tl.load(x_ptr + row * BLOCK + i)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, total)


@triton.jit
def heavy_kernel(x_ptr, out_ptr, heavy, many, BLOCK: tl.constexpr):
    """One program loads many rows, and each other one."""
    i = tl.arange(0, BLOCK)
    rows = 1
    if tl.program_id(0) == heavy:
        rows = many
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x_ptr + row * BLOCK + i)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, total)


@triton.jit
def hidden_kernel(x_ptr, rows_ptr, out_ptr, BLOCK: tl.constexpr):
    """How many rows a program loads is a number that only running it tells."""
    i = tl.arange(0, BLOCK)
    rows = tl.sum(tl.load(rows_ptr + tl.program_id(0) + tl.arange(0, 1)))
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x_ptr + row * BLOCK + i)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, total)


@triton.jit
def nested_kernel(x_ptr, rows_ptr, out_ptr, BLOCK: tl.constexpr):
    """Each program loads every row that it comes to three times."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, tl.load(rows_ptr + tl.program_id(0)), 2):
        for _ in range(3):
            total += tl.load(x_ptr + row * BLOCK + i)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, total)


@triton.jit
def in_turn_kernel(turn_ptr, out_ptr):
    """Each program waits for the one before it."""
    p = tl.program_id(0)
    while tl.atomic_add(turn_ptr, 0) < p:
        p += 0
    tl.store(out_ptr + p, p)
    tl.atomic_add(turn_ptr, 1)


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A published idiom: rows past the end are rows from the beginning, and promised to be none."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    promised = tl.max_contiguous(tl.multiple_of(rows % m, BLOCK_M), BLOCK_M)
    columns, inner = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        a = tl.load(a_ptr + promised[:, None] * k + (start + inner)[None, :])
        b = tl.load(b_ptr + (start + inner)[:, None] * n + columns[None, :])
        total += tl.dot(a, b)
    places = c_ptr + rows[:, None] * n + columns[None, :]
    tl.store(places, total, mask=rows[:, None] < m)


@triton.jit
def around_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Promises that lanes are neighbors which are not, and loads by them."""
    i = tl.arange(0, BLOCK)
    promised = tl.max_contiguous(tl.multiple_of(i % n, BLOCK), BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + promised))


@triton.jit
def mean_square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Divides rows by the root of the mean of their squares, over lanes that no `other` defines."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + i, mask=i < n)
    doubled = x + x
    mean_square = tl.sum(x * x) / n
    scale = tl.rsqrt(mean_square)
    tl.store(out_ptr + tl.program_id(0) * n + i, doubled * scale, mask=i < n)


@triton.jit
def first_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Only the first programs of a large grid have any elements."""
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)
