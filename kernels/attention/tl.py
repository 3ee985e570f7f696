"""v1 to v3 of attention: two whole kernels, each of which can be read from top to bottom.

v1 is the pseudo-code of kernels/attention/__init__.py. In v2 the scale is folded into exp2, and
only the tiles that a mask cuts are masked. v3 is v2's kernel with settings that were measured.

Strides come as a tuple per tensor: from batch to batch, from head to head, from row to row. An
index is widened to 64 bits before it meets one of them, since their product may pass 2**31.
"""

import torch
import triton
import triton.language as tl

from kernels.attention.inputs import Launch, Result, prepare
from kernels.attention.settings import PLAIN, Settings, settings_on
from kernels.device import LN2, LOG2E, finite


@triton.jit
def flash_attention_kernel_v1(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads, heads_per_key_head,
    stride_q, stride_k, stride_v, stride_out, lengths, head_dim,
    IS_CAUSAL: tl.constexpr, BLOCK_HEADDIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Program (i, h, b) computes BLOCK_M queries of head h of batch b, from i * BLOCK_M on, and
    reads all keys of that head.

    It is there to be read: nheads, which the grid knows as well, is given by name.
    """
    (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn) = stride_q, stride_k
    (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om) = stride_v, stride_out
    seqlen_q, seqlen_k = lengths
    batch, head = tl.program_id(axis=2).to(tl.int64), tl.program_id(axis=1).to(tl.int64)
    key_head = head // heads_per_key_head
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    q_mask = (rows < seqlen_q)[:, None] & (dims < head_dim)[None, :]
    q_start = q_ptr + batch * stride_qb + head * stride_qh
    q_ptrs = q_start + rows[:, None] * stride_qm + dims[None, :]
    q = tl.load(q_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]
    k_start = k_ptr + batch * stride_kb + key_head * stride_kh
    v_start = v_ptr + batch * stride_vb + key_head * stride_vh

    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    O = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    for start in range(0, seqlen_k, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)  # [BLOCK_N]
        k_mask = (cols < seqlen_k)[:, None] & (dims < head_dim)[None, :]
        k_ptrs = k_start + cols[:, None] * stride_kn + dims[None, :]
        k = tl.load(k_ptrs, mask=k_mask, other=0.0)  # [BLOCK_N, BLOCK_HEADDIM]
        S = tl.dot(q, tl.trans(k)) * scale  # [BLOCK_M, BLOCK_N]
        # Keys past the end are read as 0, and 0 is a score like any other; -inf has no weight.
        visible = (cols < seqlen_k)[None, :]
        if IS_CAUSAL:  # the last query sees the last key
            visible = visible & (cols[None, :] <= rows[:, None] + seqlen_k - seqlen_q)
        S = tl.where(visible, S, -float("inf"))
        m_new = tl.maximum(m, tl.max(S, axis=1))  # [BLOCK_M]
        P = tl.exp(S - finite(m_new)[:, None])  # [BLOCK_M, BLOCK_N]
        alpha = tl.exp(m - finite(m_new))  # [BLOCK_M]
        l = l * alpha + tl.sum(P, axis=1)
        v_ptrs = v_start + cols[:, None] * stride_vn + dims[None, :]
        v = tl.load(v_ptrs, mask=k_mask, other=0.0)  # [BLOCK_N, BLOCK_HEADDIM]
        O = tl.dot(P.to(v.dtype), v, O * alpha[:, None])  # [BLOCK_M, BLOCK_HEADDIM]
        m = m_new

    l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    lse_ptrs = lse_ptr + (batch * nheads + head) * seqlen_q + rows
    tl.store(lse_ptrs, m + tl.log(l), mask=rows < seqlen_q)
    out_start = out_ptr + batch * stride_ob + head * stride_oh
    out_ptrs = out_start + rows[:, None] * stride_om + dims[None, :]
    tl.store(out_ptrs, (O / l[:, None]).to(out_ptr.dtype.element_ty), mask=q_mask)


@triton.jit(do_not_specialize=["nheads"])
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, nheads,
    stride_q, stride_k, stride_v, stride_out, lengths, stride_lse, head_dim,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr,
):
    """v2 and v3: a program owns BLOCK_M queries of one head.

    Grid: (ceil(seqlen_q / BLOCK_M), nheads, batch), or the same programs as (…, batch * nheads, 1).

    q, k, v, out: [batch, heads, length, head_dim], with a last stride of 1.
    lse: float32, the natural logarithm of the sum of exp(scores): a row of seqlen_q for each head,
        stride_lse apart.
    EVEN_M, EVEN_N, EVEN_HEADDIM: whether seqlen_q is a multiple of BLOCK_M, seqlen_k of BLOCK_N,
        and head_dim is BLOCK_HEADDIM. As constants they leave masks out of the code. A caller in C
        may give them at run time instead, see export.py.
    HEADS_PER_KEY_HEAD: how many heads of q in a row share a head of k and v.
    """
    (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn) = stride_q, stride_k
    (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om) = stride_v, stride_out
    seqlen_q, seqlen_k = lengths
    block = tl.program_id(axis=0)
    if IS_CAUSAL:  # the last queries see most keys: they begin first, short programs fill the end
        block = tl.num_programs(axis=0) - 1 - block
    pair = tl.program_id(axis=2) * tl.num_programs(axis=1) + tl.program_id(axis=1)
    batch, head = (pair // nheads).to(tl.int64), (pair % nheads).to(tl.int64)
    key_head = head // HEADS_PER_KEY_HEAD
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

    # Every row of this tile sees all keys before `masked`, a multiple of BLOCK_N. From there up to
    # `end` some keys are hidden from some rows.
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
        # Made anew for the second pass, which begins where the first one ends: carried on, they
        # would keep two blocks of 64-bit addresses alive in between.
        k_start = k_ptr + batch * stride_kb + key_head * stride_kh
        k_ptrs = k_start + (first_col + cols[None, :]).to(tl.int64) * stride_kn
        v_start = v_ptr + batch * stride_vb + key_head * stride_vh
        v_ptrs = v_start + (first_col + cols[:, None]).to(tl.int64) * stride_vn
        k_ptrs += dims[:, None]  # [BLOCK_HEADDIM, BLOCK_N]: transposed as it is read
        v_ptrs += dims[None, :]  # [BLOCK_N, BLOCK_HEADDIM]
        for start in range(first_col, end_col, BLOCK_N):
            col_mask = (not MASKED) | (cols < seqlen_k - start)
            k = tl.load(k_ptrs, mask=dim_mask[:, None] & col_mask[None, :], other=0.0)
            S = tl.dot(q, k)  # [BLOCK_M, BLOCK_N], not yet scaled
            if MASKED:
                visible = col_mask[None, :]
                if IS_CAUSAL:
                    last_col = (first_row + rows)[:, None] + (seqlen_k - seqlen_q)
                    visible = visible & (start + cols[None, :] <= last_col)
                S = tl.where(visible, S, -float("inf"))
            m_new = tl.maximum(m, tl.max(S, axis=1) * scale_log2)  # [BLOCK_M]
            base = finite(m_new) if MASKED else m_new  # only a mask makes a row of -inf
            P = tl.exp2(S * scale_log2 - base[:, None])  # a multiply-add, an exp2
            alpha = tl.exp2(m - base)  # [BLOCK_M]
            l = l * alpha + tl.sum(P, axis=1)
            O = O * alpha[:, None]
            v = tl.load(v_ptrs, mask=col_mask[:, None] & dim_mask[None, :], other=0.0)
            O = tl.dot(P.to(v.dtype), v, O)  # [BLOCK_M, BLOCK_HEADDIM]
            m = m_new
            k_ptrs += tl.cast(BLOCK_N, tl.int64) * stride_kn
            v_ptrs += tl.cast(BLOCK_N, tl.int64) * stride_vn

    l = tl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    lse_ptrs = lse_ptr + pair.to(tl.int64) * stride_lse + first_row + rows
    tl.store(lse_ptrs, m * LN2 + tl.log(l), mask=row_mask)
    out = (O * (1.0 / l)[:, None]).to(out_ptr.dtype.element_ty)  # one division per row
    out_start = out_ptr + batch * stride_ob + head * stride_oh + first_row.to(tl.int64) * stride_om
    out_ptrs = out_start + rows[:, None].to(tl.int64) * stride_om + dims[None, :]
    tl.store(out_ptrs, out, mask=q_mask)


def launch_plain(launch: Launch, settings: Settings) -> None:
    """Launch `flash_attention_kernel`."""
    _, heads, seqlen_q, head_dim = launch.q.shape
    with torch.cuda.device_of(launch.q):
        flash_attention_kernel[launch.grid(settings)](
            launch.q, launch.k, launch.v, launch.out, launch.lse, launch.scale, heads,
            *launch.strides, launch.lengths, seqlen_q, head_dim, **launch.constants(settings),
        )


# The versions take the arguments of `flash_attention`, and return what it returns.


def flash_attention_v1(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v1 of the ladder: the online normalizer, and a mask on every tile."""
    launch = prepare(flash_attention_kernel_v1, q, k, v, causal, scale, layout)
    if launch.queries:
        _, heads, _, head_dim = launch.q.shape
        with torch.cuda.device_of(q):
            flash_attention_kernel_v1[launch.grid(PLAIN)](
                launch.q, launch.k, launch.v, launch.out, launch.lse, launch.scale,
                heads, launch.heads_per_key_head, *launch.strides, launch.lengths, head_dim,
                IS_CAUSAL=launch.causal, BLOCK_HEADDIM=launch.block_headdim,
                BLOCK_M=PLAIN.block_m, BLOCK_N=PLAIN.block_n,
                num_warps=PLAIN.num_warps, num_stages=PLAIN.num_stages,
            )
    return launch.result(return_lse)


def flash_attention_v2(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v2 of the ladder: exp2 with the scale folded in, and tiles with a mask in their own loop."""
    launch = prepare(flash_attention_kernel, q, k, v, causal, scale, layout)
    if launch.queries:
        launch_plain(launch, PLAIN)
    return launch.result(return_lse)


def flash_attention_v3(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """v3 of the ladder: the measured settings, of which some fit every GPU with 64 KiB of shared
    memory."""
    launch = prepare(flash_attention_kernel, q, k, v, causal, scale, layout)
    if launch.queries:
        launch_plain(launch, settings_on(launch.q))
    return launch.result(return_lse)
