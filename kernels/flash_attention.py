"""Attention without its M x N matrix: out[m] = sum over n of softmax(scale * q[m] . k[n]) * v[n].

The keys are taken tile by tile, and each query keeps the maximum and the sum of its scores so far,
as softmax_v3 does. Where a new maximum comes, what was gathered before is made smaller:

    for each tile q of BLOCK_M queries, in parallel:
        row_max, row_sum, acc = -inf, 0, 0
        for each tile k, v of BLOCK_N keys and values:
            scores = scale * q @ k.T                        # [BLOCK_M, BLOCK_N]
            new_max = max(row_max, max of each row of scores)
            p = exp(scores - new_max)
            alpha = exp(row_max - new_max)
            row_sum = row_sum * alpha + sum of each row of p
            acc = acc * alpha + p @ v                       # [BLOCK_M, head_dim]
            row_max = new_max
        out, lse = acc / row_sum, row_max + log(row_sum)

The names of the papers (Dao et al., FlashAttention, arXiv 2205.14135; Dao, FlashAttention-2,
arXiv 2307.08691, algorithm 1) and of Triton's tutorial 06:

    here      papers                     tutorial
    scores    S = scale * Q K^T          qk
    p         P~ = exp(S - m)            p
    row_max   m                          m_i
    row_sum   l                          l_i
    acc       O, before it is divided    acc
    alpha     exp(m_old - m_new)         alpha
    lse       L = m + log(l)             M (in base 2)

For B x H heads, M queries, N keys and head dimension D of s bytes: 4 * B * H * M * N * D
operations, half under a causal mask. Written down and read back, scores and probabilities alone
would move 4 * B * H * M * N * s bytes. The ladder:

    v1  flash_attention_v1  a program a tile of queries,     reads q once, and k and v M / BLOCK_M
                            all keys past it; divided once,  times, from the L2 cache
                            at the end                       a mask on every tile, exp
    v2  flash_attention_v2  the scale folded into exp2;      under a causal mask half the tiles are
                            tiles with a mask apart; the     left out, and only those on the
                            longest programs of a causal     diagonal pay for it
                            head first
    v3  flash_attention_v3  as v2, measured settings         the same operations; larger tiles read
                                                             k and v less often
    v4  flash_attention_v4  as v3, k and v by tensor         the same; no thread computes addresses
                            descriptors
    v5  flash_attention_v5  as v4, loads and both halves     the same; one half's dots run under the
                            of a tile's rows on warps of     other's exp2
                            their own
        flash_attention     v5 or v4 where the GPU, the lengths and the strides allow it, else v3

Scores, maxima, sums and the output so far are float32; only p is rounded to the dtype of v, for the
dot.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.flash_attention_launch import LN2, Launch, describable, prepare
from kernels.flash_attention_settings import (
    DESCRIPTOR_SETTINGS,
    PLAIN,
    SPECIALIZED_SETTINGS,
    Settings,
    settings_for,
    shared_kb_for,
    triton_version,
    up_to,
)
from kernels.flash_attention_specialized import (
    flash_attention_kernel_v5,
    run_specialized,
    specializable,
)
from kernels.softmax import LOG2E, finite

WITH_DESCRIPTORS = (9, 10)
"""Major compute capabilities with tensor descriptors and the shared memory that v4 takes."""
WITH_SPECIALIZATION = 9
"""The major compute capability that v5 was written for."""
SPECIALIZING_TRITON = (3, 7)
"""The first Triton that compiles v5 at every head dimension."""


@triton.jit
def flash_attention_kernel_v1(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, heads_per_key_head,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
    seqlen_q, seqlen_k, head_dim,
    IS_CAUSAL: tl.constexpr, BLOCK_HEADDIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program (i, h, b) owns queries i * BLOCK_M … of head h of batch b, and reads all its keys."""
    batch, head = tl.program_id(axis=2).to(tl.int64), tl.program_id(axis=1).to(tl.int64)
    key_head = head // heads_per_key_head
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    row_mask = (rows < seqlen_q)[:, None] & (dims < head_dim)[None, :]
    q_ptrs = (
        q_ptr + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qm + dims[None, :]
    )
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
        p = tl.exp(scores - finite(new_max)[:, None])
        alpha = tl.exp(row_max - finite(new_max))
        row_sum = row_sum * alpha + tl.sum(p, axis=1)
        v = tl.load(v_start + cols[:, None] * stride_vn + dims[None, :], mask=col_mask, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        row_max = new_max

    total = tl.where(row_sum == 0.0, 1.0, row_sum)  # a row with no key: 0 / 1
    lse_ptrs = lse_ptr + (batch * nheads + head) * seqlen_q + rows
    tl.store(lse_ptrs, row_max + tl.log(total), mask=rows < seqlen_q)
    out_ptrs = (
        out_ptr + batch * stride_ob + head * stride_oh + rows[:, None] * stride_om + dims[None, :]
    )
    tl.store(out_ptrs, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=row_mask)


@triton.jit
def attend(
    q, acc, row_max, row_sum, K, V, batch, key_head,
    stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    first_row, first_col, end_col, seqlen_q, seqlen_k, head_dim, scale_log2,
    EVEN_HEADDIM: tl.constexpr, MASKED: tl.constexpr, IS_CAUSAL: tl.constexpr,
    DESCRIPTORS: tl.constexpr, BLOCK_HEADDIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Take the keys from first_col up to end_col into acc, row_max and row_sum; return these three.

    MASKED: some of these keys are past the end or hidden by the causal mask. Otherwise every row
    sees every one.
    """
    rows = first_row + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    if not DESCRIPTORS:
        dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
        dims_there = EVEN_HEADDIM | (dims < head_dim)
        k_ptrs = (
            K + batch * stride_kb + key_head * stride_kh
            + (first_col + cols[None, :]).to(tl.int64) * stride_kn
        )
        v_ptrs = (
            V + batch * stride_vb + key_head * stride_vh
            + (first_col + cols[:, None]).to(tl.int64) * stride_vn
        )
        k_ptrs += dims[:, None]  # [BLOCK_HEADDIM, BLOCK_N]: transposed as it is read
        v_ptrs += dims[None, :]  # [BLOCK_N, BLOCK_HEADDIM]
    for start in range(first_col, end_col, BLOCK_N):
        cols_there = cols < seqlen_k - start
        if DESCRIPTORS:  # what lies outside the tensor reads as 0
            k = K.load([batch.to(tl.int32), key_head.to(tl.int32), start, 0]).reshape(
                [BLOCK_N, BLOCK_HEADDIM]
            ).T
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
        p = tl.exp2(scores * scale_log2 - base[:, None])  # a multiply-add and an exp2
        alpha = tl.exp2(row_max - base)
        row_sum = row_sum * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        if DESCRIPTORS:
            v = V.load([batch.to(tl.int32), key_head.to(tl.int32), start, 0]).reshape(
                [BLOCK_N, BLOCK_HEADDIM]
            )
        elif MASKED:
            v = tl.load(v_ptrs, mask=cols_there[:, None] & dims_there[None, :], other=0.0)
        else:
            v = tl.load(v_ptrs, mask=dims_there[None, :], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
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
):
    """v2, v3 and v4: a program owns BLOCK_M queries of one head.

    Grid: (ceil(seqlen_q / BLOCK_M), nheads, batch), or the same programs as (…, batch * nheads, 1).

    q, k, v, out: [batch, heads, length, head_dim] in any strides with a last one of 1, given as
        three each: from batch to batch, from head to head, from row to row.
    lse: float32, the natural logarithm of the sum of exp(scores), a row of seqlen_q for each head,
        stride_lse apart.
    EVEN_M, EVEN_N, EVEN_HEADDIM: seqlen_q is a multiple of BLOCK_M, seqlen_k of BLOCK_N, head_dim
        is BLOCK_HEADDIM. They may be flags at run time too: what they leave out is then left out by
        a branch or a mask.
    HEADS_PER_KEY_HEAD: so many heads of q in a row share a head of k and v.
    DESCRIPTORS: K and V are tensor descriptors of [1, 1, BLOCK_N, BLOCK_HEADDIM], and their strides
        are not used; else pointers.
    """
    block = tl.program_id(axis=0)
    if IS_CAUSAL:  # the last queries see most keys: they begin first, short programs fill the end
        block = tl.num_programs(axis=0) - 1 - block
    pair = tl.program_id(axis=2) * tl.num_programs(axis=1) + tl.program_id(axis=1)
    b = (pair // nheads).to(tl.int64)
    head = (pair % nheads).to(tl.int64)
    key_head = head // HEADS_PER_KEY_HEAD
    first_row = block * BLOCK_M
    rows = tl.arange(0, BLOCK_M)  # [BLOCK_M]
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    rows_there = EVEN_M | (rows < seqlen_q - first_row)
    # [BLOCK_M, BLOCK_HEADDIM]
    tile_there = rows_there[:, None] & (EVEN_HEADDIM | (dims < head_dim))[None, :]
    q_start = q_ptr + b * stride_qb + head * stride_qh + first_row.to(tl.int64) * stride_qm
    q = tl.load(
        q_start + rows[:, None].to(tl.int64) * stride_qm + dims[None, :], mask=tile_there, other=0.0
    )

    if IS_CAUSAL:  # row m sees keys up to m + seqlen_k - seqlen_q: the last row sees all
        n_seen = first_row + (seqlen_k - seqlen_q) + 1  # by the tile's first row
        whole = tl.maximum(tl.minimum(n_seen, seqlen_k), 0) // BLOCK_N * BLOCK_N
        end = tl.maximum(tl.minimum(n_seen + BLOCK_M - 1, seqlen_k), 0)
    else:
        whole = seqlen_k // BLOCK_N * BLOCK_N
        end = seqlen_k
    scale_log2 = scale * LOG2E  # exp(t) = exp2(t * LOG2E), and exp2 is what the hardware has
    row_max = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of scores * scale_log2
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    acc, row_max, row_sum = attend(
        q, acc, row_max, row_sum, K, V, b, key_head,
        stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
        first_row, 0, whole, seqlen_q, seqlen_k, head_dim, scale_log2,
        EVEN_HEADDIM, False, IS_CAUSAL, DESCRIPTORS, BLOCK_HEADDIM, BLOCK_M, BLOCK_N,
    )
    if IS_CAUSAL or not EVEN_N:
        acc, row_max, row_sum = attend(
            q, acc, row_max, row_sum, K, V, b, key_head,
            stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
            first_row, whole, end, seqlen_q, seqlen_k, head_dim, scale_log2,
            EVEN_HEADDIM, True, IS_CAUSAL, DESCRIPTORS, BLOCK_HEADDIM, BLOCK_M, BLOCK_N,
        )

    total = tl.where(row_sum == 0.0, 1.0, row_sum)  # a row with no key: 0 / 1
    tl.store(
        lse_ptr + pair.to(tl.int64) * stride_lse + first_row + rows,
        row_max * LN2 + tl.log(total),
        mask=rows_there,
    )
    out = (acc * (1.0 / total)[:, None]).to(out_ptr.dtype.element_ty)
    out_start = out_ptr + b * stride_ob + head * stride_oh + first_row.to(tl.int64) * stride_om
    tl.store(
        out_start + rows[:, None].to(tl.int64) * stride_om + dims[None, :], out, mask=tile_there
    )


def _run(launch: Launch, settings: Settings, descriptors: bool = False) -> None:
    """Launch `flash_attention_kernel`."""
    q, k, v, out, lse, scale, causal, _ = launch
    (batch, heads, length, head_dim), block_headdim = q.shape, launch.block_headdim
    heads_per_key_head, seqlen_k = heads // k.shape[1], k.shape[2]
    keys: list[torch.Tensor | TensorDescriptor] = [k, v]
    if descriptors:
        tile = [1, 1, settings.block_n, block_headdim]
        keys = [TensorDescriptor(x, list(x.shape), list(x.stride()), tile) for x in (k, v)]
    # A single key has none to load ahead; and ptxas 12.8 crashes at two stages.
    stages = settings.num_stages if seqlen_k > 1 else 1
    with torch.cuda.device_of(q):
        flash_attention_kernel[(triton.cdiv(length, settings.block_m), heads, batch)](
            q, *keys, out, lse, scale, heads, *launch.strides, length, seqlen_k, length, head_dim,
            EVEN_M=length % settings.block_m == 0, EVEN_N=seqlen_k % settings.block_n == 0,
            EVEN_HEADDIM=head_dim == block_headdim, IS_CAUSAL=causal, BLOCK_HEADDIM=block_headdim,
            BLOCK_M=settings.block_m, BLOCK_N=settings.block_n,
            HEADS_PER_KEY_HEAD=heads_per_key_head, DESCRIPTORS=descriptors,
            num_warps=settings.num_warps, num_stages=stages,
        )


Attention = Callable[..., torch.Tensor | tuple[torch.Tensor, torch.Tensor]]


def of_tensors(kernel: object) -> Callable[[Callable[[Launch], None]], Attention]:
    """Make a function that runs a checked Launch of `kernel` one of q, k and v.

    The decorated function takes the arguments of `flash_attention`, keeps its name and docstring,
    and returns the output, with return_lse the log-sum-exp too. Nothing is launched where there is
    no query.
    """

    def decorate(run: Callable[[Launch], None]) -> Attention:
        def attention(
            q: torch.Tensor,
            k: torch.Tensor,
            v: torch.Tensor,
            causal: bool = False,
            scale: float | None = None,
            return_lse: bool = False,
            layout: str = "bhmd",
        ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
            launch = prepare(kernel, q, k, v, causal, scale, layout)
            if launch.lse.numel():
                run(launch)
            return (launch.out, launch.lse) if return_lse else launch.out

        attention.__name__ = attention.__qualname__ = run.__name__
        attention.__doc__ = run.__doc__
        return attention

    return decorate


@of_tensors(flash_attention_kernel_v1)
def flash_attention_v1(launch: Launch) -> None:
    """v1 of the ladder: the online normaliser, and a mask on every tile."""
    batch, heads, length, head_dim = launch.q.shape
    with torch.cuda.device_of(launch.q):
        flash_attention_kernel_v1[(triton.cdiv(length, PLAIN.block_m), heads, batch)](
            launch.q, launch.k, launch.v, launch.out, launch.lse, launch.scale,
            heads, heads // launch.k.shape[1], *launch.strides, length, launch.k.shape[2], head_dim,
            IS_CAUSAL=launch.causal, BLOCK_HEADDIM=launch.block_headdim,
            BLOCK_M=PLAIN.block_m, BLOCK_N=PLAIN.block_n,
            num_warps=PLAIN.num_warps, num_stages=PLAIN.num_stages,
        )


@of_tensors(flash_attention_kernel)
def flash_attention_v2(launch: Launch) -> None:
    """v2 of the ladder: exp2 with the scale folded in, and tiles with a mask apart."""
    _run(launch, PLAIN)


@of_tensors(flash_attention_kernel)
def flash_attention_v3(launch: Launch) -> None:
    """v3 of the ladder: the measured settings. Every GPU and all strides take it."""
    _run(launch, settings_for(launch.q.shape[3], shared_kb_for(launch.q)))


@of_tensors(flash_attention_kernel)
def flash_attention_v4(launch: Launch) -> None:
    """v4 of the ladder: k and v by tensor descriptors, which capability 9.0 reads in hardware.

    Raises ValueError where k or v is empty, or does not begin at a multiple of 16 bytes in every
    batch, head and row.
    """
    if not describable(launch):
        raise ValueError(
            "flash_attention: a tensor descriptor takes k and v whose rows begin at multiples of "
            "16 bytes alone."
        )
    _run(launch, up_to(DESCRIPTOR_SETTINGS, launch.block_headdim), descriptors=True)


@of_tensors(flash_attention_kernel_v5)
def flash_attention_v5(launch: Launch) -> None:
    """v5 of the ladder: loads and halves of a tile on warps of their own, for capability 9.0.

    Called as `flash_attention` is. Raises ValueError for a head_dim other than 128 and 256, lengths
    that its tiles do not divide, or strides that do not make one matrix of all heads.
    """
    if not specializable(launch):
        raise ValueError(
            "flash_attention: v5 takes a head_dim of 128 or 256, lengths of multiples of 128, and "
            "heads that are parts of one matrix whose rows begin at multiples of 16 bytes."
        )
    run_specialized(launch, SPECIALIZED_SETTINGS[launch.q.shape[3]])


@of_tensors(flash_attention_kernel)
def flash_attention(launch: Launch) -> None:
    """Attention of q to k and v, all float16 or bfloat16, in any strides with a last one of 1.

    q: [batch, heads, M, head_dim]; k, v: [batch, key heads, N, head_dim], where key heads divides
        heads: so many heads of q in a row share one. With layout="bmhd", heads and length change
        places. head_dim is 16 to 256.
    causal: query m sees the keys n <= m + N - M: the last query sees all (torch's
        causal_lower_right). A query that sees no key gets 0, and a log-sum-exp of -inf.
    scale: of the scores, positive; head_dim ** -0.5 where it is None.
    return_lse: return (out, lse), lse being the natural logarithm of the sum of exp(scores):
        float32 [batch, heads, M].
    """
    major = torch.cuda.get_device_capability(launch.q.device)[0] if launch.q.is_cuda else 0
    if (
        major == WITH_SPECIALIZATION
        and triton_version() >= SPECIALIZING_TRITON
        and specializable(launch)
    ):
        run_specialized(launch, SPECIALIZED_SETTINGS[launch.q.shape[3]])
    elif major in WITH_DESCRIPTORS and describable(launch):
        _run(launch, up_to(DESCRIPTOR_SETTINGS, launch.block_headdim), descriptors=True)
    else:
        _run(launch, settings_for(launch.q.shape[3], shared_kb_for(launch.q)))
