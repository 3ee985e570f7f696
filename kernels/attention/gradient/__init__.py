"""The gradient of attention, again without its M x N matrix.

With S = scale * q @ k.T, P = softmax(S) and out = P @ v, the gradients are

    dV = P.T @ d_out
    dP = d_out @ v.T
    dS = P * (dP - delta),  delta[m] = sum over n of P[m, n] * dP[m, n] = d_out[m] . out[m]
    dQ = scale * dS @ k
    dK = scale * dS.T @ q

The log-sum-exp that the forward pass returns gives P back, tile by tile: P = exp(S - lse). And
delta, in which a row of the softmax meets all its keys, needs none of them: it is a sum over
head_dim. A gradient d_lse of the log-sum-exp itself adds P * d_lse to dS, so it is subtracted from
delta. All of this is algorithm 2 of FlashAttention-2 (Dao, arXiv 2307.08691), with its names.

    delta, lse2 = sum of each row of d_out * out, lse * log2(e)
    for each tile k, v of BLOCK_N keys and values, in parallel:
        dK, dV = 0, 0
        for each tile q, d_out of BLOCK_M queries that sees any of them:
            S = q @ k.T                                     # [BLOCK_M, BLOCK_N]
            P = exp2(S * scale * log2(e) - lse2)
            dV += P.T @ d_out                               # [BLOCK_N, head_dim]
            dS = P * (d_out @ v.T - delta)                  # [BLOCK_M, BLOCK_N]
            dK += dS.T @ q                                  # [BLOCK_N, head_dim]
            dQ of the tile += dS @ k                        # [BLOCK_M, head_dim]
        dK, dV = scale * dK, dV

dQ is what all programs add to. For B x H heads, M queries, N keys and head dimension D a product
takes 2 * B * H * M * N * D operations, half under a causal mask. The ladder:

    v1  flash_attention_backward_v1  dQ by a kernel of its own,     7 products, or 8 with more than
                                     with a loop over the keys      128 dimensions; the same bits
                                                                    each time; 8 * B * H * M bytes
    v2  flash_attention_backward_v2  dQ by atomic additions in      5 products; as v1, and
                                     memory, rounded afterwards     4 * B * H * M * D bytes
        flash_attention_backward     on compute capability 9.0 the kernels in Gluon, which add to dQ
                                     as v2 does, where they take the inputs; elsewhere v1

The bytes are memory beyond the gradients, freed at the end. Until then the forward pass keeps q, k,
v, out and lse; lse, 4 * B * H * M bytes, is all that a call without a gradient would not return.

In `tl` the products of one tile wait for each other, and v2's dQ for the additions as well. v1's
loops are short, so it is v1 that is launched where no kernel in Gluon is. Those say themselves what
waits for what.

Heads that share keys: the program of a tile of keys goes through the queries of all of them, so dK
and dV are sums in registers. dK, dV and dQ are added up in float32. P and dS are rounded to the
dtype of the inputs, for the products, and delta is computed from an out that was rounded. So where
large terms cancel, a small gradient is off by a rounding of its terms, and not of itself.

The files: here the launches; inputs.py checks, allocates and computes delta; tl.py has the kernels
of v1 and v2, and settings.py their tiles; gluon/ has the kernels for compute capability 9.0,
kernel.py for 64 and 128 dimensions and wide.py for 256; operator.py is what autograd calls.
"""

from collections.abc import Callable

import torch
import triton

from kernels.attention.gradient.inputs import Backward, Gradients, prepare_backward
from kernels.attention.gradient.settings import (
    D_K,
    D_V,
    KEYS,
    KEYS_UNMASKED,
    MOST_TOGETHER,
    QUERIES,
    settings_in,
)
from kernels.attention.gradient.tl import keys_kernel, queries_kernel, scale_kernel
from kernels.attention.inputs import as_bhmd
from kernels.attention.settings import Settings

try:
    from kernels.attention.gradient.gluon import plan as hopper
except ImportError:  # a Triton whose Gluon lacks names
    hopper = None  # type: ignore[assignment]

__all__ = [
    "flash_attention_backward",
    "flash_attention_backward_v1",
    "flash_attention_backward_v2",
]


def flash_attention_backward(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, d_lse: torch.Tensor | None = None, causal: bool = False,
    scale: float | None = None, layout: str = "bhmd", deterministic: bool = False,
) -> Gradients:
    """The gradients dQ, dK and dV, each of the shape and dtype of what it belongs to.

    d_out: the upstream gradient of out, of q's shape and dtype; copied where its last stride is
        not 1, as that of a sum.
    q, k, v, causal, scale, layout: as `flash_attention` was given them. out, lse: as it returned
        them.
    d_lse: the upstream gradient of lse, float32 [batch, heads, M]; 0 where it is None.
    deterministic: the same bits each time, by v1: 7 products or 8 in place of 5. The kernels in
        Gluon add to dQ in the order in which programs come. Elsewhere it changes nothing.

    Raises TypeError for a non-tensor; ValueError where shapes, dtypes, devices or strides do not
    fit.
    """
    launch = prepare_backward(d_out, q, k, v, out, lse, d_lse, causal, scale, layout)
    if hopper is None or deterministic or not hopper.servable(launch):
        return _in_two_kernels(launch)
    return by_adding_d_q(launch, hopper.launch_gradient)


def flash_attention_backward_v1(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, d_lse: torch.Tensor | None = None, causal: bool = False,
    scale: float | None = None, layout: str = "bhmd",
) -> Gradients:
    """v1 of the gradient's ladder: dK and dV by keys, then dQ by queries. The same bits each time.
    """
    return _in_two_kernels(
        prepare_backward(d_out, q, k, v, out, lse, d_lse, causal, scale, layout)
    )


def flash_attention_backward_v2(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, d_lse: torch.Tensor | None = None, causal: bool = False,
    scale: float | None = None, layout: str = "bhmd",
) -> Gradients:
    """v2 of the gradient's ladder: one kernel for all three, with atomic additions to dQ."""
    launch = prepare_backward(d_out, q, k, v, out, lse, d_lse, causal, scale, layout)
    return by_adding_d_q(launch, _launch_together)


def _in_two_kernels(launch: Backward) -> Gradients:
    if launch.forward.q.shape[3] <= MOST_TOGETHER:
        table = KEYS if launch.forward.causal else KEYS_UNMASKED
        _launch_keys(launch, settings_in(table, launch.forward.q))
    else:
        _launch_keys(launch, settings_in(D_K, launch.forward.q), d_v=False)
        _launch_keys(launch, settings_in(D_V, launch.forward.q), d_k=False)
    forward = launch.forward
    if forward.queries:
        _, heads, _, head_dim = forward.q.shape
        settings = settings_in(QUERIES, forward.q)
        d_q = as_bhmd(forward.out, forward.layout)
        tensors = (forward.q, forward.k, forward.v, launch.d_out, d_q)
        with torch.cuda.device_of(d_q):
            queries_kernel[forward.grid(settings)](
                forward.q, forward.k, forward.v, launch.d_out, launch.lse2, launch.delta, d_q,
                forward.scale, heads, *(x.stride()[:3] for x in tensors), forward.lengths,
                launch.lse2.shape[2], head_dim, **forward.constants(settings),
            )
    return launch.gradients


def by_adding_d_q(
    launch: Backward, launch_kernel: Callable[[Backward, torch.Tensor], None]
) -> Gradients:
    """The gradients by a kernel that adds to dQ.

    launch_kernel: computes dK and dV, and adds dQ / scale to a tensor of float32.
    """
    d_q, *_ = launch.gradients
    sums = torch.zeros(d_q.shape, dtype=torch.float32, device=d_q.device)
    launch_kernel(launch, sums)
    if n := sums.numel():
        with torch.cuda.device_of(d_q):
            scale_kernel[(triton.cdiv(n, 4096),)](
                sums, d_q, launch.forward.scale, n, BLOCK=4096, num_warps=8
            )
    return launch.gradients


def _launch_together(launch: Backward, sums: torch.Tensor) -> None:
    """Launch keys_kernel for dK and dV, and dQ / scale added to sums."""
    _launch_keys(launch, settings_in(KEYS, launch.forward.q), sums)


def _launch_keys(
    launch: Backward, settings: Settings, sums: torch.Tensor | None = None,
    d_k: bool = True, d_v: bool = True,
) -> None:
    """Launch keys_kernel for dK, dV or both. sums: the tensor that dQ / scale is added to."""
    forward = launch.forward
    if not launch.d_k.numel():
        return
    batch, key_heads, seqlen_k, head_dim = forward.k.shape
    d_q = forward.out if sums is None else sums
    outputs = [as_bhmd(x, forward.layout) for x in (d_q, launch.d_k, launch.d_v)]
    tensors = (forward.q, forward.k, forward.v, launch.d_out, *outputs)
    grid = (triton.cdiv(seqlen_k, settings.block_n), key_heads, batch)
    with torch.cuda.device_of(launch.d_k):
        keys_kernel[grid](
            forward.q, forward.k, forward.v, launch.d_out, launch.lse2, launch.delta, *outputs,
            forward.scale, forward.q.shape[1], *(x.stride()[:3] for x in tensors),
            forward.lengths, launch.lse2.shape[2], head_dim,
            D_K=d_k, D_V=d_v, ADD_D_Q=sums is not None, **forward.constants(settings),
        )
