"""Kernels whose atomics wait, each with a twin whose atomics do not."""

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def add_rows_kernel(x_ptr, sums_ptr, BLOCK: tl.constexpr):
    """The sums of columns, a program for each row."""
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(axis=0) * BLOCK + columns)
    tl.atomic_add(sums_ptr + columns, x)


@triton.jit
def add_rows_in_any_order_kernel(x_ptr, sums_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(axis=0) * BLOCK + columns)
    tl.atomic_add(sums_ptr + columns, x, sem="relaxed")


@triton.jit
def add_rows_under_locks_kernel(
    x_ptr, sums_ptr, locks_ptr, LOCKS: tl.constexpr, BLOCK: tl.constexpr
):
    """Sums of columns in so many parts, each under a lock of its own."""
    columns = tl.arange(0, BLOCK)
    row = tl.program_id(axis=0)
    x = tl.load(x_ptr + row * BLOCK + columns)
    part = row % LOCKS
    while tl.atomic_cas(locks_ptr + part, 0, 1) == 1:
        pass
    sums = tl.load(sums_ptr + part * BLOCK + columns)
    tl.store(sums_ptr + part * BLOCK + columns, sums + x)
    tl.debug_barrier()
    tl.atomic_xchg(locks_ptr + part, 0)


@triton.jit
def add_parts_kernel(x_ptr, sums_ptr, LOCKS: tl.constexpr, BLOCK: tl.constexpr):
    """The same without locks."""
    columns = tl.arange(0, BLOCK)
    row = tl.program_id(axis=0)
    x = tl.load(x_ptr + row * BLOCK + columns)
    tl.atomic_add(sums_ptr + row % LOCKS * BLOCK + columns, x, sem="relaxed")


WHOLE = torch.int32
LOCKS = 16
X = empty(2048, 4096, dtype=WHOLE)
ROWS = X, empty(4096, dtype=WHOLE), 4096
PARTS = empty(LOCKS, 4096, dtype=WHOLE)

PAIRS = (
    Pair(
        "fences",
        Launch(add_rows_kernel, (2048,), ROWS),
        Launch(add_rows_in_any_order_kernel, (2048,), ROWS),
    ),
    Pair(
        "locks",
        Launch(
            add_rows_under_locks_kernel, (2048,), (X, PARTS, empty(LOCKS, dtype=WHOLE), LOCKS, 4096)
        ),
        Launch(add_parts_kernel, (2048,), (X, PARTS, LOCKS, 4096)),
    ),
)
