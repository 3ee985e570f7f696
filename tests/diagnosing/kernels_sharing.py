"""Kernels whose programs load what others load too, each with a twin that loads it once."""

import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def distances_kernel(x_ptr, points_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The sum of the distances of a chunk's elements to one of several points."""
    point, chunk = tl.program_id(axis=0), tl.program_id(axis=1)
    at = tl.load(points_ptr + point)
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=4):
        total += tl.abs(tl.load(x_ptr + chunk * n + start + tl.arange(0, BLOCK)) - at)
    tl.store(out_ptr + chunk * tl.num_programs(0) + point, tl.sum(total))


@triton.jit
def all_distances_kernel(x_ptr, points_ptr, out_ptr, n, BLOCK: tl.constexpr, POINTS: tl.constexpr):
    """The same for all points: each element is loaded once."""
    chunk, points = tl.program_id(axis=0), tl.arange(0, POINTS)
    at = tl.load(points_ptr + points)
    total = tl.zeros([POINTS, BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=4):
        x = tl.load(x_ptr + chunk * n + start + tl.arange(0, BLOCK))
        total += tl.abs(x[None, :] - at[:, None])
    tl.store(out_ptr + chunk * POINTS + points, tl.sum(total, axis=1))


@triton.jit
def powers_kernel(x_ptr, sums_ptr, out_ptr, rounds, BLOCK: tl.constexpr):
    """Each program comes to its own elements again and again, and to those of no other."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for number in range(rounds):
        total += tl.load(x_ptr + i) * number
        tl.store(sums_ptr + i, total)
    tl.store(out_ptr + i, total)


N, POINTS, CHUNKS = 2**26, 8, 2048
TENSORS = empty(N), empty(POINTS), empty(CHUNKS, POINTS), N // CHUNKS
PAIRS = (
    Pair(
        "shared reads",
        Launch(distances_kernel, (POINTS, CHUNKS), (*TENSORS, 1024)),
        Launch(all_distances_kernel, (CHUNKS,), (*TENSORS, 1024, POINTS)),
    ),
)
OWN = Launch(powers_kernel, (1024,), (*(empty(2**20) for _ in range(3)), 64, 1024))
"""The loads stay in the loop, since the compiler does not know the two tensors apart."""
