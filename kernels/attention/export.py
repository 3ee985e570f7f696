"""Attention for callers in C: the kernel that `course aot` exports."""

import triton
import triton.language as tl

from kernels.attention.tl import flash_attention_kernel


@triton.jit(do_not_specialize=["batch", "nheads"])
def _fwd_kernel(
    Q, K, V, Out, Lse, TMP, softmax_scale, batch, nheads,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn, stride_ob, stride_oh, stride_om,
    seqlen_q, seqlen_k, seqlen_q_rounded, head_dim,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_HEADDIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """flash_attention_kernel with keys of its own for every head of Q: its callers have a prototype
    without grouped heads.

    An export has the facts that its signature states; do_not_specialize is for calls from Python.

    The order is that of this signature in every export: scale, counts, strides, lengths, constants.
    Callers that pass the strides first and the batch last must change.

    Lse: [batch, nheads, seqlen_q_rounded].
    TMP: not used, and may be null: an early compiler needed such a buffer, and callers still pass
        one. Nor is `batch` used, which the grid implies.
    """
    flash_attention_kernel(
        Q, K, V, Out, Lse, softmax_scale, nheads,
        (stride_qb, stride_qh, stride_qm), (stride_kb, stride_kh, stride_kn),
        (stride_vb, stride_vh, stride_vn), (stride_ob, stride_oh, stride_om),
        (seqlen_q, seqlen_k), seqlen_q_rounded, head_dim,
        EVEN_M, EVEN_N, EVEN_HEADDIM, IS_CAUSAL, BLOCK_HEADDIM, BLOCK_M, BLOCK_N, 1,
    )
