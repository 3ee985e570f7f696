"""v4 and v5 of attention, in `tl` for GPUs with tensor descriptors: v4 for compute capability 9.0
and 10, v5 for 9.0 alone.

A **tensor descriptor** says where a tensor lies, and one thread starts the copy of a tile of it.
v4 is v2's kernel with such copies. v5 gives loads and both halves of a tile's rows warps of their
own, for lengths and heads that fill its tiles:

    for each tile of BLOCK_M queries of a head, tile p, p + P, p + 2 P … to program p:
        producer warps:      load the tiles of k and v into shared memory, as soon as there is room
        4 consumer warps:    S, P and O of rows 0 to BLOCK_M / 2, tile after tile
        4 consumer warps:    the same for rows BLOCK_M / 2 to BLOCK_M, at their own pace
"""

import contextvars

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.attention.inputs import Launch, Result, as_bhmd, describable, prepare
from kernels.attention.settings import DESCRIPTOR_SETTINGS, PERSISTENT, SPECIALIZED_SETTINGS, up_to
from kernels.device import LN2, LOG2E, finite, gpu_of


@triton.jit(do_not_specialize=["nheads"])
def flash_attention_kernel_v4(
    q_ptr, k_tiles, v_tiles, out_ptr, lse_ptr, scale, nheads, stride_q, stride_out, lengths,
    head_dim, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr,
    IS_CAUSAL: tl.constexpr, BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, HEADS_PER_KEY_HEAD: tl.constexpr,
):
    """`flash_attention_kernel` with k and v by tensor descriptors. q and out, which move once for a
    program, keep their pointers and so may have any strides.

    k_tiles, v_tiles: descriptors of [batch, key heads, seqlen_k, head_dim] in blocks of
        [1, 1, BLOCK_N, BLOCK_HEADDIM]. What lies outside the tensor is read as 0.
    """
    (stride_qb, stride_qh, stride_qm), (stride_ob, stride_oh, stride_om) = stride_q, stride_out
    seqlen_q, seqlen_k = lengths
    block = tl.program_id(axis=0)
    if IS_CAUSAL:  # the last queries see most keys: they begin first, short programs fill the end
        block = tl.num_programs(axis=0) - 1 - block
    pair = tl.program_id(axis=2) * tl.num_programs(axis=1) + tl.program_id(axis=1)
    batch, head = (pair // nheads).to(tl.int64), (pair % nheads).to(tl.int64)
    key_batch, key_head = batch.to(tl.int32), (head // HEADS_PER_KEY_HEAD).to(tl.int32)
    first_row = block * BLOCK_M
    rows = tl.arange(0, BLOCK_M)  # [BLOCK_M], from first_row on
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N], from `start` on
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    row_mask = EVEN_M | (rows < seqlen_q - first_row)
    dim_mask = EVEN_HEADDIM | (dims < head_dim)
    q_mask = row_mask[:, None] & dim_mask[None, :]  # [BLOCK_M, BLOCK_HEADDIM]
    q_start = q_ptr + batch * stride_qb + head * stride_qh + first_row.to(tl.int64) * stride_qm
    q_ptrs = q_start + rows[:, None].to(tl.int64) * stride_qm + dims[None, :]
    q = tl.load(q_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]

    if IS_CAUSAL:  # row i sees keys up to i + seqlen_k - seqlen_q: the last row sees all
        first_row_sees = first_row + (seqlen_k - seqlen_q) + 1
        masked = tl.maximum(tl.minimum(first_row_sees, seqlen_k), 0) // BLOCK_N * BLOCK_N
        end = tl.maximum(tl.minimum(first_row_sees + BLOCK_M - 1, seqlen_k), 0)
    else:
        masked = seqlen_k // BLOCK_N * BLOCK_N
        end = masked if EVEN_N else seqlen_k
    scale_log2 = scale * LOG2E  # exp(scale * t) = exp2(scale_log2 * t)
    O = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of S * scale_log2
    l = tl.zeros([BLOCK_M], tl.float32)
    for MASKED in tl.static_range(2):  # the loop is compiled twice: without a mask, and with one
        first_col, end_col = (masked, end) if MASKED else (0, masked)
        for start in range(first_col, end_col, BLOCK_N):
            k = k_tiles.load([key_batch, key_head, start, 0]).reshape([BLOCK_N, BLOCK_HEADDIM])
            S = tl.dot(q, k.T)  # [BLOCK_M, BLOCK_N], not yet scaled
            if MASKED:
                visible = (cols < seqlen_k - start)[None, :]
                if IS_CAUSAL:
                    last_col = (first_row + rows)[:, None] + (seqlen_k - seqlen_q)
                    visible = visible & (start + cols[None, :] <= last_col)
                S = tl.where(visible, S, -float("inf"))
            m_new = tl.maximum(m, tl.max(S, axis=1) * scale_log2)  # [BLOCK_M]
            base = finite(m_new) if MASKED else m_new  # only a mask makes a row of -inf
            P = tl.exp2(S * scale_log2 - base[:, None])  # [BLOCK_M, BLOCK_N]
            alpha = tl.exp2(m - base)  # [BLOCK_M]
            l = l * alpha + tl.sum(P, axis=1)
            O = O * alpha[:, None]
            v = v_tiles.load([key_batch, key_head, start, 0]).reshape([BLOCK_N, BLOCK_HEADDIM])
            O = tl.dot(P.to(v.dtype), v, O)  # [BLOCK_M, BLOCK_HEADDIM]
            m = m_new

    l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    lse_ptrs = lse_ptr + pair.to(tl.int64) * seqlen_q + first_row + rows
    tl.store(lse_ptrs, m * LN2 + tl.log(l), mask=row_mask)
    out = (O * (1.0 / l)[:, None]).to(out_ptr.dtype.element_ty)  # one division per row
    out_start = out_ptr + batch * stride_ob + head * stride_oh + first_row.to(tl.int64) * stride_om
    out_ptrs = out_start + rows[:, None].to(tl.int64) * stride_om + dims[None, :]
    tl.store(out_ptrs, out, mask=q_mask)


@triton.jit
def first_element(batch, head, stride):
    """The row and column where a head begins, in its tensor read as one matrix whose rows are
    `stride`'s last apart. A descriptor counts both in 32 bits.

    The launcher could divide once for all tiles, and would pass eight more numbers. A tile's few
    divisions are nothing beside its loop.
    """
    stride_b, stride_h, stride_m = stride
    row = batch * (stride_b // stride_m) + head * (stride_h // stride_m)
    return tl.cast(row, tl.int32), tl.cast(head * (stride_h % stride_m), tl.int32)


@triton.jit
def attend_specialized(
    tile, descriptors, strides, lengths, lse_ptr, scale_log2, nheads, n_blocks,
    IS_CAUSAL: tl.constexpr, HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr, SPECIALIZE: tl.constexpr,
):
    """Compute and store one tile: BLOCK_M queries of a head.

    descriptors, strides: of q, k, v and out.
    No maximum is -inf, which `finite` is for elsewhere: BLOCK_M divides both lengths, so each row
    of a tile that takes any key sees the first key.
    """
    q_tiles, k_tiles, v_tiles, out_tiles = descriptors
    stride_q, stride_k, stride_v, stride_out = strides
    seqlen_q, seqlen_k = lengths
    pair = tile // n_blocks
    batch, head = pair // nheads, pair % nheads
    key_head = head // HEADS_PER_KEY_HEAD
    # Under a causal mask the last queries see most keys: they come first.
    first_row = (n_blocks - 1 - tile % n_blocks) * BLOCK_M
    q_row, q_col = first_element(batch, head, stride_q)
    k_row, k_col = first_element(batch, key_head, stride_k)
    v_row, v_col = first_element(batch, key_head, stride_v)
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
    out_row, out_col = first_element(batch, head, stride_out)
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
    stride_q, stride_k, stride_v, stride_out, matrix_rows, lengths,
    IS_CAUSAL: tl.constexpr, HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr, PERSISTENT: tl.constexpr,
):
    """Program p of P owns tiles p, p + P, p + 2P … of n_tiles = batch * nheads * n_blocks.

    A tile is BLOCK_M queries of a head. warp_specialize gives the loads to producer warps, which
    wait for nothing but room in shared memory, and each half of a tile's rows to four consumer
    warps that never wait for those of the other half: one half may multiply while the other
    computes exp2. The compiler cuts q's tile in half for it, which it can do with a descriptor of
    two axes that is made here, and with one loop. So all heads are read as one matrix, and the mask
    is computed on every tile of a causal head. Lengths are multiples of the blocks, since such a
    descriptor would read on into the next head. 4 warps are one of the groups.

    matrix_rows: the rows of q, k, v and out, each read as one matrix.
    PERSISTENT: the next tile's q and first keys are loaded while this one ends, which takes shared
        memory for a second q. Otherwise a program owns one tile.
    """
    q_rows, k_rows, v_rows, out_rows = matrix_rows
    stride_qm, stride_kn = stride_q[2], stride_k[2]
    stride_vn, stride_om = stride_v[2], stride_out[2]
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
    descriptors = (q_tiles, k_tiles, v_tiles, out_tiles)
    strides = (stride_q, stride_k, stride_v, stride_out)
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
                tile, descriptors, strides, lengths, lse_ptr, scale_log2, nheads, n_blocks,
                IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, SPECIALIZE=False,
            )
    else:
        attend_specialized(
            tl.program_id(axis=0), descriptors, strides, lengths, lse_ptr, scale_log2, nheads,
            n_blocks, IS_CAUSAL, HEADDIM, BLOCK_M, BLOCK_N, HEADS_PER_KEY_HEAD, SPECIALIZE=True,
        )


def flash_attention_v4(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v4 of the ladder: k and v by tensor descriptors, which capability 9.0 reads in hardware.

    Raises ValueError where k or v is empty, or does not begin at a multiple of 16 bytes in every
    batch, head and row.
    """
    launch = prepare(flash_attention_kernel_v4, q, k, v, causal, scale, layout)
    if launch.queries:
        if not describable(launch.k, launch.v):
            raise ValueError(
                "flash_attention: a tensor descriptor takes only k and v that are neither empty "
                "nor expanded, and whose rows begin at multiples of 16 bytes."
            )
        launch_described(launch)
    return launch.result(return_lse)


def flash_attention_v5(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v5 of the ladder: loads and halves of a tile on warps of their own, for capability 9.0.

    Raises ValueError for a head_dim other than 128 and 256, lengths that its tiles do not divide,
    or strides that do not make one matrix of all heads.
    """
    launch = prepare(flash_attention_kernel_v5, q, k, v, causal, scale, layout)
    if launch.queries:
        if not specializable(launch):
            raise ValueError(
                "flash_attention: v5 takes a head_dim of 128 or 256, lengths of multiples of 128, "
                "and heads that are parts of one matrix whose rows begin at multiples of 16 bytes."
            )
        launch_specialized(launch)
    return launch.result(return_lse)


def launch_described(launch: Launch) -> None:
    """Launch v4."""
    _, heads, _, head_dim = launch.q.shape
    settings = up_to(DESCRIPTOR_SETTINGS, launch.block_headdim)
    stride_q, _, _, stride_out = launch.strides
    tile = [1, 1, settings.block_n, launch.block_headdim]
    k_tiles, v_tiles = (
        TensorDescriptor(x, list(x.shape), list(x.stride()), tile) for x in (launch.k, launch.v)
    )
    with torch.cuda.device_of(launch.q):
        flash_attention_kernel_v4[launch.grid(settings)](
            launch.q, k_tiles, v_tiles, launch.out, launch.lse, launch.scale, heads,
            stride_q, stride_out, launch.lengths, head_dim, **launch.constants(settings),
        )


def launch_specialized(launch: Launch) -> None:
    """Launch v5: a program for each tile or, where it is persistent, as many programs as share the
    tiles evenly in as few rounds as the GPU needs."""
    batch, heads, seqlen_q, head_dim = launch.q.shape
    settings = SPECIALIZED_SETTINGS[head_dim]
    blocks = seqlen_q // settings.block_m
    tiles = batch * heads * blocks
    persistent = head_dim in PERSISTENT
    rounds = triton.cdiv(tiles, gpu_of(launch.q).multiprocessors) if persistent else 1
    programs = triton.cdiv(tiles, rounds)
    tensors = (launch.q, launch.k, launch.v, as_bhmd(launch.out, launch.layout))

    def run() -> None:
        triton.set_allocator(_scratch)
        flash_attention_kernel_v5[(programs,)](
            launch.q, launch.k, launch.v, launch.out, launch.lse, launch.scale,
            heads, blocks, tiles, *launch.strides, tuple(map(_rows, tensors)), launch.lengths,
            IS_CAUSAL=launch.causal, HEADDIM=head_dim,
            BLOCK_M=settings.block_m, BLOCK_N=settings.block_n,
            HEADS_PER_KEY_HEAD=launch.heads_per_key_head, PERSISTENT=persistent,
            num_warps=settings.num_warps, num_stages=settings.num_stages,
        )

    with torch.cuda.device_of(launch.q):
        contextvars.copy_context().run(run)  # the caller's own allocator stays


def specializable(launch: Launch) -> bool:
    """Whether v5 takes it: all heads of a tensor make one matrix, and tiles divide the lengths."""
    tensors = (launch.q, launch.k, launch.v)
    settings = SPECIALIZED_SETTINGS.get(launch.q.shape[3])
    return (
        settings is not None
        and all(x.shape[2] % settings.block_m == 0 for x in tensors)
        and describable(*tensors)
        and all(_one_matrix(x) for x in tensors)
    )


def _one_matrix(x: torch.Tensor) -> bool:
    """Whether all heads of x are parts of one matrix, whose rows are x.stride(2) apart, and whose
    rows and columns 32 bits count."""
    (_, heads, _, head_dim), (step_b, step_h, row, _) = x.shape, x.stride()
    return (
        step_b % row == 0
        and (heads - 1) * (step_h % row) + head_dim <= row
        and max(_rows(x), row) < 2**31
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
