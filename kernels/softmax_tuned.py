"""Softmax, tuned: v5 to v8 of the ladder in kernels/softmax.py, and the version for each width.

What costs speed besides bytes: a program that holds its row while it waits (so v6 and v7 read twice
and hold nothing), threads that poll memory (so one warp does), and persistent programs, slower on
an H200 for the same bytes (so `softmax` does not take v8).

ALIGN is a number of elements that n_cols and stride_xm are multiples of: dividing by it and
multiplying tells the compiler so. Hints for the cache say that what is read shall leave it last,
and what is written first.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels.device import LOG2E, finite, gpu_of
from kernels.softmax_launch import block_n_of, launch, prepare, vectors_of, warps_for

MOST_WAITING_BYTES = 2**16
"""Shared memory for the rows that v8 loads ahead: every GPU has that much."""


@triton.jit
def aligned_columns(row, n_cols, stride, VECTOR: tl.constexpr, RAGGED: tl.constexpr):
    """The columns of a row that whole vectors of VECTOR elements hold: its body.

    Return the body's offset, how many columns stand before it (the head), and how many it has.
    RAGGED: rows begin anywhere. Otherwise the body is the whole row.
    """
    if RAGGED:
        head = ((VECTOR - row * stride % VECTOR) % VECTOR).to(tl.int32)
        # Rounding changes nothing here, but tells the compiler that VECTOR divides the offset.
        return (row * stride + head) // VECTOR * VECTOR, head, (n_cols - head) // VECTOR * VECTOR
    else:
        return row * stride, 0, n_cols


@triton.jit
def unaligned_columns(head, n_body, n_cols, VECTOR: tl.constexpr):
    """The columns before a row's body and after it, fewer than VECTOR each, and their mask."""
    lanes = tl.arange(0, 2 * VECTOR)  # [2 * VECTOR]
    cols = tl.where(lanes < VECTOR, lanes, lanes - VECTOR + head + n_body)
    return cols, ((lanes < head) | (lanes >= VECTOR)) & (cols < n_cols)


@triton.jit
def softmax_kernel_v5(
    x_ptr, out_ptr, n_cols, stride_xm,
    ALIGN: tl.constexpr, VECTOR: tl.constexpr, RAGGED: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program m owns row m, and keeps it in registers: BLOCK_N >= n_cols.

    A load of VECTOR elements must begin at a multiple of 16 bytes. A RAGGED row does not: its body
    does, from the first such place on, and the columns before and after are read and written one by
    one.
    """
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    row = tl.program_id(axis=0).to(tl.int64)
    x_start, head, n_body = aligned_columns(row, n_cols, stride_xm, VECTOR, RAGGED)
    out_start, _, _ = aligned_columns(row, n_cols, n_cols, VECTOR, RAGGED)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N], from the body's first one
    x = tl.load(
        x_ptr + x_start + cols, mask=cols < n_body, other=-float("inf"),
        eviction_policy="evict_last",
    ).to(tl.float32)
    row_max = tl.max(x)
    if RAGGED:
        end_cols, end_mask = unaligned_columns(head, n_body, n_cols, VECTOR)
        end = tl.load(
            x_ptr + row * stride_xm + end_cols, mask=end_mask, other=-float("inf")
        ).to(tl.float32)
        row_max = tl.maximum(row_max, tl.max(end))
    numerator = tl.exp2((x - row_max) * LOG2E)
    row_sum = tl.sum(numerator)
    if RAGGED:
        end_numerator = tl.exp2((end - row_max) * LOG2E)
        row_sum += tl.sum(end_numerator)
        tl.store(out_ptr + row * n_cols + end_cols, end_numerator / row_sum, mask=end_mask)
    tl.store(
        out_ptr + out_start + cols, numerator * (1.0 / row_sum), mask=cols < n_body,
        eviction_policy="evict_first",
    )


@triton.jit
def pack(maximum, total):
    """Two float32 in one int64, so that one atomic operation stores both.

    Never 0: a sum is 0 only where the maximum is -inf.
    """
    return (
        (maximum.to(tl.int32, bitcast=True).to(tl.int64) << 32)
        | total.to(tl.uint32, bitcast=True).to(tl.int64)
    )


@triton.jit
def unpack(word):
    """The two float32 of `pack`."""
    return (
        (word >> 32).to(tl.int32).to(tl.float32, bitcast=True),
        word.to(tl.int32).to(tl.float32, bitcast=True),
    )


@triton.jit
def exchange(partials_ptr, part, part_max, part_sum, PARTS: tl.constexpr):
    """Store this part's maximum and sum, wait for the row's other parts, return the row's.

    partials_ptr: a word for each part, 0 until it is stored. A stored word never changes, so no
        order between words matters. They are read by atomics, which one warp does for all: if each
        thread polled, the polls would take more of the L2 cache's time than the data.
    """
    parts = tl.arange(0, triton.next_power_of_2(PARTS))  # [PARTS, rounded up]
    slots = partials_ptr + parts % PARTS
    tl.atomic_xchg(partials_ptr + part, pack(part_max, part_sum), sem="relaxed")
    nothing = tl.zeros_like(parts).to(tl.int64)
    words = tl.atomic_add(slots, nothing, sem="relaxed")
    while tl.min((words != 0).to(tl.int32)) == 0:
        words = tl.atomic_add(slots, nothing, sem="relaxed")
    maxima, sums = unpack(words)
    row_max = tl.max(maxima)
    sums *= tl.exp2((maxima - finite(row_max)) * LOG2E)
    return row_max, tl.sum(tl.where(parts < PARTS, sums, 0.0))


@triton.jit
def softmax_kernel_v6(
    x_ptr, out_ptr, partials_ptr, n_cols, stride_xm, n_blocks,
    ALIGN: tl.constexpr, VECTOR: tl.constexpr, RAGGED: tl.constexpr, BLOCK_N: tl.constexpr,
    PARTS: tl.constexpr = 1,
):
    """Program m * PARTS + p owns part p of row m: n_blocks * BLOCK_N columns, swept twice.

    Maxima and sums are kept for each vector, which one thread holds, so that no thread waits for
    another within a sweep. The second sweep goes backwards: what was read last is still in the
    L1 cache.

    PARTS > 1 (v7): programs of a row wait for one another. The wait ends if programs start in the
    order of their numbers, so that those of the first unfinished row have all started, and if PARTS
    programs fit the GPU at once. GPUs keep that order; CUDA does not promise it, and a counter that
    each program draws its number from costs about 5 % here.
    """
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    row = tl.program_id(axis=0).to(tl.int64) // PARTS
    part = tl.program_id(axis=0) % PARTS
    x_start, head, n_body = aligned_columns(row, n_cols, stride_xm, VECTOR, RAGGED)
    out_start, _, _ = aligned_columns(row, n_cols, n_cols, VECTOR, RAGGED)
    vectors = tl.arange(0, BLOCK_N // VECTOR)  # [BLOCK_N / VECTOR]
    # [BLOCK_N / VECTOR, VECTOR]
    first = part * n_blocks * BLOCK_N + vectors[:, None] * VECTOR + tl.arange(0, VECTOR)[None, :]

    maxima = tl.full([BLOCK_N // VECTOR], -float("inf"), tl.float32)
    sums = tl.zeros([BLOCK_N // VECTOR], tl.float32)
    for block in range(n_blocks):
        cols = first + block * BLOCK_N
        x = tl.load(
            x_ptr + x_start + cols, mask=cols < n_body, other=-float("inf"),
            eviction_policy="evict_last",
        )
        x = x.to(tl.float32)
        new_maxima = tl.maximum(maxima, tl.max(x, axis=1))
        sums *= tl.exp2((maxima - finite(new_maxima)) * LOG2E)
        sums += tl.sum(tl.exp2((x - finite(new_maxima)[:, None]) * LOG2E), axis=1)
        maxima = new_maxima
    row_max = tl.max(maxima)
    if RAGGED:
        # The last part's only. Not by `end_mask & …`: Triton 3.9's interpreter takes no
        # block & scalar.
        end_cols, end_mask = unaligned_columns(
            head, n_body, tl.where(part == PARTS - 1, n_cols, 0), VECTOR
        )
        end = tl.load(
            x_ptr + row * stride_xm + end_cols, mask=end_mask, other=-float("inf")
        ).to(tl.float32)
        row_max = tl.maximum(row_max, tl.max(end))
    row_sum = tl.sum(sums * tl.exp2((maxima - finite(row_max)) * LOG2E))
    if RAGGED:
        row_sum += tl.sum(tl.exp2((end - finite(row_max)) * LOG2E))
    if PARTS > 1:
        row_max, row_sum = exchange(partials_ptr + row * PARTS, part, row_max, row_sum, PARTS)

    scale = 1.0 / row_sum
    for block in range(n_blocks):
        cols = first + (n_blocks - 1 - block) * BLOCK_N
        x = tl.load(
            x_ptr + x_start + cols, mask=cols < n_body, eviction_policy="evict_first"
        ).to(tl.float32)
        out = tl.exp2((x - row_max) * LOG2E) * scale
        tl.store(
            out_ptr + out_start + cols, out, mask=cols < n_body, eviction_policy="evict_first"
        )
    if RAGGED:
        tl.store(
            out_ptr + row * n_cols + end_cols, tl.exp2((end - row_max) * LOG2E) * scale,
            mask=end_mask,
        )


@triton.jit
def softmax_kernel_v8(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm,
    ALIGN: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr,
):
    """Program i of P owns rows i, i + P, i + 2 P …, one after the other: BLOCK_N >= n_cols.

    While one row is computed, the loads of the next DEPTH - 1 are on their way into shared memory.
    """
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    first = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    # In 64 bits, since the step past the last row may pass 2**31.
    end = tl.cast(n_rows, tl.int64)
    for start in tl.range(0, end, tl.num_programs(axis=0), num_stages=DEPTH):
        row = first + start
        mask = cols < tl.where(row < n_rows, n_cols, 0)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=-float("inf")).to(tl.float32)
        numerator = tl.exp2((x - finite(tl.max(x))) * LOG2E)
        tl.store(out_ptr + row * n_cols + cols, numerator / tl.sum(numerator), mask=mask)


def softmax_v5(
    x: torch.Tensor, out: torch.Tensor | None = None, num_warps: int = 8
) -> torch.Tensor:
    """v5 of the ladder: a row in registers, by whole vectors."""
    x, out = prepare(softmax_kernel_v5, x, out)
    block_n = block_n_of(x)
    return launch(
        softmax_kernel_v5, x.shape[0], x, out,
        **vectors_of(x, out), BLOCK_N=block_n, num_warps=warps_for(num_warps, block_n),
    )


def softmax_v6(
    x: torch.Tensor, out: torch.Tensor | None = None, block_n: int = 8192, num_warps: int = 16
) -> torch.Tensor:
    """v6 of the ladder: two sweeps, the second from the cache."""
    x, out = prepare(softmax_kernel_v6, x, out)
    return launch(
        softmax_kernel_v6, x.shape[0], x, out,
        partials_ptr=None, n_blocks=triton.cdiv(x.shape[1], block_n), **vectors_of(x, out),
        BLOCK_N=block_n, num_warps=num_warps,
    )


def too_many_parts(x: torch.Tensor, part_n: int) -> bool:
    """Whether v7 would cut rows of x into more parts than this GPU is sure to run at once."""
    return triton.cdiv(x.shape[-1], part_n) > gpu_of(x).multiprocessors


def softmax_v7(
    x: torch.Tensor, out: torch.Tensor | None = None, block_n: int = 4096, part_n: int = 4096,
    num_warps: int = 4,
) -> torch.Tensor:
    """v7 of the ladder: a program for each part_n columns of a row, a multiple of block_n.

    Raises ValueError where a row has more parts than the GPU has multiprocessors: its programs
    might wait forever. So might those of more such launches at the same time, on streams of their
    own, than programs fit a multiprocessor.
    """
    x, out = prepare(softmax_kernel_v6, x, out)
    parts = triton.cdiv(x.shape[1], part_n)
    if too_many_parts(x, part_n):
        raise ValueError(
            f"softmax: {parts} programs per row are more than this GPU is sure to run at once; "
            "take a larger part_n."
        )
    partials = torch.zeros(x.shape[0] * parts, dtype=torch.int64, device=x.device)
    arguments = {
        "partials_ptr": partials, "n_blocks": part_n // block_n, **vectors_of(x, out),
        "BLOCK_N": block_n, "PARTS": parts, "num_warps": num_warps,
    }
    if not isinstance(softmax_kernel_v6, triton.JITFunction):
        # The interpreter runs one program after the other, so none may wait for a later one. Where
        # no word is 0, none does: a launch into a copy stores all of them for the one below.
        partials.fill_(1)
        launch(softmax_kernel_v6, x.shape[0] * parts, x, torch.empty_like(out), **arguments)
    return launch(softmax_kernel_v6, x.shape[0] * parts, x, out, **arguments)


def softmax_v8(
    x: torch.Tensor, out: torch.Tensor | None = None, depth: int = 2, programs: int = 4,
    num_warps: int = 8,
) -> torch.Tensor:
    """v8 of the ladder: `programs` programs per multiprocessor, each with `depth` rows in flight.

    Fewer rows where MOST_WAITING_BYTES do not hold as many.
    """
    x, out = prepare(softmax_kernel_v8, x, out)
    block_n = block_n_of(x)
    depth = max(1, min(depth, 1 + MOST_WAITING_BYTES // (block_n * x.itemsize)))
    return launch(
        softmax_kernel_v8, min(x.shape[0], programs * gpu_of(x).multiprocessors), x, out,
        n_rows=x.shape[0], ALIGN=vectors_of(x, out)["ALIGN"], BLOCK_N=block_n, DEPTH=depth,
        num_warps=warps_for(num_warps, block_n),
    )


class Plan(NamedTuple):
    """Which version `softmax` takes, and with which settings."""

    version: str
    settings: dict[str, int]


# Element size in bytes -> (the widest rows, plan): the fastest of those tried on an H200 with
# Triton 3.9.0 on 2026-11-22. Beyond 16,384 columns these were 10 to 18 settings of v7 for each
# width, and v5 with a row over a cluster of 2, 4 or 8 multiprocessors, which keeps its row in
# registers and reduces across the cluster: it reached 0.5 to 0.9 of a copy, and v7 0.91 to 1.
PLANS: dict[int, tuple[tuple[float, Plan], ...]] = {
    2: (
        (512, Plan("softmax_v4", {"tile": 2048, "num_warps": 2})),
        (1024, Plan("softmax_v5", {"num_warps": 1})),
        (2048, Plan("softmax_v5", {"num_warps": 2})),
        (4096, Plan("softmax_v5", {"num_warps": 4})),
        (8192, Plan("softmax_v5", {"num_warps": 8})),
        (16384, Plan("softmax_v6", {"block_n": 8192, "num_warps": 16})),
        (32768, Plan("softmax_v7", {"block_n": 4096, "part_n": 4096, "num_warps": 4})),
        (53248, Plan("softmax_v7", {"block_n": 2048, "part_n": 6144, "num_warps": 4})),
        (65536, Plan("softmax_v7", {"block_n": 4096, "part_n": 4096, "num_warps": 4})),
        (131072, Plan("softmax_v7", {"block_n": 8192, "part_n": 8192, "num_warps": 8})),
        (4194304, Plan("softmax_v7", {"block_n": 8192, "part_n": 32768, "num_warps": 16})),
        (math.inf, Plan("softmax_v6", {"block_n": 16384, "num_warps": 32})),
    ),
    4: (
        (512, Plan("softmax_v4", {"tile": 1024, "num_warps": 2})),
        (1024, Plan("softmax_v5", {"num_warps": 2})),
        (2048, Plan("softmax_v5", {"num_warps": 4})),
        (4096, Plan("softmax_v5", {"num_warps": 8})),
        (8192, Plan("softmax_v5", {"num_warps": 16})),
        (16384, Plan("softmax_v6", {"block_n": 16384, "num_warps": 32})),
        (262144, Plan("softmax_v7", {"block_n": 8192, "part_n": 8192, "num_warps": 8})),
        (2097152, Plan("softmax_v7", {"block_n": 8192, "part_n": 16384, "num_warps": 8})),
        (4194304, Plan("softmax_v7", {"block_n": 16384, "part_n": 32768, "num_warps": 32})),
        (math.inf, Plan("softmax_v6", {"block_n": 16384, "num_warps": 32})),
    ),
}


def softmax_plan(n_cols: int, dtype: torch.dtype) -> Plan:
    """The version and settings that `softmax` takes for rows of n_cols elements."""
    return next(plan for most, plan in PLANS[dtype.itemsize] if n_cols <= most)
