"""The gradient of attention in `tl`: v1 in two kernels without atomics, v2 in one.

A kernel that owns keys adds up dK and dV over all queries that see them, and one that owns queries
adds up dQ over their keys. v1 launches both, and so computes P and dS twice. v2 launches the first
alone, whose programs add their parts of dQ to a float32 tensor in memory by atomics, in whatever
order they come.

Tiles of scores lie transposed where a program owns keys, [BLOCK_N, BLOCK_M]: so P and dS are left
operands of the products that give dV and dK, and a GPU need not move them to other threads.

Strides come as in kernels/attention/tl.py, and so do EVEN_M, EVEN_N, EVEN_HEADDIM and
HEADS_PER_KEY_HEAD.
"""

import triton
import triton.language as tl

from kernels.device import LOG2E


@triton.jit
def row_sums_kernel(
    d_out_ptr, out_ptr, lse_ptr, d_lse_ptr, lse2_ptr, delta_ptr, nheads, stride_do, stride_o,
    seqlen_q, padded, head_dim,
    HAS_D_LSE: tl.constexpr, BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr,
):
    """Program (i, h, b) computes what each of BLOCK_M queries of a head needs: delta, the sum of
    d_out * out minus d_lse, and the log-sum-exp in base 2.

    lse, d_lse: float32 [batch, nheads, seqlen_q]. lse2, delta: float32 [batch, nheads, padded],
        padded being a multiple of BLOCK_M.
    A query that sees no key, or that lies past the end, gets an lse2 of inf, with which all its
    probabilities are exp2(S - inf) = 0.
    """
    (stride_db, stride_dh, stride_dm), (stride_ob, stride_oh, stride_om) = stride_do, stride_o
    batch, head = tl.program_id(axis=2).to(tl.int64), tl.program_id(axis=1).to(tl.int64)
    rows = tl.program_id(axis=0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    row_mask = rows < seqlen_q
    mask = row_mask[:, None] & (dims < head_dim)[None, :]  # [BLOCK_M, BLOCK_HEADDIM]
    d_out_ptrs = d_out_ptr + batch * stride_db + head * stride_dh + rows[:, None] * stride_dm
    out_ptrs = out_ptr + batch * stride_ob + head * stride_oh + rows[:, None] * stride_om
    d_out = tl.load(d_out_ptrs + dims[None, :], mask=mask, other=0.0).to(tl.float32)
    out = tl.load(out_ptrs + dims[None, :], mask=mask, other=0.0).to(tl.float32)
    delta = tl.sum(d_out * out, axis=1)  # [BLOCK_M]
    pair = batch * nheads + head
    if HAS_D_LSE:
        delta -= tl.load(d_lse_ptr + pair * seqlen_q + rows, mask=row_mask, other=0.0)
    lse = tl.load(lse_ptr + pair * seqlen_q + rows, mask=row_mask, other=-float("inf"))
    lse2 = tl.where(lse == -float("inf"), float("inf"), lse * LOG2E)
    tl.store(lse2_ptr + pair * padded + rows, lse2)
    tl.store(delta_ptr + pair * padded + rows, delta)


@triton.jit(do_not_specialize=["nheads"])
def keys_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse2_ptr, delta_ptr, d_q_ptr, d_k_ptr, d_v_ptr, scale, nheads,
    stride_q, stride_k, stride_v, stride_do, stride_dq, stride_dk, stride_dv,
    lengths, padded, head_dim,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr,
    D_K: tl.constexpr, D_V: tl.constexpr, ADD_D_Q: tl.constexpr,
):
    """Program (j, h, b) computes dK and dV of BLOCK_N keys of key head h of batch b.

    lse2, delta: see row_sums_kernel.
    D_K, D_V: whether to compute dK and dV. Both of 256 dimensions would not fit the registers.
    ADD_D_Q: with D_K, whether to add dQ / scale to d_q, a float32 tensor of q's shape, 0 before.
    """
    (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn) = stride_q, stride_k
    (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om) = stride_v, stride_do
    (stride_dqb, stride_dqh, stride_dqm) = stride_dq
    (stride_dkb, stride_dkh, stride_dkn) = stride_dk
    (stride_dvb, stride_dvh, stride_dvn) = stride_dv
    seqlen_q, seqlen_k = lengths
    # Under a causal mask most queries see the first keys: they begin first.
    first_key = tl.program_id(axis=0) * BLOCK_N
    key_head, batch = tl.program_id(axis=1).to(tl.int64), tl.program_id(axis=2).to(tl.int64)
    rows = tl.arange(0, BLOCK_M)  # [BLOCK_M], from `start` on
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N], from first_key on
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    dim_mask = EVEN_HEADDIM | (dims < head_dim)
    key_mask = EVEN_N | (cols < seqlen_k - first_key)
    tile_mask = key_mask[:, None] & dim_mask[None, :]  # [BLOCK_N, BLOCK_HEADDIM]
    keys = first_key.to(tl.int64) + cols[:, None]
    k_ptrs = k_ptr + batch * stride_kb + key_head * stride_kh + keys * stride_kn + dims[None, :]
    v_ptrs = v_ptr + batch * stride_vb + key_head * stride_vh + keys * stride_vn + dims[None, :]
    k = tl.load(k_ptrs, mask=tile_mask, other=0.0)  # [BLOCK_N, BLOCK_HEADDIM]
    v = tl.load(v_ptrs, mask=tile_mask, other=0.0)  # [BLOCK_N, BLOCK_HEADDIM]

    # Tiles of queries: those from `begin` on see some of these keys, those from `whole` on all.
    begin, whole = 0, 0
    if IS_CAUSAL:  # key n is seen by the queries from n - (seqlen_k - seqlen_q) on
        first_seeing = first_key - (seqlen_k - seqlen_q)
        begin = tl.maximum(first_seeing, 0) // BLOCK_M * BLOCK_M
        whole = tl.cdiv(tl.maximum(first_seeing + BLOCK_N - 1, 0), BLOCK_M) * BLOCK_M
    if not EVEN_N:
        whole = tl.where(first_key + BLOCK_N > seqlen_k, seqlen_q, whole)
    scale_log2 = scale * LOG2E  # exp(scale * t) = exp2(scale_log2 * t)
    d_k = tl.zeros([BLOCK_N, BLOCK_HEADDIM], tl.float32)
    d_v = tl.zeros([BLOCK_N, BLOCK_HEADDIM], tl.float32)
    LOOPS: tl.constexpr = 2 if IS_CAUSAL or not EVEN_N else 1
    for shared in range(HEADS_PER_KEY_HEAD):
        head = key_head * HEADS_PER_KEY_HEAD + shared
        q_start = q_ptr + batch * stride_qb + head * stride_qh + dims[None, :]
        d_out_start = d_out_ptr + batch * stride_ob + head * stride_oh + dims[None, :]
        d_q_start = d_q_ptr + batch * stride_dqb + head * stride_dqh + dims[None, :]
        sums_start = (batch * nheads + head) * padded
        for MASKED in tl.static_range(LOOPS):  # without a mask, and with one
            from_row, to_row = (begin, tl.minimum(whole, seqlen_q)) if MASKED else (whole, seqlen_q)
            for start in range(from_row, to_row, BLOCK_M):
                at = (start + rows).to(tl.int64)  # [BLOCK_M]
                row_mask = EVEN_M | (rows < seqlen_q - start)
                q_mask = row_mask[:, None] & dim_mask[None, :]
                q = tl.load(q_start + at[:, None] * stride_qm, mask=q_mask, other=0.0)
                S = tl.dot(k, q.T)  # [BLOCK_N, BLOCK_M], transposed and not yet scaled
                lse2 = tl.load(lse2_ptr + sums_start + at)  # [BLOCK_M]
                P = tl.exp2(S * scale_log2 - lse2[None, :])
                if MASKED:
                    visible = key_mask[:, None]
                    if IS_CAUSAL:
                        last_key = start + rows + (seqlen_k - seqlen_q)
                        visible = visible & (first_key + cols[:, None] <= last_key[None, :])
                    P = tl.where(visible, P, 0.0)
                d_out = tl.load(d_out_start + at[:, None] * stride_om, mask=q_mask, other=0.0)
                if D_V:
                    d_v = tl.dot(P.to(d_out.dtype), d_out, d_v)
                if D_K:
                    d_P = tl.dot(v, d_out.T)  # [BLOCK_N, BLOCK_M]
                    delta = tl.load(delta_ptr + sums_start + at)  # [BLOCK_M]
                    d_S = (P * (d_P - delta[None, :])).to(q.dtype)
                    d_k = tl.dot(d_S, q, d_k)
                if ADD_D_Q:
                    d_q = tl.dot(d_S.T, k)  # [BLOCK_M, BLOCK_HEADDIM]
                    d_q_ptrs = d_q_start + at[:, None] * stride_dqm
                    tl.atomic_add(d_q_ptrs, d_q, mask=q_mask, sem="relaxed")

    if D_K:
        d_k_ptrs = d_k_ptr + batch * stride_dkb + key_head * stride_dkh + keys * stride_dkn
        d_k = (d_k * scale).to(d_k_ptr.dtype.element_ty)
        tl.store(d_k_ptrs + dims[None, :], d_k, mask=tile_mask)
    if D_V:
        d_v_ptrs = d_v_ptr + batch * stride_dvb + key_head * stride_dvh + keys * stride_dvn
        tl.store(d_v_ptrs + dims[None, :], d_v.to(d_v_ptr.dtype.element_ty), mask=tile_mask)


@triton.jit(do_not_specialize=["nheads"])
def queries_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse2_ptr, delta_ptr, d_q_ptr, scale, nheads,
    stride_q, stride_k, stride_v, stride_do, stride_dq, lengths, padded, head_dim,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_PER_KEY_HEAD: tl.constexpr,
):
    """Program (i, h, b) computes dQ of BLOCK_M queries of head h of batch b."""
    (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn) = stride_q, stride_k
    (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om) = stride_v, stride_do
    (stride_dqb, stride_dqh, stride_dqm) = stride_dq
    seqlen_q, seqlen_k = lengths
    block = tl.program_id(axis=0)
    if IS_CAUSAL:  # the last queries see most keys: they begin first
        block = tl.num_programs(axis=0) - 1 - block
    head, batch = tl.program_id(axis=1).to(tl.int64), tl.program_id(axis=2).to(tl.int64)
    key_head = head // HEADS_PER_KEY_HEAD
    first_row = block * BLOCK_M
    rows = tl.arange(0, BLOCK_M)  # [BLOCK_M], from first_row on
    cols = tl.arange(0, BLOCK_N)  # [BLOCK_N], from `start` on
    dims = tl.arange(0, BLOCK_HEADDIM)  # [BLOCK_HEADDIM]
    dim_mask = EVEN_HEADDIM | (dims < head_dim)
    q_mask = (EVEN_M | (rows < seqlen_q - first_row))[:, None] & dim_mask[None, :]
    at = first_row.to(tl.int64) + rows[:, None]
    q_ptrs = q_ptr + batch * stride_qb + head * stride_qh + at * stride_qm + dims[None, :]
    q = tl.load(q_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]
    d_out_ptrs = d_out_ptr + batch * stride_ob + head * stride_oh + at * stride_om + dims[None, :]
    d_out = tl.load(d_out_ptrs, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_HEADDIM]
    sums_start = (batch * nheads + head) * padded + first_row
    lse2 = tl.load(lse2_ptr + sums_start + rows)  # [BLOCK_M]
    delta = tl.load(delta_ptr + sums_start + rows)  # [BLOCK_M]

    if IS_CAUSAL:  # as in flash_attention_kernel
        first_row_sees = first_row + (seqlen_k - seqlen_q) + 1
        masked = tl.maximum(tl.minimum(first_row_sees, seqlen_k), 0) // BLOCK_N * BLOCK_N
        end = tl.maximum(tl.minimum(first_row_sees + BLOCK_M - 1, seqlen_k), 0)
    else:
        masked = seqlen_k // BLOCK_N * BLOCK_N
        end = masked if EVEN_N else seqlen_k
    scale_log2 = scale * LOG2E
    d_q = tl.zeros([BLOCK_M, BLOCK_HEADDIM], tl.float32)
    k_start = k_ptr + batch * stride_kb + key_head * stride_kh + dims[None, :]
    v_start = v_ptr + batch * stride_vb + key_head * stride_vh + dims[None, :]
    for MASKED in tl.static_range(2):
        from_col, to_col = (masked, end) if MASKED else (0, masked)
        for start in range(from_col, to_col, BLOCK_N):
            col_mask = (not MASKED) | (cols < seqlen_k - start)
            keys = (start + cols[:, None]).to(tl.int64)
            k_mask = col_mask[:, None] & dim_mask[None, :]
            k = tl.load(k_start + keys * stride_kn, mask=k_mask, other=0.0)
            S = tl.dot(q, k.T)  # [BLOCK_M, BLOCK_N], not yet scaled
            P = tl.exp2(S * scale_log2 - lse2[:, None])
            if MASKED:
                visible = col_mask[None, :]
                if IS_CAUSAL:
                    last_key = first_row + rows + (seqlen_k - seqlen_q)
                    visible = visible & (start + cols[None, :] <= last_key[:, None])
                P = tl.where(visible, P, 0.0)
            v = tl.load(v_start + keys * stride_vn, mask=k_mask, other=0.0)
            d_P = tl.dot(d_out, v.T)  # [BLOCK_M, BLOCK_N]
            d_S = (P * (d_P - delta[:, None])).to(k.dtype)
            d_q = tl.dot(d_S, k, d_q)  # [BLOCK_M, BLOCK_HEADDIM]

    d_q_ptrs = d_q_ptr + batch * stride_dqb + head * stride_dqh + at * stride_dqm + dims[None, :]
    tl.store(d_q_ptrs, (d_q * scale).to(d_q_ptr.dtype.element_ty), mask=q_mask)


@triton.jit
def scale_kernel(x_ptr, out_ptr, scale, n, BLOCK: tl.constexpr):
    """Program i scales and rounds BLOCK elements: of dQ, once all parts have been added."""
    at = tl.program_id(axis=0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, (x * scale).to(out_ptr.dtype.element_ty), mask=at < n)
