"""Attention without its N x N matrix: out[m] = sum over n of softmax(scale * q[m] . k[n]) * v[n], the keys taken tile by tile.

For B x H heads, M queries, N keys and head dimension D of s bytes: 4 * B * H * M * N * D operations, half under a causal mask.
Written down and read back, scores and probabilities alone would move 4 * B * H * M * N * s bytes. Each query tile keeps the
maximum and the sum of its rows so far instead (as softmax_v3 does), and makes its output smaller where a new maximum comes.

    v1  flash_attention_v1  a program a tile of queries, all keys    reads q once, and k and v M / BLOCK_M times, from the L2
                            past it; divided once, at the end        cache; a mask on every tile, exp
    v2  flash_attention_v2  as v1, the scale folded into exp2;       under a causal mask half the tiles are left out, and only
                            tiles with a mask apart; the longest     those on the diagonal pay for it
                            programs of a causal head first
    v3  flash_attention_v3  as v2, measured settings                 the same operations; larger tiles read k and v less often
    v4  flash_attention_v4  as v3, k and v by tensor descriptors     the same; no thread computes addresses
    v5  flash_attention_v5  as v4, loads and both halves of a        the same; one half's dots run under the other's exp2
                            tile's rows on warps of their own
        flash_attention     v5 or v4 where the GPU, the lengths and the strides allow it, else v3

Scores, maxima, sums and the output so far are float32; only the probabilities are rounded to the dtype of v, for the dot.
"""

import contextvars
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.checks import GRID_LIMIT, check_runs_on, check_same, check_tensors

DTYPES = (torch.float16, torch.bfloat16)
LAYOUTS = ("bhmd", "bmhd")
MOST_LENGTH = 2**30
WITH_DESCRIPTORS = (9, 10)
"""Major compute capabilities whose hardware reads tensor descriptors into as much shared memory as v4 takes."""
WITH_SPECIALIZATION = 9
"""The major compute capability that v5 was written for."""
SPECIALIZING_TRITON = (3, 7)
"""The first Triton that compiles v5 at every head dimension."""

# exp(t) = exp2(t * LOG2E), and exp2 is what the hardware has. The kernel folds it into the scale.
LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def flash_attention_kernel_v1(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, heads_per_key_head,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
    seqlen_q, seqlen_k, head_dim,
    IS_CAUSAL: tl.constexpr, BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Program (i, h, b) owns queries i * BLOCK_M … of head h of batch b, and reads all keys and values of that head."""
    batch, head = tl.program_id(axis=2).to(tl.int64), tl.program_id(axis=1).to(tl.int64)
    key_head = head // heads_per_key_head
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    row_mask = (rows < seqlen_q)[:, None] & (dims < head_dim)[None, :]
    q_ptrs = q_ptr + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qm + dims[None, :]
    q = tl.load(q_ptrs, mask=row_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]
    k_start = k_ptr + batch * stride_kb + key_head * stride_kh
    v_start = v_ptr + batch * stride_vb + key_head * stride_vh

    row_max = tl.full([BLOCK_M], -float("inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    for start in range(0, seqlen_k, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)  # [BLOCK_N]
        col_mask = (cols < seqlen_k)[:, None] & (dims < head_dim)[None, :]
        k = tl.load(k_start + cols[:, None] * stride_kn + dims[None, :], mask=col_mask, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale  # [BLOCK_M, BLOCK_N]
        seen = (cols < seqlen_k)[None, :]
        if IS_CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None] + seqlen_k - seqlen_q)
        scores = tl.where(seen, scores, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(scores, axis=1))
        power = tl.exp(scores - finite(new_max)[:, None])
        rescale = tl.exp(row_max - finite(new_max))
        row_sum = row_sum * rescale + tl.sum(power, axis=1)
        v = tl.load(v_start + cols[:, None] * stride_vn + dims[None, :], mask=col_mask, other=0.0)
        acc = tl.dot(power.to(v.dtype), v, acc * rescale[:, None])
        row_max = new_max

    total = tl.where(row_sum == 0.0, 1.0, row_sum)  # a row with no key: 0 / 1
    lse_ptrs = lse_ptr + (batch * nheads + head) * seqlen_q + rows
    tl.store(lse_ptrs, row_max + tl.log(total), mask=rows < seqlen_q)
    out_ptrs = out_ptr + batch * stride_ob + head * stride_oh + rows[:, None] * stride_om + dims[None, :]
    tl.store(out_ptrs, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=row_mask)


@triton.jit
def finite(maximum):
    """What to subtract before exp: the maximum, but 0 where all was -inf, since -inf - -inf is NaN and must be exp(-inf)."""
    return tl.where(maximum == -float("inf"), 0.0, maximum)


@triton.jit
def attend(
    q, acc, row_max, row_sum, K, V, batch, key_head, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    first_row, first_col, end_col, seqlen_q, seqlen_k, head_dim, scale_log2,
    EVEN_HEADDIM: tl.constexpr, MASKED: tl.constexpr, IS_CAUSAL: tl.constexpr, DESCRIPTORS: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Take the keys from first_col up to end_col into acc, row_max and row_sum, and return these three.

    MASKED: some of these keys are past the end or hidden by the causal mask. Otherwise every row sees every one.
    """
    rows = first_row + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    if not DESCRIPTORS:
        dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
        dims_there = EVEN_HEADDIM | (dims < head_dim)
        k_ptrs = K + batch * stride_kb + key_head * stride_kh + (first_col + cols[None, :]).to(tl.int64) * stride_kn
        v_ptrs = V + batch * stride_vb + key_head * stride_vh + (first_col + cols[:, None]).to(tl.int64) * stride_vn
        k_ptrs += dims[:, None]  # [BLOCK_HEADDIM, BLOCK_N]: transposed as it is read
        v_ptrs += dims[None, :]  # [BLOCK_N, BLOCK_HEADDIM]
    for start in range(first_col, end_col, BLOCK_N):
        cols_there = cols < seqlen_k - start
        if DESCRIPTORS:  # what lies outside the tensor reads as 0
            k = K.load([batch.to(tl.int32), key_head.to(tl.int32), start, 0]).reshape([BLOCK_N, BLOCK_HEADDIM]).T
        elif MASKED:
            k = tl.load(k_ptrs, mask=dims_there[:, None] & cols_there[None, :], other=0.0)
        else:
            k = tl.load(k_ptrs, mask=dims_there[:, None], other=0.0)
        scores = tl.dot(q, k)  # [BLOCK_M, BLOCK_N]
        if MASKED:
            seen = cols_there[None, :]
            if IS_CAUSAL:
                seen = seen & (start + cols[None, :] <= rows[:, None] + (seqlen_k - seqlen_q))
            scores = tl.where(seen, scores, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(scores, axis=1) * scale_log2)
        base = finite(new_max) if MASKED else new_max
        power = tl.exp2(scores * scale_log2 - base[:, None])  # a multiply-add and an exp2
        rescale = tl.exp2(row_max - base)
        row_sum = row_sum * rescale + tl.sum(power, axis=1)
        acc = acc * rescale[:, None]
        if DESCRIPTORS:
            v = V.load([batch.to(tl.int32), key_head.to(tl.int32), start, 0]).reshape([BLOCK_N, BLOCK_HEADDIM])
        elif MASKED:
            v = tl.load(v_ptrs, mask=cols_there[:, None] & dims_there[None, :], other=0.0)
        else:
            v = tl.load(v_ptrs, mask=dims_there[None, :], other=0.0)
        acc = tl.dot(power.to(v.dtype), v, acc)
        row_max = new_max
        if not DESCRIPTORS:
            k_ptrs += BLOCK_N * tl.cast(stride_kn, tl.int64)
            v_ptrs += BLOCK_N * tl.cast(stride_vn, tl.int64)
    return acc, row_max, row_sum


@triton.jit(do_not_specialize=["nheads"])
def flash_attention_kernel(
    q_ptr, K, V, out_ptr, lse_ptr, scale, nheads,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
    seqlen_q, seqlen_k, stride_lse, head_dim,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """A program owns BLOCK_M queries of one head. Grid: (ceil(seqlen_q / BLOCK_M), nheads, batch), or the same programs as
    (…, batch * nheads, 1).

    q, k, v, out: [batch, heads, length, head_dim] in any strides with a last one of 1, given as three each: from batch to
    batch, from head to head, from row to row. lse: float32, the natural logarithm of the sum of exp(scores), a row of
    seqlen_q for each head, stride_lse apart.
    EVEN_M, EVEN_N, EVEN_HEADDIM: seqlen_q is a multiple of BLOCK_M, seqlen_k of BLOCK_N, head_dim is BLOCK_HEADDIM. They may
    be flags at run time too: what they leave out is then left out by a branch or a mask.
    HEADS_PER_KEY_HEAD: so many heads of q in a row share a head of k and v.
    DESCRIPTORS: K and V are tensor descriptors of [1, 1, BLOCK_N, BLOCK_HEADDIM], and their strides are not used; else
    pointers.
    """
    block = tl.program_id(axis=0)
    if IS_CAUSAL:  # the last queries see most keys: they begin first, so that short programs fill the end
        block = tl.num_programs(axis=0) - 1 - block
    pair = tl.program_id(axis=2) * tl.num_programs(axis=1) + tl.program_id(axis=1)
    b = (pair // nheads).to(tl.int64)
    head = (pair % nheads).to(tl.int64)
    key_head = head // HEADS_PER_KEY_HEAD
    first_row = block * BLOCK_M
    rows = tl.arange(0, BLOCK_M)  # [BLOCK_M]
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    rows_there = EVEN_M | (rows < seqlen_q - first_row)
    tile_there = rows_there[:, None] & (EVEN_HEADDIM | (dims < head_dim))[None, :]  # [BLOCK_M, BLOCK_HEADDIM]
    q_start = q_ptr + b * stride_qb + head * stride_qh + first_row.to(tl.int64) * stride_qm
    q = tl.load(q_start + rows[:, None].to(tl.int64) * stride_qm + dims[None, :], mask=tile_there, other=0.0)

    if IS_CAUSAL:  # row m sees keys up to m + seqlen_k - seqlen_q: the last row sees all
        n_seen = first_row + (seqlen_k - seqlen_q) + 1  # by the tile's first row
        whole = tl.maximum(tl.minimum(n_seen, seqlen_k), 0) // BLOCK_N * BLOCK_N
        end = tl.maximum(tl.minimum(n_seen + BLOCK_M - 1, seqlen_k), 0)
    else:
        whole = seqlen_k // BLOCK_N * BLOCK_N
        end = seqlen_k
    scale_log2 = scale * LOG2E
    row_max = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of scores * scale_log2
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    acc, row_max, row_sum = attend(
        q, acc, row_max, row_sum, K, V, b, key_head, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
        first_row, 0, whole, seqlen_q, seqlen_k, head_dim, scale_log2,
        EVEN_HEADDIM, False, IS_CAUSAL, DESCRIPTORS, BLOCK_HEADDIM, BLOCK_M, BLOCK_N,
    )  # fmt: skip
    if IS_CAUSAL or not EVEN_N:
        acc, row_max, row_sum = attend(
            q, acc, row_max, row_sum, K, V, b, key_head, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
            first_row, whole, end, seqlen_q, seqlen_k, head_dim, scale_log2,
            EVEN_HEADDIM, True, IS_CAUSAL, DESCRIPTORS, BLOCK_HEADDIM, BLOCK_M, BLOCK_N,
        )  # fmt: skip

    total = tl.where(row_sum == 0.0, 1.0, row_sum)  # a row with no key: 0 / 1
    tl.store(lse_ptr + pair.to(tl.int64) * stride_lse + first_row + rows, row_max * LN2 + tl.log(total), mask=rows_there)
    out = (acc * (1.0 / total)[:, None]).to(out_ptr.dtype.element_ty)
    out_start = out_ptr + b * stride_ob + head * stride_oh + first_row.to(tl.int64) * stride_om
    tl.store(out_start + rows[:, None].to(tl.int64) * stride_om + dims[None, :], out, mask=tile_there)


@triton.jit(do_not_specialize=["batch", "nheads"])
def _fwd_kernel(
    Q, K, V, Out, Lse, TMP, softmax_scale, batch, nheads,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
    seqlen_q, seqlen_k, seqlen_q_rounded, head_dim,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """flash_attention_kernel for callers in C, as it is exported: every head of Q has its own keys, addressed by pointers.

    The order is that of this signature in every export: scale, counts, strides, lengths, constants. Callers that pass the
    strides first and the batch last must change. Lse: [batch, nheads, seqlen_q_rounded]. TMP is not used, and may be null: an
    early compiler needed such a buffer, and callers still pass one. Nor is `batch` used, which the grid implies.
    """
    flash_attention_kernel(
        Q, K, V, Out, Lse, softmax_scale, nheads,
        stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
        stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
        seqlen_q, seqlen_k, seqlen_q_rounded, head_dim,
        EVEN_M, EVEN_N, EVEN_HEADDIM, IS_CAUSAL, BLOCK_HEADDIM, BLOCK_M, BLOCK_N, 1, False,
    )  # fmt: skip


@triton.jit
def first_element(batch, head, stride_b, stride_h, stride_m):
    """Where a head begins in its tensor, read as one matrix whose rows are stride_m apart: (row, column)."""
    return batch * (stride_b // stride_m) + head * (stride_h // stride_m), head * (stride_h % stride_m)


@triton.jit
def attend_specialized(
    tile, q_tiles, k_tiles, v_tiles, out_tiles, lse_ptr, scale_log2, nheads, n_blocks,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om, seqlen_q, seqlen_k,
    IS_CAUSAL: tl.constexpr, HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """Compute and store a tile: BLOCK_M queries of a head. Under a causal mask every row sees a key of each tile it takes."""
    pair = tile // n_blocks
    batch, head = pair // nheads, pair % nheads
    first_row = (n_blocks - 1 - tile % n_blocks) * BLOCK_M  # under a causal mask the last see most: they come first
    q_row, q_col = first_element(batch, head, stride_qb, stride_qh, stride_qm)
    k_row, k_col = first_element(batch, head // HEADS_PER_KEY_HEAD, stride_kb, stride_kh, stride_kn)
    v_row, v_col = first_element(batch, head // HEADS_PER_KEY_HEAD, stride_vb, stride_vh, stride_vn)
    rows = tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    q = q_tiles.load([q_row + first_row, q_col])  # [BLOCK_M, HEADDIM]
    end = seqlen_k
    if IS_CAUSAL:
        end = tl.maximum(tl.minimum(first_row + BLOCK_M + (seqlen_k - seqlen_q), seqlen_k), 0)
    row_max = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of scores * scale_log2
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEADDIM], tl.float32)
    for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):
        k = k_tiles.load([k_row + start, k_col]).T  # [HEADDIM, BLOCK_N]
        scores = tl.dot(q, k)  # [BLOCK_M, BLOCK_N]
        if IS_CAUSAL:
            last_seen = first_row + rows + (seqlen_k - seqlen_q) - start  # [BLOCK_M]
            scores = tl.where(cols[None, :] <= last_seen[:, None], scores, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(scores, axis=1) * scale_log2)
        power = tl.exp2(scores * scale_log2 - new_max[:, None])
        rescale = tl.exp2(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(power, axis=1)
        v = v_tiles.load([v_row + start, v_col])  # [BLOCK_N, HEADDIM]
        acc = tl.dot(power.to(v.dtype), v, acc * rescale[:, None])
        row_max = new_max
    total = tl.where(row_sum == 0.0, 1.0, row_sum)  # a row with no key: 0 / 1
    tl.store(lse_ptr + pair.to(tl.int64) * seqlen_q + first_row + rows, row_max * LN2 + tl.log(total))
    out_row, out_col = first_element(batch, head, stride_ob, stride_oh, stride_om)
    out = acc * (1.0 / total)[:, None]
    if HEADDIM == 256:  # by halves, whose place in shared memory fits beside two stages
        left, right = out.reshape(BLOCK_M, 2, HEADDIM // 2).permute(0, 2, 1).split()
        out_tiles.store([out_row + first_row, out_col], left.to(out_tiles.dtype))
        out_tiles.store([out_row + first_row, out_col + HEADDIM // 2], right.to(out_tiles.dtype))
    else:
        out_tiles.store([out_row + first_row, out_col], out.to(out_tiles.dtype))


@triton.jit
def flash_attention_kernel_v5(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, n_blocks, n_tiles,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
    q_rows, k_rows, v_rows, out_rows, seqlen_q, seqlen_k,
    IS_CAUSAL: tl.constexpr, HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr, PERSISTENT: tl.constexpr,
):  # fmt: skip
    """Program p of P owns tiles p, p + P, p + 2P … of n_tiles = batch * nheads * n_blocks, BLOCK_M queries of a head each.

    warp_specialize gives the loads to warps of their own, which wait for nothing but room in shared memory, and each half of
    a tile's rows to four warps that never wait for those of the other half: one half multiplies while the other computes
    exp2. The compiler does so with descriptors made here, a loop that is not split in two for the mask, 4 warps and 2 stages.
    So the mask is computed on every tile of a causal head. Lengths are multiples of the blocks, since a descriptor of all
    heads' rows would read on into the next head.
    PERSISTENT: the next tile's q and first keys are loaded while this one ends, which takes a second place for q. Otherwise a
    program owns one tile.
    """
    q_tiles = tl.make_tensor_descriptor(q_ptr, [q_rows, stride_qm], [stride_qm, 1], [BLOCK_M, HEADDIM])
    k_tiles = tl.make_tensor_descriptor(k_ptr, [k_rows, stride_kn], [stride_kn, 1], [BLOCK_N, HEADDIM])
    v_tiles = tl.make_tensor_descriptor(v_ptr, [v_rows, stride_vn], [stride_vn, 1], [BLOCK_N, HEADDIM])
    out_tiles = tl.make_tensor_descriptor(
        out_ptr, [out_rows, stride_om], [stride_om, 1], [BLOCK_M, 128 if HEADDIM == 256 else HEADDIM]
    )
    scale_log2 = scale * LOG2E
    if PERSISTENT:
        n_programs = tl.num_programs(axis=0)
        for nth in tl.range(tl.program_id(axis=0), n_tiles, n_programs, warp_specialize=True):
            tile = nth
            if IS_CAUSAL:  # every other turn runs backwards: who had many keys gets few
                turn = nth // n_programs
                backwards = tl.minimum((turn + 1) * n_programs, n_tiles) - 1 - nth % n_programs
                tile = tl.where(turn % 2 == 0, nth, backwards)
            attend_specialized(
                tile, q_tiles, k_tiles, v_tiles, out_tiles, lse_ptr, scale_log2, nheads, n_blocks,
                stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
                stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om, seqlen_q, seqlen_k,
                IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, False,
            )  # fmt: skip
    else:
        attend_specialized(
            tl.program_id(axis=0), q_tiles, k_tiles, v_tiles, out_tiles, lse_ptr, scale_log2, nheads, n_blocks,
            stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
            stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om, seqlen_q, seqlen_k,
            IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, True,
        )  # fmt: skip


class Settings(NamedTuple):
    """How a launch is cut and run."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


PLAIN = Settings(64, 64, 4, 2)
"""Of v1 and v2, whatever the head dimension and the GPU: 256 dimensions take 160 KB of shared memory."""

# On an H200, Triton 3.7.1, float16, batch * length = 16,384, heads * head_dim = 2,048, of 5 to 10 candidates a head
# dimension: over lengths of 1,024, 4,096 and 16,384, full and causal, none was faster by more than 1 %. Depth counts most: with
# 2 stages for 3, tiles of 128 x 64 and 128 dimensions are a fifth slower. So does what the L2 cache is asked for: tiles
# of 64 queries keep up to some 1,024 keys alone, where the dot takes longer than exp2. Scores computed a tile ahead of their
# softmax were 10 to 55 % slower, and sums kept apart for each thread changed less than runs differ.
SETTINGS: dict[int, dict[int, Settings]] = {
    64: {16: Settings(32, 32, 4, 1), 64: Settings(32, 32, 4, 1), 128: Settings(16, 32, 4, 1), 256: Settings(16, 16, 4, 1)},
    99: {16: Settings(64, 64, 4, 3), 64: Settings(64, 64, 4, 3), 128: Settings(128, 32, 8, 2), 256: Settings(64, 32, 8, 2)},
    227: {64: Settings(128, 64, 8, 3), 128: Settings(128, 128, 8, 3), 256: Settings(128, 64, 8, 2)},
}
"""KB of shared memory -> BLOCK_HEADDIM, up to which -> Settings of v3. Those of 64 and 99 KB fit and spill nothing; their speed
was not measured."""

# What these reach is recorded: `course recorded flash_attention_64` and its like.
DESCRIPTOR_SETTINGS: dict[int, Settings] = {
    64: Settings(64, 128, 4, 2),
    128: Settings(128, 128, 8, 3),
    256: Settings(128, 64, 8, 2),
}
"""BLOCK_HEADDIM, up to which -> Settings of v4."""


# Persistent programs gain a third at 128 dimensions and 1,024 keys, and next to nothing at 16,384. Three stages compile and
# give wrong results; so does a mask made of tensors from before a loop that is specialized itself. Without specialized warps,
# dots left to run under the softmax of the next tile gained 4 % at 128 dimensions (Triton waits for every dot there but the
# last of a loop), and lost 15 % at 256. 64 dimensions are 18 % slower than by v4.
SPECIALIZED_SETTINGS: dict[int, Settings] = {
    128: Settings(128, 128, 4, 2),
    256: Settings(128, 64, 4, 2),
}
"""head_dim -> Settings of v5."""
PERSISTENT = (128,)
"""The head dimensions that leave room for a second tile of q."""


class _Launch(NamedTuple):
    """Checked inputs as [batch, heads, length, head_dim], the outputs as the caller gets them, and what a launch takes."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    scale: float
    causal: bool
    layout: str

    @property
    def strides(self) -> list[int]:
        """From batch to batch, head to head and row to row, of q, k, v and out."""
        out = _as_bhmd(self.out, self.layout)
        return [step for each in (self.q, self.k, self.v, out) for step in each.stride()[:3]]

    @property
    def block_headdim(self) -> int:
        return triton.next_power_of_2(self.q.shape[3])


def _as_bhmd(x: torch.Tensor, layout: str) -> torch.Tensor:
    return x if layout == "bhmd" else x.transpose(1, 2)


def _prepare(
    kernel: object, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None, layout: str
) -> _Launch:
    """Check the inputs and allocate the outputs."""
    name = "flash_attention"
    check_tensors(name, q=q, k=k, v=v)
    check_runs_on(name, kernel, q)
    if layout not in LAYOUTS:
        raise ValueError(f"{name}: layout is {layout!r}, and must be one of {', '.join(LAYOUTS)}.")
    for each, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(f"{name}: {each} has {x.ndim} dimensions, and must have 4: batch, heads, length, head_dim.")
        if x.dtype not in DTYPES:
            raise ValueError(
                f"{name}: {each} is {x.dtype}; this kernel takes float16 and bfloat16, which tensor cores multiply exactly."
            )
    check_same(name, k=k, v=v)
    for what in ("device", "dtype"):
        ours, theirs = getattr(q, what), getattr(k, what)
        if ours != theirs:
            raise ValueError(f"{name}: q has {what} {ours} and k has {what} {theirs}; both must have the same {what}.")
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    q, k, v = (_as_bhmd(x.resolve_neg(), layout) for x in (q, k, v))
    batch, heads, length, head_dim = q.shape
    if (batch, head_dim) != (k.shape[0], k.shape[3]):
        raise ValueError(
            f"{name}: q has batch {batch} and head_dim {head_dim}, k has batch {k.shape[0]} and head_dim {k.shape[3]}; "
            "they must agree."
        )
    if not 16 <= head_dim <= 256:
        raise ValueError(f"{name}: head_dim is {head_dim}, and must be 16 to 256, what a dot takes and registers hold.")
    if heads and (k.shape[1] == 0 or heads % k.shape[1]):
        raise ValueError(f"{name}: {heads} heads of q cannot share {k.shape[1]} heads of k evenly.")
    if max(batch, heads) > GRID_LIMIT:
        raise ValueError(
            f"{name}: batch {batch:,} or heads {heads:,} is more than the {GRID_LIMIT:,} that a grid's axis takes."
        )
    if max(length, k.shape[2]) > MOST_LENGTH:
        raise ValueError(f"{name}: {max(length, k.shape[2]):,} rows are more than the {MOST_LENGTH:,} that 32 bits count.")
    for each, x in (("q", q), ("k", k), ("v", v)):
        if x.stride(3) != 1:
            raise ValueError(
                f"{name}: {each} has stride {x.stride(3)} along head_dim, and must have 1: call .contiguous() first."
            )
    if scale is None:
        scale = head_dim**-0.5
    if not 0 < scale < math.inf:
        raise ValueError(f"{name}: scale is {scale}, and must be positive and finite.")
    if q.is_cuda and q.dtype == torch.bfloat16 and torch.cuda.get_device_capability(q.device) < (8, 0):
        raise ValueError(f"{name}: this GPU does not compute in bfloat16; take float16.")
    lse = torch.empty((batch, heads, length), dtype=torch.float32, device=q.device)
    return _Launch(q, k, v, out, lse, float(scale), bool(causal), layout)


def _run(launch: _Launch, settings: Settings, descriptors: bool = False) -> None:
    """Launch `flash_attention_kernel`."""
    q, k, v, out, lse, scale, causal, _ = launch
    (batch, heads, length, head_dim), block_headdim = q.shape, launch.block_headdim
    heads_per_key_head, seqlen_k = heads // k.shape[1], k.shape[2]
    keys: list[torch.Tensor | TensorDescriptor] = [k, v]
    if descriptors:
        tile = [1, 1, settings.block_n, block_headdim]
        keys = [TensorDescriptor(x, list(x.shape), list(x.stride()), tile) for x in (k, v)]
    stages = settings.num_stages if seqlen_k > 1 else 1  # a single key has none to load ahead; ptxas 12.8 crashes at two
    with torch.cuda.device_of(q):
        flash_attention_kernel[(triton.cdiv(length, settings.block_m), heads, batch)](
            q, *keys, out, lse, scale, heads, *launch.strides, length, seqlen_k, length, head_dim,
            EVEN_M=length % settings.block_m == 0, EVEN_N=seqlen_k % settings.block_n == 0,
            EVEN_HEADDIM=head_dim == block_headdim, IS_CAUSAL=causal, BLOCK_HEADDIM=block_headdim,
            BLOCK_M=settings.block_m, BLOCK_N=settings.block_n,
            HEADS_PER_KEY_HEAD=heads_per_key_head, DESCRIPTORS=descriptors,
            num_warps=settings.num_warps, num_stages=stages,
        )  # fmt: skip


def _run_specialized(launch: _Launch, settings: Settings) -> None:
    """Launch v5; persistent, as many programs as share its tiles evenly in as few turns as the GPU needs."""
    q, k, v, out, lse, scale, causal, layout = launch
    batch, heads, length, head_dim = q.shape
    blocks = length // settings.block_m
    tiles = batch * heads * blocks
    persistent = head_dim in PERSISTENT
    programs = triton.cdiv(tiles, triton.cdiv(tiles, _multiprocessors(q))) if persistent else tiles

    def run() -> None:
        triton.set_allocator(_scratch)
        flash_attention_kernel_v5[(programs,)](
            q, k, v, out, lse, scale, heads, blocks, tiles, *launch.strides,
            *(_rows(x) for x in (q, k, v, _as_bhmd(out, layout))), length, k.shape[2],
            IS_CAUSAL=causal, HEADDIM=head_dim, BLOCK_M=settings.block_m, BLOCK_N=settings.block_n,
            HEADS_PER_KEY_HEAD=heads // k.shape[1], PERSISTENT=persistent,
            num_warps=settings.num_warps, num_stages=settings.num_stages,
        )  # fmt: skip

    with torch.cuda.device_of(q):
        contextvars.copy_context().run(run)  # the caller's own allocator stays


@functools.cache
def _triton_version() -> tuple[int, ...]:
    return tuple(int(part) for part in triton.__version__.split(".")[:2])


def _scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Memory for the descriptors that a kernel makes."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


def _multiprocessors(x: torch.Tensor) -> int:
    """As on an H200 in the interpreter."""
    return _multiprocessors_of(x.get_device()) if x.is_cuda else 132


@functools.cache
def _multiprocessors_of(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def _rows(x: torch.Tensor) -> int:
    """How many rows x has as one matrix whose rows are x.stride(2) apart."""
    return 1 + sum((size - 1) * (step // x.stride(2)) for size, step in zip(x.shape[:3], x.stride()[:3], strict=True))


def settings_for(head_dim: int, shared_kb: int) -> Settings:
    """What v3 takes on a GPU whose programs may have so many KB of shared memory: the largest of the table that fits."""
    fitting = [limit for limit in SETTINGS if limit <= shared_kb]
    if not fitting:
        raise ValueError(
            f"flash_attention: this GPU has {shared_kb} KB of shared memory for a program, and {min(SETTINGS)} are needed."
        )
    return _up_to(SETTINGS[max(fitting)], head_dim)


def _up_to(table: dict[int, Settings], head_dim: int) -> Settings:
    return next(table[most] for most in sorted(table) if head_dim <= most)


def _shared_kb(x: torch.Tensor) -> int:
    """KB of shared memory that a program may have; the interpreter, which has none, takes the smallest tiles."""
    if not x.is_cuda:
        return min(SETTINGS)
    return _shared_kb_of(x.get_device())


@functools.cache
def _shared_kb_of(device: int) -> int:
    """Asked for once: the driver takes a millisecond to tell its properties."""
    properties = triton.runtime.driver.active.utils.get_device_properties(device)
    return int(properties["max_shared_mem"]) // 1024


def _describable(launch: _Launch) -> bool:
    """Whether a tensor descriptor takes k and v: all begins at multiples of 16 bytes, and there is something."""
    return all(
        x.numel() and x.data_ptr() % 16 == 0 and all(step > 0 and step * x.itemsize % 16 == 0 for step in x.stride()[:3])
        for x in (launch.k, launch.v)
    )


def _specializable(launch: _Launch) -> bool:
    """Whether v5 takes this launch: all heads of a tensor make one matrix, and its tiles divide the lengths."""
    settings = SPECIALIZED_SETTINGS.get(launch.q.shape[3])
    if settings is None or not _describable(launch):
        return False
    if launch.q.shape[2] % settings.block_m or launch.k.shape[2] % settings.block_m:
        return False
    return all(_one_matrix(x) for x in (launch.q, launch.k, launch.v))


def _one_matrix(x: torch.Tensor) -> bool:
    """Whether every head of x is a block of rows and columns of one matrix whose rows are x.stride(2) apart."""
    (_, heads, _, head_dim), (step_b, step_h, row, _) = x.shape, x.stride()
    aligned = x.data_ptr() % 16 == 0 and all(step > 0 and step * x.itemsize % 16 == 0 for step in (step_b, step_h, row))
    return aligned and step_b % row == 0 and (heads - 1) * (step_h % row) + head_dim <= row and _rows(x) < 2**31


Attention = Callable[..., torch.Tensor | tuple[torch.Tensor, torch.Tensor]]


def _of_tensors(kernel: object) -> Callable[[Callable[[_Launch], None]], Attention]:
    """Make what runs a checked launch of this kernel a function of q, k and v, with the arguments of `flash_attention`."""

    def decorate(run: Callable[[_Launch], None]) -> Attention:
        def attention(
            q: torch.Tensor,
            k: torch.Tensor,
            v: torch.Tensor,
            causal: bool = False,
            scale: float | None = None,
            return_lse: bool = False,
            layout: str = "bhmd",
        ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
            launch = _prepare(kernel, q, k, v, causal, scale, layout)
            if launch.lse.numel():
                run(launch)
            return (launch.out, launch.lse) if return_lse else launch.out

        attention.__name__ = attention.__qualname__ = run.__name__
        attention.__doc__ = run.__doc__
        return attention

    return decorate


@_of_tensors(flash_attention_kernel_v1)
def flash_attention_v1(launch: _Launch) -> None:
    """v1 of the ladder: the online normaliser, and a mask on every tile."""
    batch, heads, length, head_dim = launch.q.shape
    with torch.cuda.device_of(launch.q):
        flash_attention_kernel_v1[(triton.cdiv(length, PLAIN.block_m), heads, batch)](
            launch.q, launch.k, launch.v, launch.out, launch.lse, launch.scale, heads, heads // launch.k.shape[1],
            *launch.strides, length, launch.k.shape[2], head_dim,
            IS_CAUSAL=launch.causal, BLOCK_HEADDIM=launch.block_headdim, BLOCK_M=PLAIN.block_m, BLOCK_N=PLAIN.block_n,
            num_warps=PLAIN.num_warps, num_stages=PLAIN.num_stages,
        )  # fmt: skip


@_of_tensors(flash_attention_kernel)
def flash_attention_v2(launch: _Launch) -> None:
    """v2 of the ladder: exp2 with the scale folded in, and tiles with a mask apart."""
    _run(launch, PLAIN)


@_of_tensors(flash_attention_kernel)
def flash_attention_v3(launch: _Launch) -> None:
    """v3 of the ladder: the measured settings. Every GPU and all strides take it."""
    _run(launch, settings_for(launch.q.shape[3], _shared_kb(launch.q)))


@_of_tensors(flash_attention_kernel)
def flash_attention_v4(launch: _Launch) -> None:
    """v4 of the ladder: keys and values by tensor descriptors, which a GPU of capability 9.0 reads in hardware.

    Raises ValueError where k or v is empty, or does not begin at a multiple of 16 bytes in every batch, head and row.
    """
    if not _describable(launch):
        raise ValueError("flash_attention: a tensor descriptor takes k and v whose rows begin at multiples of 16 bytes alone.")
    _run(launch, _up_to(DESCRIPTOR_SETTINGS, launch.block_headdim), descriptors=True)


@_of_tensors(flash_attention_kernel_v5)
def flash_attention_v5(launch: _Launch) -> None:
    """v5 of the ladder: loads and halves of a tile on warps of their own, for a GPU of capability 9.0.

    Raises ValueError for a head_dim other than 128 and 256, lengths that its tiles do not divide, or strides that do not make
    one matrix of all heads.
    """
    if not _specializable(launch):
        raise ValueError(
            "flash_attention: v5 takes a head_dim of 128 or 256, lengths of multiples of 128, and heads that are parts of one "
            "matrix whose rows begin at multiples of 16 bytes."
        )
    _run_specialized(launch, SPECIALIZED_SETTINGS[launch.q.shape[3]])


@_of_tensors(flash_attention_kernel)
def flash_attention(launch: _Launch) -> None:
    """Attention of q to k and v, all float16 or bfloat16, in any strides with a last one of 1.

    q: [batch, heads, M, head_dim]; k, v: [batch, key heads, N, head_dim], where key heads divides heads: so many heads of q
    in a row share one. With layout="bmhd", heads and length change places. head_dim is 16 to 256.
    causal: query m sees the keys n <= m + N - M: the last query sees all (torch's causal_lower_right). A query that sees
    no key gets 0, and a log-sum-exp of -inf.
    scale: of the scores, positive; head_dim ** -0.5 where it is None.
    return_lse: return (out, lse), lse being the natural logarithm of the sum of exp(scores): float32 [batch, heads, M].
    """
    major = torch.cuda.get_device_capability(launch.q.device)[0] if launch.q.is_cuda else 0
    if major == WITH_SPECIALIZATION and _triton_version() >= SPECIALIZING_TRITON and _specializable(launch):
        _run_specialized(launch, SPECIALIZED_SETTINGS[launch.q.shape[3]])
    elif major in WITH_DESCRIPTORS and _describable(launch):
        _run(launch, _up_to(DESCRIPTOR_SETTINGS, launch.block_headdim), descriptors=True)
    else:
        _run(launch, settings_for(launch.q.shape[3], _shared_kb(launch.q)))
