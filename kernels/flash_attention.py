"""Attention without its M x N matrix: out[m] = sum over n of softmax(scale * q[m] . k[n]) * v[n].

The keys are taken tile by tile, and each query keeps the maximum m and the sum l of its scores so
far, as softmax_v3 does. Where a new maximum comes, what was added up before is made smaller:

    for each tile q of BLOCK_M queries, in parallel:
        m, l, O = -inf, 0, 0
        for each tile k, v of BLOCK_N keys and values:
            S = scale * q @ k.T                             # [BLOCK_M, BLOCK_N]
            m_new = max(m, max of each row of S)
            P = exp(S - m_new)                              # [BLOCK_M, BLOCK_N]
            alpha = exp(m - m_new)
            l = l * alpha + sum of each row of P
            O = O * alpha + P @ v                           # [BLOCK_M, head_dim]
            m = m_new
        out, lse = O / l, m + log(l)

The names are those of the papers (Dao et al., FlashAttention, arXiv 2205.14135; Dao,
FlashAttention-2, arXiv 2307.08691, algorithm 1). Triton's tutorial 06 has others:

    here    what it is                              papers                 tutorial
    S       scores                                  S = scale * Q K^T      qk
    P       their exponentials, below a common m    P~ = exp(S - m)        p
    m       each row's maximum so far               m                      m_i
    l       each row's sum of P so far              l                      l_i
    O       each row's output so far, undivided     O                      acc
    alpha   what makes l and O smaller              exp(m_old - m_new)     alpha
    lse     the log-sum-exp of each row             L = m + log(l)         M, in base 2

From v2 on the scale is folded into exp2: S is q @ k.T alone, and m is in base 2, the maximum of
S * scale * log2(e).

For B x H heads, M queries, N keys and head dimension D of s bytes: 4 * B * H * M * N * D
operations, half under a causal mask. Written down and read back, scores and probabilities alone
would move 4 * B * H * M * N * s bytes. The ladder:

    v1  flash_attention_v1  a program per tile of queries,   reads q once, and k and v M / BLOCK_M
                            all keys past it; divided once,  times, from the L2 cache
                            at the end                       a mask on every tile, exp
    v2  flash_attention_v2  the scale folded into exp2; a    under a causal mask half the tiles are
                            loop of its own for tiles with   left out, and only those on the
                            a mask; the longest programs of  diagonal pay for it
                            a causal head first
    v3  flash_attention_v3  as v2, measured settings         the same operations; larger tiles read
                                                             k and v less often
    v4  flash_attention_v4  as v3, k and v by tensor         the same; no thread computes addresses
                            descriptors
    v5  flash_attention_v5  as v4, loads and both halves     the same; one half's dots run under the
                            of a tile's rows on warps of     other's exp2
                            their own
        flash_attention_tl  v5 or v4 where the GPU, the lengths and the strides allow it, else v3
        flash_attention     on compute capability 9.0 the kernels of flash_attention_hopper.py, in
                            Gluon, where they take the inputs; flash_attention_tl elsewhere

S, m, l and O are float32; only P is rounded to the dtype of v, for the dot.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.device import LN2, LOG2E, gpu_of
from kernels.flash_attention_hopper_launch import plan_of
from kernels.flash_attention_launch import Launch, describable, prepare
from kernels.flash_attention_settings import (
    DESCRIPTOR_SETTINGS,
    PLAIN,
    SPECIALIZED_SETTINGS,
    Settings,
    settings_on,
    triton_version,
    up_to,
)
from kernels.flash_attention_specialized import (
    flash_attention_kernel_v5,
    run_specialized,
    specializable,
)
from kernels.softmax import finite

WITH_DESCRIPTORS = (9, 10)
"""Major compute capabilities with tensor descriptors and the shared memory that v4 takes."""
WITH_SPECIALIZATION = 9
"""The major compute capability that v5 was written for."""
SPECIALIZING_TRITON = (3, 7)
"""The first Triton that compiles v5 at every head dimension."""

Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
"""The output, or (output, log-sum-exp)."""


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
    # In 64 bits, since an index times a stride may pass 2**31.
    batch, head = tl.program_id(axis=2).to(tl.int64), tl.program_id(axis=1).to(tl.int64)
    key_head = head // heads_per_key_head
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    q_mask = (rows < seqlen_q)[:, None] & (dims < head_dim)[None, :]
    q_ptrs = (
        q_ptr + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qm + dims[None, :]
    )
    q = tl.load(q_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]
    k_start = k_ptr + batch * stride_kb + key_head * stride_kh
    v_start = v_ptr + batch * stride_vb + key_head * stride_vh

    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    O = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    for start in range(0, seqlen_k, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)  # [BLOCK_N]
        k_mask = (cols < seqlen_k)[:, None] & (dims < head_dim)[None, :]
        # [BLOCK_N, BLOCK_HEADDIM]
        k = tl.load(k_start + cols[:, None] * stride_kn + dims[None, :], mask=k_mask, other=0.0)
        S = tl.dot(q, tl.trans(k)) * scale  # [BLOCK_M, BLOCK_N]
        # Keys past the end were read as 0, which would count as a score; -inf counts for nothing.
        visible = (cols < seqlen_k)[None, :]
        if IS_CAUSAL:  # the last query sees the last key
            visible = visible & (cols[None, :] <= rows[:, None] + seqlen_k - seqlen_q)
        S = tl.where(visible, S, -float("inf"))
        m_new = tl.maximum(m, tl.max(S, axis=1))  # [BLOCK_M]
        P = tl.exp(S - finite(m_new)[:, None])  # [BLOCK_M, BLOCK_N]
        alpha = tl.exp(m - finite(m_new))  # [BLOCK_M]
        l = l * alpha + tl.sum(P, axis=1)
        # [BLOCK_N, BLOCK_HEADDIM]
        v = tl.load(v_start + cols[:, None] * stride_vn + dims[None, :], mask=k_mask, other=0.0)
        O = tl.dot(P.to(v.dtype), v, O * alpha[:, None])  # [BLOCK_M, BLOCK_HEADDIM]
        m = m_new

    l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    lse_ptrs = lse_ptr + (batch * nheads + head) * seqlen_q + rows
    tl.store(lse_ptrs, m + tl.log(l), mask=rows < seqlen_q)
    out_ptrs = (
        out_ptr + batch * stride_ob + head * stride_oh + rows[:, None] * stride_om + dims[None, :]
    )
    tl.store(out_ptrs, (O / l[:, None]).to(out_ptr.dtype.element_ty), mask=q_mask)


@triton.jit
def attend(
    q, O, m, l, K, V, batch, key_head,
    stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    first_row, first_col, end_col, seqlen_q, seqlen_k, head_dim, scale_log2,
    EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr, DESCRIPTORS: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Take the keys from first_col up to end_col into O, m and l, and return these three.

    K, V: pointers or, with DESCRIPTORS, tensor descriptors.
    MASKED: some of these keys are past the end, or hidden from some rows by the causal mask.
        Otherwise every row sees every one of them, and nothing is compared.
    """
    rows = first_row + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N], from `start` on
    if not DESCRIPTORS:
        dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
        dim_mask = EVEN_HEADDIM | (dims < head_dim)
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
        col_mask = cols < seqlen_k - start
        if DESCRIPTORS:  # what lies outside the tensor reads as 0
            k = K.load([batch.to(tl.int32), key_head.to(tl.int32), start, 0]).reshape(
                [BLOCK_N, BLOCK_HEADDIM]
            ).T
        elif MASKED:
            k = tl.load(k_ptrs, mask=dim_mask[:, None] & col_mask[None, :], other=0.0)
        else:
            k = tl.load(k_ptrs, mask=dim_mask[:, None], other=0.0)
        S = tl.dot(q, k)  # [BLOCK_M, BLOCK_N], not yet scaled
        if MASKED:
            visible = col_mask[None, :]
            if IS_CAUSAL:
                visible = visible & (start + cols[None, :] <= rows[:, None] + (seqlen_k - seqlen_q))
            S = tl.where(visible, S, -float("inf"))
        m_new = tl.maximum(m, tl.max(S, axis=1) * scale_log2)  # [BLOCK_M]
        base = finite(m_new) if MASKED else m_new  # only a mask makes a row of -inf
        P = tl.exp2(S * scale_log2 - base[:, None])  # [BLOCK_M, BLOCK_N]: a multiply-add, an exp2
        alpha = tl.exp2(m - base)  # [BLOCK_M]
        l = l * alpha + tl.sum(P, axis=1)
        O = O * alpha[:, None]
        if DESCRIPTORS:
            v = V.load([batch.to(tl.int32), key_head.to(tl.int32), start, 0]).reshape(
                [BLOCK_N, BLOCK_HEADDIM]
            )
        elif MASKED:
            v = tl.load(v_ptrs, mask=col_mask[:, None] & dim_mask[None, :], other=0.0)
        else:
            v = tl.load(v_ptrs, mask=dim_mask[None, :], other=0.0)
        O = tl.dot(P.to(v.dtype), v, O)  # [BLOCK_M, BLOCK_HEADDIM]
        m = m_new
        if not DESCRIPTORS:
            k_ptrs += BLOCK_N * tl.cast(stride_kn, tl.int64)
            v_ptrs += BLOCK_N * tl.cast(stride_vn, tl.int64)
    return O, m, l


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

    q, k, v, out: [batch, heads, length, head_dim], with a last stride of 1 and three more each:
        from batch to batch, from head to head, from row to row.
    lse: float32, the natural logarithm of the sum of exp(scores): a row of seqlen_q for each head,
        stride_lse apart.
    EVEN_M, EVEN_N, EVEN_HEADDIM: whether seqlen_q is a multiple of BLOCK_M, seqlen_k of BLOCK_N,
        and head_dim is BLOCK_HEADDIM. As constants they leave masks out of the code. A caller in C
        may give them at run time instead.
    HEADS_PER_KEY_HEAD: how many heads of q in a row share a head of k and v.
    DESCRIPTORS: K and V are tensor descriptors of [1, 1, BLOCK_N, BLOCK_HEADDIM], whose strides
        are not used. Otherwise they are pointers.
    """
    block = tl.program_id(axis=0)
    if IS_CAUSAL:  # the last queries see most keys: they begin first, short programs fill the end
        block = tl.num_programs(axis=0) - 1 - block
    pair = tl.program_id(axis=2) * tl.num_programs(axis=1) + tl.program_id(axis=1)
    batch, head = (pair // nheads).to(tl.int64), (pair % nheads).to(tl.int64)
    key_head = head // HEADS_PER_KEY_HEAD
    first_row = block * BLOCK_M
    rows = tl.arange(0, BLOCK_M)  # [BLOCK_M], from first_row on
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    row_mask = EVEN_M | (rows < seqlen_q - first_row)
    # [BLOCK_M, BLOCK_HEADDIM]
    q_mask = row_mask[:, None] & (EVEN_HEADDIM | (dims < head_dim))[None, :]
    q_start = q_ptr + batch * stride_qb + head * stride_qh + first_row.to(tl.int64) * stride_qm
    q_ptrs = q_start + rows[:, None].to(tl.int64) * stride_qm + dims[None, :]
    q = tl.load(q_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]

    # Every row of this tile sees all keys before `masked`, a multiple of BLOCK_N. From there up to
    # `end` some keys are hidden from some rows.
    if IS_CAUSAL:  # row i sees keys up to i + seqlen_k - seqlen_q: the last row sees all
        first_row_sees = first_row + (seqlen_k - seqlen_q) + 1
        masked = tl.maximum(tl.minimum(first_row_sees, seqlen_k), 0) // BLOCK_N * BLOCK_N
        end = tl.maximum(tl.minimum(first_row_sees + BLOCK_M - 1, seqlen_k), 0)
    else:
        masked = seqlen_k // BLOCK_N * BLOCK_N
        end = seqlen_k
    scale_log2 = scale * LOG2E  # exp(scale * t) = exp2(scale_log2 * t)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)  # of S * scale_log2
    l = tl.zeros([BLOCK_M], tl.float32)
    O = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    O, m, l = attend(
        q, O, m, l, K, V, batch, key_head,
        stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
        first_row, 0, masked, seqlen_q, seqlen_k, head_dim, scale_log2,
        EVEN_HEADDIM, IS_CAUSAL, DESCRIPTORS, BLOCK_HEADDIM, BLOCK_M, BLOCK_N, MASKED=False,
    )
    if IS_CAUSAL or not EVEN_N:
        O, m, l = attend(
            q, O, m, l, K, V, batch, key_head,
            stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
            first_row, masked, end, seqlen_q, seqlen_k, head_dim, scale_log2,
            EVEN_HEADDIM, IS_CAUSAL, DESCRIPTORS, BLOCK_HEADDIM, BLOCK_M, BLOCK_N, MASKED=True,
        )

    l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    lse_ptrs = lse_ptr + pair.to(tl.int64) * stride_lse + first_row + rows
    tl.store(lse_ptrs, m * LN2 + tl.log(l), mask=row_mask)
    out = (O * (1.0 / l)[:, None]).to(out_ptr.dtype.element_ty)  # one division per row
    out_start = out_ptr + batch * stride_ob + head * stride_oh + first_row.to(tl.int64) * stride_om
    out_ptrs = out_start + rows[:, None].to(tl.int64) * stride_om + dims[None, :]
    tl.store(out_ptrs, out, mask=q_mask)


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


# The versions take the arguments of `flash_attention`, below, and return what it returns.


def flash_attention_v1(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v1 of the ladder: the online normaliser, and a mask on every tile."""
    launch = prepare(flash_attention_kernel_v1, q, k, v, causal, scale, layout)
    if launch.queries:
        batch, heads, length, head_dim = launch.q.shape
        with torch.cuda.device_of(q):
            flash_attention_kernel_v1[(triton.cdiv(length, PLAIN.block_m), heads, batch)](
                launch.q, launch.k, launch.v, launch.out, launch.lse, launch.scale,
                heads, heads // launch.k.shape[1], *launch.strides,
                length, launch.k.shape[2], head_dim,
                IS_CAUSAL=launch.causal, BLOCK_HEADDIM=launch.block_headdim,
                BLOCK_M=PLAIN.block_m, BLOCK_N=PLAIN.block_n,
                num_warps=PLAIN.num_warps, num_stages=PLAIN.num_stages,
            )
    return (launch.out, launch.lse) if return_lse else launch.out


def flash_attention_v2(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v2 of the ladder: exp2 with the scale folded in, and tiles with a mask in their own loop."""
    launch = prepare(flash_attention_kernel, q, k, v, causal, scale, layout)
    if launch.queries:
        _run(launch, PLAIN)
    return (launch.out, launch.lse) if return_lse else launch.out


def flash_attention_v3(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v3 of the ladder: the measured settings. It runs on every GPU and takes all strides."""
    launch = prepare(flash_attention_kernel, q, k, v, causal, scale, layout)
    if launch.queries:
        _run(launch, settings_on(launch.q))
    return (launch.out, launch.lse) if return_lse else launch.out


def flash_attention_v4(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v4 of the ladder: k and v by tensor descriptors, which capability 9.0 reads in hardware.

    Raises ValueError where k or v is empty, or does not begin at a multiple of 16 bytes in every
    batch, head and row.
    """
    launch = prepare(flash_attention_kernel, q, k, v, causal, scale, layout)
    if launch.queries:
        if not describable(launch):
            raise ValueError(
                "flash_attention: a tensor descriptor takes k and v whose rows begin at multiples "
                "of 16 bytes alone."
            )
        _run(launch, up_to(DESCRIPTOR_SETTINGS, launch.block_headdim), descriptors=True)
    return (launch.out, launch.lse) if return_lse else launch.out


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
        run_specialized(launch, SPECIALIZED_SETTINGS[launch.q.shape[3]])
    return (launch.out, launch.lse) if return_lse else launch.out


def flash_attention_tl(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """The fastest of v3, v4 and v5 that takes these inputs: what Triton's `tl` gives."""
    launch = prepare(flash_attention_kernel, q, k, v, causal, scale, layout)
    if launch.queries:
        major, _ = gpu_of(launch.q).capability
        if (
            major == WITH_SPECIALIZATION
            and triton_version() >= SPECIALIZING_TRITON
            and specializable(launch)
        ):
            run_specialized(launch, SPECIALIZED_SETTINGS[launch.q.shape[3]])
        elif major in WITH_DESCRIPTORS and describable(launch):
            _run(launch, up_to(DESCRIPTOR_SETTINGS, launch.block_headdim), descriptors=True)
        else:
            _run(launch, settings_on(launch.q))
    return (launch.out, launch.lse) if return_lse else launch.out


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """Attention of q to k and v, all float16 or bfloat16, in any strides with a last one of 1.

    q: [batch, heads, M, head_dim]; k, v: [batch, key heads, N, head_dim], where key heads divides
        heads: so many heads of q in a row share one. With layout="bmhd", heads and length change
        places. head_dim is 16 to 256.
    causal: query m sees the keys n <= m + N - M: the last query sees all (torch's
        causal_lower_right). A query that sees no key gets 0, and a log-sum-exp of -inf.
    scale: of the scores, positive; head_dim ** -0.5 where it is None.
    return_lse: return (out, lse), lse being the natural logarithm of the sum of exp(scores):
        float32 [batch, heads, M].

    Forward only. Nothing is launched where there is no query. Raises TypeError for a non-tensor;
    ValueError for shapes, dtypes, devices and strides that do not fit, and for CPU tensors where
    the kernel is compiled for a GPU.
    """
    plan = plan_of(q, k, v, causal, scale, layout)
    if plan is None:
        return flash_attention_tl(q, k, v, causal, scale, return_lse, layout)
    out, lse = plan(q, k, v)
    return (out, lse) if return_lse else out
