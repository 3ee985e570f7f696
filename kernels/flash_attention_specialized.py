"""v5 of flash_attention: loads and both halves of a tile's rows on warps of their own.

It computes what kernels/flash_attention.py says, for lengths and heads that fill its tiles, on a
GPU of compute capability 9.0:

    for each tile of BLOCK_M queries of a head, tile p, p + P, p + 2 P … to program p:
        some warps:       load the tiles of k and v into shared memory, as soon as there is room
        four more:        rows 0 to BLOCK_M / 2: scores, p, acc, tile after tile
        and four more:    rows BLOCK_M / 2 to BLOCK_M, the same, at their own pace
"""

import contextvars
import functools

import torch
import triton
import triton.language as tl

from kernels.flash_attention_launch import LN2, Launch, as_bhmd, describable
from kernels.flash_attention_settings import PERSISTENT, SPECIALIZED_SETTINGS, Settings
from kernels.softmax import LOG2E


@triton.jit
def first_element(batch, head, stride_b, stride_h, stride_m):
    """Where a head begins in its tensor, read as one matrix of rows stride_m apart: row, column."""
    return (
        batch * (stride_b // stride_m) + head * (stride_h // stride_m),
        head * (stride_h % stride_m),
    )


@triton.jit
def attend_specialized(
    tile, q_tiles, k_tiles, v_tiles, out_tiles, lse_ptr, scale_log2, nheads, n_blocks,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om, seqlen_q, seqlen_k,
    IS_CAUSAL: tl.constexpr, HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr, SPECIALIZE: tl.constexpr,
):
    """Compute and store a tile: BLOCK_M queries of a head.

    Under a causal mask every row sees a key of each tile of keys that is taken.
    """
    pair = tile // n_blocks
    batch, head = pair // nheads, pair % nheads
    # Under a causal mask the last queries see most keys: they come first.
    first_row = (n_blocks - 1 - tile % n_blocks) * BLOCK_M
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
        p = tl.exp2(scores * scale_log2 - new_max[:, None])
        alpha = tl.exp2(row_max - new_max)
        row_sum = row_sum * alpha + tl.sum(p, axis=1)
        v = v_tiles.load([v_row + start, v_col])  # [BLOCK_N, HEADDIM]
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        row_max = new_max
    total = tl.where(row_sum == 0.0, 1.0, row_sum)  # a row with no key: 0 / 1
    tl.store(
        lse_ptr + pair.to(tl.int64) * seqlen_q + first_row + rows, row_max * LN2 + tl.log(total)
    )
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
):
    """Program p of P owns tiles p, p + P, p + 2P … of n_tiles = batch * nheads * n_blocks.

    A tile is BLOCK_M queries of a head. warp_specialize gives the loads to warps of their own,
    which wait for nothing but room in shared memory, and each half of a tile's rows to four warps
    that never wait for those of the other half: one half multiplies while the other computes exp2.
    The compiler does so with descriptors made here, a loop that is not split in two for the mask,
    4 warps and 2 stages. So the mask is computed on every tile of a causal head. Lengths are
    multiples of the blocks, since a descriptor of all heads' rows would read on into the next head.

    PERSISTENT: the next tile's q and first keys are loaded while this one ends, which takes a
    second place for q. Otherwise a program owns one tile.
    """
    q_tiles = tl.make_tensor_descriptor(
        q_ptr, [q_rows, stride_qm], [stride_qm, 1], [BLOCK_M, HEADDIM]
    )
    k_tiles = tl.make_tensor_descriptor(
        k_ptr, [k_rows, stride_kn], [stride_kn, 1], [BLOCK_N, HEADDIM]
    )
    v_tiles = tl.make_tensor_descriptor(
        v_ptr, [v_rows, stride_vn], [stride_vn, 1], [BLOCK_N, HEADDIM]
    )
    out_tiles = tl.make_tensor_descriptor(
        out_ptr, [out_rows, stride_om], [stride_om, 1],
        [BLOCK_M, 128 if HEADDIM == 256 else HEADDIM],
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
                stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
                seqlen_q, seqlen_k,
                IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, False,
            )
    else:
        attend_specialized(
            tl.program_id(axis=0), q_tiles, k_tiles, v_tiles, out_tiles, lse_ptr, scale_log2,
            nheads, n_blocks,
            stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
            stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om, seqlen_q, seqlen_k,
            IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, True,
        )


def specializable(launch: Launch) -> bool:
    """Whether v5 takes it: all heads of a tensor make one matrix, and tiles divide the lengths."""
    settings = SPECIALIZED_SETTINGS.get(launch.q.shape[3])
    if settings is None or not describable(launch):
        return False
    if launch.q.shape[2] % settings.block_m or launch.k.shape[2] % settings.block_m:
        return False
    return all(_one_matrix(x) for x in (launch.q, launch.k, launch.v))


def _one_matrix(x: torch.Tensor) -> bool:
    """Whether all heads of x are parts of one matrix, whose rows are x.stride(2) apart."""
    (_, heads, _, head_dim), (step_b, step_h, row, _) = x.shape, x.stride()
    aligned = x.data_ptr() % 16 == 0 and all(
        step > 0 and step * x.itemsize % 16 == 0 for step in (step_b, step_h, row)
    )
    return (
        aligned
        and step_b % row == 0
        and (heads - 1) * (step_h % row) + head_dim <= row
        and _rows(x) < 2**31
    )


def _rows(x: torch.Tensor) -> int:
    """How many rows x has as one matrix whose rows are x.stride(2) apart."""
    return 1 + sum(
        (size - 1) * (step // x.stride(2))
        for size, step in zip(x.shape[:3], x.stride()[:3], strict=True)
    )


@functools.cache
def _multiprocessors_of(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def _multiprocessors(x: torch.Tensor) -> int:
    """As on an H200 in the interpreter."""
    return _multiprocessors_of(x.get_device()) if x.is_cuda else 132


def _scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Memory for the descriptors that a kernel makes."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


def run_specialized(launch: Launch, settings: Settings) -> None:
    """Launch v5.

    Where it is persistent: as many programs as share its tiles evenly in as few turns as the GPU
    needs.
    """
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
            *(_rows(x) for x in (q, k, v, as_bhmd(out, layout))), length, k.shape[2],
            IS_CAUSAL=causal, HEADDIM=head_dim,
            BLOCK_M=settings.block_m, BLOCK_N=settings.block_n,
            HEADS_PER_KEY_HEAD=heads // k.shape[1], PERSISTENT=persistent,
            num_warps=settings.num_warps, num_stages=settings.num_stages,
        )

    with torch.cuda.device_of(q):
        contextvars.copy_context().run(run)  # the caller's own allocator stays
