"""Kernels whose places are loaded, each with a twin that does the same with fewer of them."""

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def gather_kernel(places_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """out[i] = x[places[i]]"""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    places = tl.load(places_ptr + i)
    tl.store(out_ptr + i, tl.load(x_ptr + places))


@triton.jit
def gather_rows_kernel(places_ptr, x_ptr, out_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = x[places[i]], for rows of WIDTH elements."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    places = tl.load(places_ptr + i)
    rows = tl.load(x_ptr + places[:, None] * WIDTH + columns[None, :])
    tl.store(out_ptr + i[:, None] * WIDTH + columns[None, :], rows)


@triton.jit
def count_kernel(x_ptr, counts_ptr, BLOCK: tl.constexpr):
    """How often each number below 256 comes, one by one."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + tl.load(x_ptr + i), 1, sem="relaxed")


@triton.jit
def count_by_program_kernel(x_ptr, counts_ptr, BLOCK: tl.constexpr):
    """The same, counted inside the program first."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x_ptr + i), 256)
    tl.atomic_add(counts_ptr + tl.arange(0, 256), counts, sem="relaxed")


@triton.jit
def search_kernel(keys_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """How many of n ordered keys are below each x: each step goes where the one before has led."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    low, high = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32) + n
    while tl.max(high - low) > 0:
        middle = (low + high) // 2
        below = tl.load(keys_ptr + middle, mask=low < high, other=0) < x
        high = tl.where(below, high, tl.minimum(middle, high))
        low = tl.where(below & (low < high), middle + 1, low)
    tl.store(out_ptr + i, low)


N, ROWS, WIDTH = 2**21, 2**15, 64
seed = torch.Generator().manual_seed(0)
ANYWHERE = torch.randperm(N, generator=seed, dtype=torch.int32)
ROWS_ANYWHERE = torch.randperm(ROWS, generator=seed, dtype=torch.int32)
NUMBERS = torch.randint(256, (N,), generator=seed, dtype=torch.int32)
COUNTS = empty(256, dtype=torch.int32)


def gather(places: torch.Tensor) -> Launch:
    return Launch(gather_kernel, (N // 1024,), (places, empty(N), empty(N), 1024))


PAIRS = (
    Pair(
        "sectors",
        gather(ANYWHERE),
        Launch(
            gather_rows_kernel,
            (ROWS // 32,),
            (ROWS_ANYWHERE, empty(ROWS, WIDTH), empty(ROWS, WIDTH), WIDTH, 32),
        ),
    ),
    Pair(
        "contention",
        Launch(count_kernel, (N // 4096,), (NUMBERS, COUNTS, 4096)),
        Launch(count_by_program_kernel, (N // 4096,), (NUMBERS, COUNTS, 4096)),
    ),
)
KEYS = torch.arange(4096, dtype=torch.int32)
SEARCH = Launch(search_kernel, (4,), (KEYS, KEYS, empty(4096, dtype=torch.int32), 4096, 256))
IN_ORDER = gather(torch.arange(N, dtype=torch.int32))
WITHOUT_PLACES = gather(empty(N, dtype=torch.int32))
