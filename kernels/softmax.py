"""Softmax over the last axis: out[m, n] = exp(x[m, n] - max(x[m])) / sum(exp(x[m] - max(x[m]))).

    for each row of x, in parallel:
        row_max, row_sum = -inf, 0
        for each block x of BLOCK_N elements:              # a sweep
            new_max = max(row_max, max(x))
            row_sum = row_sum * exp(row_max - new_max) + sum(exp(x - new_max))
            row_max = new_max
        for each block x of BLOCK_N elements:              # another, unless registers hold the row
            out[block] = exp(x - row_max) / row_sum

The ladder, in bytes for x of M x N elements of s bytes. Each element must be read once and written
once: 2 * M * N * s. A second reading may come from a cache, so what is asked for and what memory
moves differ.

    v1  softmax_v1  a program per row, three sweeps     asks for 4 * M * N * s: for maximum, sum
                                                        and result
    v2  softmax_v2  a program per row, in registers     2 * M * N * s; as wide as the registers
    v3  softmax_v3  maximum and sum in one sweep        asks for 3 * M * N * s; any width
    v4  softmax_v4  several rows per program, in        2 * M * N * s; narrow rows fill a program
                    registers
    v5  softmax_v5  as v2, by whole vectors of          2 * M * N * s; also where rows begin
                    16 bytes                            anywhere
    v6  softmax_v6  as v3, its second sweep from        asks for 3 * M * N * s; memory moves
                    the cache                           2 * M * N * s while the rows being worked
                                                        on fit the caches
    v7  softmax_v7  as v6, several programs share       the same, and 16 bytes per program for what
                    a row                               they tell one another
    v8  softmax_v8  as v2, a program takes row          2 * M * N * s; persistent, the next rows'
                    after row                           loads in flight
        softmax     picks v4, v5, v6 or v7 by the width

What costs speed besides bytes: a program that holds its row while it waits (so v6 and v7 read twice
and hold nothing), threads that poll memory (so one warp does), and persistent programs, slower on
an H200 for the same bytes (so `softmax` does not take v8).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels.checks import check_runs_on, check_same, check_tensors
from kernels.device import LOG2E, as_stored, gpu_of

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_COLUMNS = 2**30
MOST_WAITING_BYTES = 2**16
"""Shared memory for the rows that v8 loads ahead: every GPU has that much."""

# In the kernels exp(t) is exp2(t * LOG2E), where t is x minus a maximum: x * LOG2E could overflow.


@triton.jit
def softmax_kernel_v1(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    """Program m owns row m: one sweep for the maximum, one for the sum, one to write."""
    row = tl.program_id(axis=0).to(tl.int64)
    row_max = -float("inf")
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        row_max = tl.maximum(row_max, tl.max(x))
    row_sum = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        row_sum += tl.sum(tl.exp2((x - row_max) * LOG2E))
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols).to(tl.float32)
        tl.store(
            out_ptr + row * n_cols + cols, tl.exp2((x - row_max) * LOG2E) / row_sum,
            mask=cols < n_cols,
        )


@triton.jit
def softmax_kernel_v2(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    """Program m owns row m, and keeps it in registers: BLOCK_N >= n_cols."""
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    x = tl.load(
        x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
    ).to(tl.float32)
    numerator = tl.exp2((x - tl.max(x)) * LOG2E)
    tl.store(out_ptr + row * n_cols + cols, numerator / tl.sum(numerator), mask=cols < n_cols)


@triton.jit
def finite(maximum):
    """What to subtract before exp2: the maximum, but 0 where all was -inf.

    -inf - -inf is NaN, and the result must be exp2(-inf).
    """
    return tl.where(maximum == -float("inf"), 0.0, maximum)


@triton.jit
def softmax_kernel_v3(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    """Program m owns row m: one sweep for maximum and sum together, one to write.

    A new maximum makes the sum so far smaller: exp(x - new) = exp(x - old) * exp(old - new).
    """
    row = tl.program_id(axis=0).to(tl.int64)
    row_max = -float("inf")
    row_sum = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        x = tl.load(
            x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        new_max = tl.maximum(row_max, tl.max(x))
        row_sum *= tl.exp2((row_max - finite(new_max)) * LOG2E)
        row_sum += tl.sum(tl.exp2((x - finite(new_max)) * LOG2E))
        row_max = new_max
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols).to(tl.float32)
        tl.store(
            out_ptr + row * n_cols + cols, tl.exp2((x - row_max) * LOG2E) / row_sum,
            mask=cols < n_cols,
        )


# From here on loads and stores carry hints for the cache: what is read shall leave it last, what is
# written first. ALIGN is a number of elements that n_cols and stride_xm are multiples of: dividing
# by it and multiplying tells the compiler so.


@triton.jit
def softmax_kernel_v4(
    x_ptr, out_ptr, n_rows, n_cols, stride_xm,
    ALIGN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program i owns BLOCK_M rows from i * BLOCK_M on, in registers: BLOCK_N >= n_cols."""
    n_cols, stride_xm = n_cols // ALIGN * ALIGN, stride_xm // ALIGN * ALIGN
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)  # [BLOCK_M, BLOCK_N]
    x_ptrs = x_ptr + rows[:, None] * stride_xm + cols[None, :]
    x = tl.load(x_ptrs, mask=mask, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
    numerator = tl.exp2((x - tl.max(x, axis=1)[:, None]) * LOG2E)
    out_ptrs = out_ptr + rows[:, None] * n_cols + cols[None, :]
    tl.store(
        out_ptrs, numerator / tl.sum(numerator, axis=1)[:, None], mask=mask,
        eviction_policy="evict_first",
    )


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
def exchange(
    partials_ptr, part, part_max, part_sum,
    PARTS: tl.constexpr, STORE_PARTIALS: tl.constexpr, STORE_OUT: tl.constexpr,
):
    """Store this part's maximum and sum, wait for the row's other parts, return the row's.

    partials_ptr: a word for each part, 0 until it is stored. A stored word never changes, so no
        order between words matters. They are read by atomics, which one warp does for all: if each
        thread polled, the polls would take more of the L2 cache's time than the data.
    STORE_PARTIALS, STORE_OUT: see softmax_kernel_v6.
    """
    parts = tl.arange(0, triton.next_power_of_2(PARTS))  # [PARTS, rounded up]
    slots = partials_ptr + parts % PARTS
    if STORE_PARTIALS:
        tl.atomic_xchg(partials_ptr + part, pack(part_max, part_sum), sem="relaxed")
    if STORE_PARTIALS and STORE_OUT:
        nothing = tl.zeros_like(parts).to(tl.int64)
        words = tl.atomic_add(slots, nothing, sem="relaxed")
        while tl.min((words != 0).to(tl.int32)) == 0:
            words = tl.atomic_add(slots, nothing, sem="relaxed")
    else:
        words = tl.load(slots)
    maxima, sums = unpack(words)
    row_max = tl.max(maxima)
    sums *= tl.exp2((maxima - finite(row_max)) * LOG2E)
    return row_max, tl.sum(tl.where(parts < PARTS, sums, 0.0))


@triton.jit
def softmax_kernel_v6(
    x_ptr, out_ptr, partials_ptr, n_cols, stride_xm, n_blocks,
    ALIGN: tl.constexpr, VECTOR: tl.constexpr, RAGGED: tl.constexpr, BLOCK_N: tl.constexpr,
    PARTS: tl.constexpr = 1, STORE_PARTIALS: tl.constexpr = True, STORE_OUT: tl.constexpr = True,
):
    """Program m * PARTS + p owns part p of row m: n_blocks * BLOCK_N columns, swept twice.

    Maxima and sums are kept for each vector, which one thread holds, so that no thread waits for
    another within a sweep. The second sweep goes backwards: what was read last is still in the
    L1 cache.

    PARTS > 1 (v7): programs of a row wait for one another. The wait ends if programs start in the
    order of their numbers, so that those of the first unfinished row have all started, and if PARTS
    programs fit the GPU at once. GPUs keep that order; CUDA does not promise it, and a counter that
    each program draws its number from costs about 5 % here.

    STORE_PARTIALS, STORE_OUT: both on a GPU. The interpreter runs one program after the other, and
    none may wait: one launch stores all partial maxima and sums, a second one the results.
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
        row_max, row_sum = exchange(
            partials_ptr + row * PARTS, part, row_max, row_sum, PARTS, STORE_PARTIALS, STORE_OUT
        )

    if STORE_OUT:
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
    for start in tl.range(0, n_rows, tl.num_programs(axis=0), num_stages=DEPTH):
        row = first + start
        mask = cols < tl.where(row < n_rows, n_cols, 0)
        x = tl.load(x_ptr + row * stride_xm + cols, mask=mask, other=-float("inf")).to(tl.float32)
        numerator = tl.exp2((x - finite(tl.max(x))) * LOG2E)
        tl.store(out_ptr + row * n_cols + cols, numerator / tl.sum(numerator), mask=mask)


def _check(kernel: object, x: torch.Tensor) -> None:
    check_tensors("softmax", x=x)
    check_runs_on("softmax", kernel, x)
    if x.ndim < 1:
        raise ValueError("softmax: x is a scalar; it must have one dimension or more.")
    if x.dtype not in DTYPES:
        raise ValueError(
            f"softmax: x is {x.dtype}; this kernel takes float16, bfloat16 and float32."
        )
    if x.shape[-1] > MOST_COLUMNS:
        raise ValueError(
            f"softmax: {x.shape[-1]:,} columns are more than the {MOST_COLUMNS:,} that 32 bits are "
            "sure to count."
        )


def _prepare(
    kernel: object, x: torch.Tensor, out: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Check the inputs; return x as a matrix whose rows are contiguous, and the output."""
    _check(kernel, x)
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    else:
        check_tensors("softmax", out=out)
        check_same("softmax", x=x, out=out)
        if not out.is_contiguous() or out.is_neg():
            raise ValueError(
                f"softmax: out has strides {out.stride()}, and must be contiguous, without a "
                "negative bit."
            )
    x = as_stored(x)
    matrix = x.reshape(-1, x.shape[-1]) if x.numel() else x.new_empty((0, x.shape[-1]))
    return matrix if matrix.stride(1) == 1 else matrix.contiguous(), out


def _vectors(x: torch.Tensor, out: torch.Tensor) -> dict[str, int]:
    """ALIGN, VECTOR and RAGGED for the matrix x and its output."""
    vector = 16 // x.itemsize
    align = math.gcd(x.shape[1], x.stride(0), vector)
    same_start = (
        x.stride(0) % vector == x.shape[1] % vector
        and x.data_ptr() % 16 == out.data_ptr() % 16 == 0
    )
    return {"ALIGN": align, "VECTOR": vector, "RAGGED": align < vector and same_start}


def _block_n(x: torch.Tensor) -> int:
    """The power of two that holds a row. (triton.next_power_of_2 takes the CPU longer.)"""
    return 1 << (x.shape[1] - 1).bit_length()


def _warps(num_warps: int, block_n: int) -> int:
    """At least one warp per 2,048 columns, which keeps 64 columns in each thread's registers."""
    return min(32, max(num_warps, block_n // 2048))


def _launch(
    kernel: triton.JITFunction, programs: int, x: torch.Tensor, out: torch.Tensor,
    **arguments: object,
) -> torch.Tensor:
    """Launch so many programs, unless there is nothing to write; return out."""
    if out.numel():
        with torch.cuda.device_of(x):
            kernel[(programs,)](
                x, out, n_cols=x.shape[1], stride_xm=x.stride(0), **arguments
            )
    return out


def softmax_v1(
    x: torch.Tensor, out: torch.Tensor | None = None, block_n: int = 4096, num_warps: int = 8
) -> torch.Tensor:
    """v1 of the ladder: three sweeps over a row."""
    x, out = _prepare(softmax_kernel_v1, x, out)
    return _launch(softmax_kernel_v1, x.shape[0], x, out, BLOCK_N=block_n, num_warps=num_warps)


def softmax_v2(
    x: torch.Tensor, out: torch.Tensor | None = None, num_warps: int = 8
) -> torch.Tensor:
    """v2 of the ladder: a row in registers, which hold 32,768 columns before they spill."""
    x, out = _prepare(softmax_kernel_v2, x, out)
    block_n = _block_n(x)
    return _launch(
        softmax_kernel_v2, x.shape[0], x, out,
        BLOCK_N=block_n, num_warps=_warps(num_warps, block_n),
    )


def softmax_v3(
    x: torch.Tensor, out: torch.Tensor | None = None, block_n: int = 4096, num_warps: int = 8
) -> torch.Tensor:
    """v3 of the ladder: maximum and sum in one sweep over a row."""
    x, out = _prepare(softmax_kernel_v3, x, out)
    return _launch(softmax_kernel_v3, x.shape[0], x, out, BLOCK_N=block_n, num_warps=num_warps)


def softmax_v4(
    x: torch.Tensor, out: torch.Tensor | None = None, tile: int = 2048, num_warps: int = 2
) -> torch.Tensor:
    """v4 of the ladder: each program takes as many rows as `tile` elements hold.

    Rows count as wide as the next power of two.
    """
    x, out = _prepare(softmax_kernel_v4, x, out)
    block_n = _block_n(x)
    block_m = max(1, tile // block_n)
    return _launch(
        softmax_kernel_v4, triton.cdiv(x.shape[0], block_m), x, out,
        n_rows=x.shape[0], ALIGN=_vectors(x, out)["ALIGN"], BLOCK_M=block_m, BLOCK_N=block_n,
        num_warps=_warps(num_warps, block_n),
    )


def softmax_v5(
    x: torch.Tensor, out: torch.Tensor | None = None, num_warps: int = 8
) -> torch.Tensor:
    """v5 of the ladder: a row in registers, by whole vectors."""
    x, out = _prepare(softmax_kernel_v5, x, out)
    block_n = _block_n(x)
    return _launch(
        softmax_kernel_v5, x.shape[0], x, out,
        **_vectors(x, out), BLOCK_N=block_n, num_warps=_warps(num_warps, block_n),
    )


def softmax_v6(
    x: torch.Tensor, out: torch.Tensor | None = None, block_n: int = 8192, num_warps: int = 16
) -> torch.Tensor:
    """v6 of the ladder: two sweeps, the second from the cache."""
    x, out = _prepare(softmax_kernel_v6, x, out)
    return _launch(
        softmax_kernel_v6, x.shape[0], x, out,
        partials_ptr=None, n_blocks=triton.cdiv(x.shape[1], block_n), **_vectors(x, out),
        BLOCK_N=block_n, num_warps=num_warps,
    )


def softmax_v7(
    x: torch.Tensor, out: torch.Tensor | None = None, block_n: int = 4096, part_n: int = 4096,
    num_warps: int = 4,
) -> torch.Tensor:
    """v7 of the ladder: a program for each part_n columns of a row, a multiple of block_n.

    Raises ValueError where a row has more parts than the GPU has multiprocessors: its programs
    might wait forever. So might those of more such launches at the same time, on streams of their
    own, than programs fit a multiprocessor.
    """
    x, out = _prepare(softmax_kernel_v6, x, out)
    parts = triton.cdiv(x.shape[1], part_n)
    if parts > gpu_of(x).multiprocessors:
        raise ValueError(
            f"softmax: {parts} programs per row are more than this GPU is sure to run at once; "
            "take a larger part_n."
        )
    compiled = isinstance(softmax_kernel_v6, triton.JITFunction)
    partials = torch.zeros(x.shape[0] * parts, dtype=torch.int64, device=x.device)
    for store_partials, store_out in [(True, True)] if compiled else [(True, False), (False, True)]:
        _launch(
            softmax_kernel_v6, x.shape[0] * parts, x, out,
            partials_ptr=partials, n_blocks=part_n // block_n, **_vectors(x, out), BLOCK_N=block_n,
            PARTS=parts, STORE_PARTIALS=store_partials, STORE_OUT=store_out, num_warps=num_warps,
        )
    return out


def softmax_v8(
    x: torch.Tensor, out: torch.Tensor | None = None, depth: int = 2, programs: int = 4,
    num_warps: int = 8,
) -> torch.Tensor:
    """v8 of the ladder: `programs` programs per multiprocessor, each with `depth` rows in flight.

    Fewer rows where MOST_WAITING_BYTES do not hold as many.
    """
    x, out = _prepare(softmax_kernel_v8, x, out)
    block_n = _block_n(x)
    depth = max(1, min(depth, 1 + MOST_WAITING_BYTES // (block_n * x.itemsize)))
    return _launch(
        softmax_kernel_v8, min(x.shape[0], programs * gpu_of(x).multiprocessors), x, out,
        n_rows=x.shape[0], ALIGN=_vectors(x, out)["ALIGN"], BLOCK_N=block_n, DEPTH=depth,
        num_warps=_warps(num_warps, block_n),
    )


class Plan(NamedTuple):
    """Which version `softmax` takes, and with which settings."""

    version: str
    settings: dict[str, int]


# Element size in bytes -> (the widest rows, version, settings): the fastest of those tried on an
# H200 with Triton 3.9.0 on 2026-11-22. Beyond 16,384 columns these were 10 to 18 settings of v7 for
# each width, and v5 with a row over a cluster of 2, 4 or 8 multiprocessors, which keeps its row in
# registers and reduces across the cluster: it reached 0.5 to 0.9 of a copy, and v7 0.91 to 1.
PLANS: dict[int, tuple[tuple[float, Callable[..., torch.Tensor], dict[str, int]], ...]] = {
    2: (
        (512, softmax_v4, {"tile": 2048, "num_warps": 2}), (1024, softmax_v5, {"num_warps": 1}),
        (2048, softmax_v5, {"num_warps": 2}), (4096, softmax_v5, {"num_warps": 4}),
        (8192, softmax_v5, {"num_warps": 8}),
        (16384, softmax_v6, {"block_n": 8192, "num_warps": 16}),
        (32768, softmax_v7, {"block_n": 4096, "part_n": 4096, "num_warps": 4}),
        (53248, softmax_v7, {"block_n": 2048, "part_n": 6144, "num_warps": 4}),
        (65536, softmax_v7, {"block_n": 4096, "part_n": 4096, "num_warps": 4}),
        (131072, softmax_v7, {"block_n": 8192, "part_n": 8192, "num_warps": 8}),
        (4194304, softmax_v7, {"block_n": 8192, "part_n": 32768, "num_warps": 16}),
        (math.inf, softmax_v6, {"block_n": 16384, "num_warps": 32}),
    ),
    4: (
        (512, softmax_v4, {"tile": 1024, "num_warps": 2}), (1024, softmax_v5, {"num_warps": 2}),
        (2048, softmax_v5, {"num_warps": 4}), (4096, softmax_v5, {"num_warps": 8}),
        (8192, softmax_v5, {"num_warps": 16}),
        (16384, softmax_v6, {"block_n": 16384, "num_warps": 32}),
        (262144, softmax_v7, {"block_n": 8192, "part_n": 8192, "num_warps": 8}),
        (2097152, softmax_v7, {"block_n": 8192, "part_n": 16384, "num_warps": 8}),
        (4194304, softmax_v7, {"block_n": 16384, "part_n": 32768, "num_warps": 32}),
        (math.inf, softmax_v6, {"block_n": 16384, "num_warps": 32}),
    ),
}


def softmax_plan(n_cols: int, dtype: torch.dtype) -> Plan:
    """The version and settings that `softmax` takes for rows of n_cols elements."""
    version, settings = _planned(n_cols, dtype)
    return Plan(version.__name__, settings)


def _planned(n_cols: int, dtype: torch.dtype) -> tuple[Callable[..., torch.Tensor], dict[str, int]]:
    return next(
        (version, settings) for most, version, settings in PLANS[dtype.itemsize] if n_cols <= most
    )


def softmax(x: torch.Tensor, dim: int = -1, out: torch.Tensor | None = None) -> torch.Tensor:
    """Softmax over the last dimension of x, in one kernel, forward only.

    It is computed in float32 and rounded once.

    x: one dimension or more, any strides. Where its rows are not contiguous, or no strides join its
        leading dimensions, it is copied first.
    dim: the last dimension, as -1 or by its number.
    out: where to write the result, contiguous, of x's shape, dtype and device; it may be x itself.

    Raises TypeError for a non-tensor; ValueError for a scalar, another dtype than DTYPES,
    another dimension than the last, an output that does not fit, and a CPU tensor where the kernel
    is compiled for a GPU.
    """
    _check(softmax_kernel_v6, x)
    if dim not in (-1, x.ndim - 1):
        raise ValueError(
            f"softmax: dim is {dim}, and must be the last one of {x.ndim}: move it there with "
            f"x.movedim({dim}, -1)."
        )
    version, settings = _planned(x.shape[-1], x.dtype)
    if version is softmax_v7:
        parts = triton.cdiv(x.shape[-1], settings["part_n"])
        if parts > gpu_of(x).multiprocessors:  # they could not all run at once
            version, settings = softmax_v6, {}
    return version(x, out, **settings)
