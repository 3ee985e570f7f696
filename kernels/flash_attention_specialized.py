"""v5 of flash_attention: loads and both halves of a tile's rows on warps of their own.

It computes what kernels/flash_attention.py says, for lengths and heads that fill its tiles, on a
GPU of compute capability 9.0:

    for each tile of BLOCK_M queries of a head, tile p, p + P, p + 2 P … to program p:
        producer warps:      load the tiles of k and v into shared memory, as soon as there is room
        4 consumer warps:    S, P and O of rows 0 to BLOCK_M / 2, tile after tile
        4 consumer warps:    the same for rows BLOCK_M / 2 to BLOCK_M, at their own pace
"""

import contextvars

import torch
import triton
import triton.language as tl

from kernels.device import LN2, LOG2E, gpu_of
from kernels.flash_attention_launch import Launch, as_bhmd, describable
from kernels.flash_attention_settings import PERSISTENT, SPECIALIZED_SETTINGS, Settings


@triton.jit
def first_element(batch, head, stride_b, stride_h, stride_m):
    """The row and column where a head begins, in its tensor read as one matrix of rows stride_m
    apart."""
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
    """Compute and store one tile: BLOCK_M queries of a head. q_tiles … out_tiles are descriptors.

    No maximum is -inf, which `finite` is for elsewhere: BLOCK_M divides both lengths, so each row
    of a tile that takes any key sees the first key.
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
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of S * scale_log2
    l = tl.zeros([BLOCK_M], tl.float32)
    O = tl.zeros([BLOCK_M, HEADDIM], tl.float32)
    for start in tl.range(0, end, BLOCK_N, warp_specialize=SPECIALIZE):
        k = k_tiles.load([k_row + start, k_col]).T  # [HEADDIM, BLOCK_N]
        S = tl.dot(q, k)  # [BLOCK_M, BLOCK_N], not yet scaled
        if IS_CAUSAL:
            last_visible = first_row + rows + (seqlen_k - seqlen_q) - start  # [BLOCK_M]
            S = tl.where(cols[None, :] <= last_visible[:, None], S, -float("inf"))
        m_new = tl.maximum(m, tl.max(S, axis=1) * scale_log2)  # [BLOCK_M]
        P = tl.exp2(S * scale_log2 - m_new[:, None])  # [BLOCK_M, BLOCK_N]
        alpha = tl.exp2(m - m_new)  # [BLOCK_M]
        l = l * alpha + tl.sum(P, axis=1)
        v = v_tiles.load([v_row + start, v_col])  # [BLOCK_N, HEADDIM]
        O = tl.dot(P.to(v.dtype), v, O * alpha[:, None])  # [BLOCK_M, HEADDIM]
        m = m_new
    l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    tl.store(lse_ptr + pair.to(tl.int64) * seqlen_q + first_row + rows, m * LN2 + tl.log(l))
    out_row, out_col = first_element(batch, head, stride_ob, stride_oh, stride_om)
    out = O * (1.0 / l)[:, None]  # one division for a row
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

    A tile is BLOCK_M queries of a head. warp_specialize gives the loads to producer warps, which
    wait for nothing but room in shared memory, and each half of a tile's rows to four consumer
    warps that never wait for those of the other half: one half multiplies while the other computes
    exp2. The compiler does so with descriptors made here, one loop, 4 warps and 2 stages. So the
    loop is not split in two, and the mask is computed on every tile of a causal head. Lengths are
    multiples of the blocks, since a descriptor of all heads' rows would read on into the next head.

    PERSISTENT: the next tile's q and first keys are loaded while this one ends, which takes shared
    memory for a second q. Otherwise a program owns one tile.
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
            if IS_CAUSAL:  # every other round runs backwards: who had many keys gets few
                rounds = nth // n_programs
                backwards = tl.minimum((rounds + 1) * n_programs, n_tiles) - 1 - nth % n_programs
                tile = tl.where(rounds % 2 == 0, nth, backwards)
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


def _scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Memory for the descriptors that a kernel makes."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


def run_specialized(launch: Launch, settings: Settings) -> None:
    """Launch v5: a program for each tile or, where it is persistent, as many programs as share the
    tiles evenly in as few rounds as the GPU needs."""
    q, k, v, out, lse, scale, causal, layout = launch
    batch, heads, length, head_dim = q.shape
    blocks = length // settings.block_m
    tiles = batch * heads * blocks
    persistent = head_dim in PERSISTENT
    rounds = triton.cdiv(tiles, gpu_of(q).multiprocessors) if persistent else 1
    programs = triton.cdiv(tiles, rounds)

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
