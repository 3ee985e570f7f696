"""Kernels whose loads are narrower than they could be, each with a twin whose loads are wide."""

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty, view


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) * 2, mask=mask)


@triton.jit
def copy_clamped_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Offsets of which the compiler cannot see that they follow one another."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + tl.where(i < n, i, 0)))


@triton.jit
def copy_promised_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The same offsets, with what is known of them where BLOCK divides n."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    clamped = tl.max_contiguous(tl.multiple_of(tl.where(i < n, i, 0), BLOCK), BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + clamped))


@triton.jit
def windows_in_rows_kernel(x_ptr, out_ptr, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """The sums of TAPS neighbors in each row: a window that is shifted along the row."""
    row, i = tl.program_id(axis=1), tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for tap in tl.static_range(1, TAPS):
        inside = i + tap < n
        total += tl.load(x_ptr + row * n + i + tap, mask=inside, other=0)
    tl.store(out_ptr + row * n + i, total)


@triton.jit
def windows_in_columns_kernel(x_ptr, out_ptr, n, rows, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """The same for a tensor that is stored the other way around: shifted from row to row."""
    row, i = tl.program_id(axis=1), tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for tap in tl.static_range(1, TAPS):
        inside = (row + tap < rows) & (i < n)
        total += tl.load(x_ptr + (row + tap) * n + i, mask=inside, other=0)
    tl.store(out_ptr + row * n + i, total)


@triton.jit(do_not_specialize=["stride"])
def copy_rows_untold_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * stride + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit(do_not_specialize=["stride"])
def copy_rows_told_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    i = tl.multiple_of(tl.program_id(axis=0) * stride, 16) + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
    """Rows of a [M, K] by columns of b [K, BLOCK]."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns, ks = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for k in range(0, K, BLOCK):
        inside = ks < K - k
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :], mask=inside[None, :], other=0)
        b = tl.load(b_ptr + (k + ks[:, None]) * BLOCK + columns[None, :], mask=inside[:, None],
                    other=0)  # fmt: skip
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BLOCK + columns[None, :], acc)


def product(rows: int, depth: int, **options: int) -> Launch:
    """A product of so many rows, in float16."""
    half = torch.float16
    tensors = empty(rows, depth, dtype=half), empty(depth, 64, dtype=half), empty(rows, 64)
    return Launch(product_kernel, (rows // 64,), (*tensors, depth, 64), options)


N = 2**22
HALF = torch.float16
PAIRS = (
    Pair(
        "narrow",  # n is not divisible by 16
        Launch(scale_kernel, (N // 1024 + 1,), (empty(N + 1), empty(N + 1), N + 1, 1024)),
        Launch(scale_kernel, (N // 1024,), (empty(N), empty(N), N, 1024)),
    ),
    Pair(
        "narrow",  # x begins elsewhere
        Launch(scale_kernel, (N // 1024,), (view(N, dtype=HALF), empty(N, dtype=HALF), N, 1024)),
        Launch(scale_kernel, (N // 1024,), (empty(N, dtype=HALF), empty(N, dtype=HALF), N, 1024)),
    ),
    Pair(
        "narrow",  # nothing that an argument could mend
        Launch(copy_clamped_kernel, (N // 1024,), (empty(N), empty(N), N, 1024)),
        Launch(copy_promised_kernel, (N // 1024,), (empty(N), empty(N), N, 1024)),
    ),
    Pair("narrow", product(16896, 515), product(16896, 512)),
)
WINDOWS = empty(1024, 4096, dtype=HALF), empty(1024, 4096, dtype=HALF), 4096
SHIFTED = Pair(
    "narrow",  # no promise would be true
    Launch(windows_in_rows_kernel, (4, 1024), (*WINDOWS, 4, 1024)),
    Launch(windows_in_columns_kernel, (4, 1024), (*WINDOWS, 1024, 4, 1024)),
)
UNTOLD = Pair(
    "narrow",  # a promise would be true
    Launch(copy_rows_untold_kernel, (4096,), (empty(N, dtype=HALF), empty(N), 1024, 1024)),
    Launch(copy_rows_told_kernel, (4096,), (empty(N, dtype=HALF), empty(N), 1024, 1024)),
)
