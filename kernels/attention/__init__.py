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

A call goes this way, and each file can be read by itself:

    flash_attention(q, k, v)                         __init__.py
        attention_operator, if a gradient is wanted  __init__.py; its gradient: gradient/
        flash_attention_forward                      __init__.py
            plan_of: the launch for such inputs      gluon/plan.py
                prepare: checks, outputs             inputs.py
                hopper_settings                      gluon/settings.py
                attention_kernel or small_kernel     gluon/kernel.py, gluon/small.py,
                                                     of gluon/{ring,schedule,consumer}.py
            elsewhere flash_attention_tl             __init__.py
                prepare, settings                    inputs.py, settings.py
                v5 or v4, with tensor descriptors    tl_hopper.py
                v3, on other GPUs                    tl.py, with v1 and v2
    _fwd_kernel, for callers in C                    export.py

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
    v5  flash_attention_v5  as v4, loads and both halves     the same; one half's dots may run under
                            of a tile's rows on warps of     the other's exp2
                            their own
        flash_attention_tl  v5 or v4 where the GPU, the lengths and the strides allow it, else v3
        flash_attention     on compute capability 9.0 the kernels in Gluon, where they take the
                            inputs; flash_attention_tl elsewhere

S, m, l and O are float32; only P is rounded to the dtype of v, for the dot.
"""

from typing import Any

import torch

from kernels.attention.gradient.operator import backward_operator
from kernels.attention.inputs import LAYOUTS, Result, describable, prepare
from kernels.attention.settings import settings_on, triton_version
from kernels.attention.tl import (
    flash_attention_kernel,
    flash_attention_v1,
    flash_attention_v2,
    flash_attention_v3,
    launch_plain,
)
from kernels.attention.tl_hopper import (
    flash_attention_v4,
    flash_attention_v5,
    launch_described,
    launch_specialized,
    specializable,
)
from kernels.device import gpu_of

try:
    from kernels.attention.gluon.plan import plan_of
except ImportError:  # a Triton whose Gluon lacks names: v1 to v5 need none of them
    plan_of = None  # type: ignore[assignment]

__all__ = [
    "flash_attention",
    "flash_attention_tl",
    "flash_attention_v1",
    "flash_attention_v2",
    "flash_attention_v3",
    "flash_attention_v4",
    "flash_attention_v5",
]

WITH_DESCRIPTORS = (9, 10)
"""Major compute capabilities with tensor descriptors and the shared memory that v4 takes."""
WITH_SPECIALIZATION = 9
"""The major compute capability that v5 was written for. On 10 tensor cores have other
instructions: compiled for it, v5 spills."""
SPECIALIZING_TRITON = (3, 7)
"""The first Triton that compiles v5 at every head dimension."""


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
    deterministic: bool = False,
) -> Result:
    """Attention of q to k and v, all float16 or bfloat16, in any strides with a last one of 1; with
    a gradient for each of them.

    q: [batch, heads, M, head_dim]; k, v: [batch, key heads, N, head_dim], where key heads divides
        heads: so many heads of q in a row share one. With layout="bmhd", heads and length change
        places. head_dim is 16 to 256.
    causal: query m sees the keys n <= m + N - M: the last query sees all (torch's
        causal_lower_right). A query that sees no key gets 0, and a log-sum-exp of -inf.
    scale: of the scores, positive; head_dim ** -0.5 where it is None.
    return_lse: return (out, lse), lse being the natural logarithm of the sum of exp(scores):
        float32 [batch, heads, M].
    deterministic: gradients with the same bits each time, in `tl`, where the kernels in Gluon would
        add to dQ in any order. torch.use_deterministic_algorithms asks for them too.

    For the gradient q, k, v, out and lse are kept. While it is computed it takes 8 bytes for each
    query of each head, and where the kernels in Gluon compute it 4 * head_dim more. Nothing is
    launched where there is no query. Raises TypeError for a non-tensor; ValueError for shapes,
    dtypes, devices and strides that do not fit, and for CPU tensors where the kernel is compiled
    for a GPU.
    """
    # A call of an operator costs the CPU some microseconds more.
    if not (torch.compiler.is_compiling() or _gradient_wanted(q, k, v)):
        return flash_attention_forward(q, k, v, causal, scale, return_lse, layout)
    same_bits = deterministic or torch.are_deterministic_algorithms_enabled()
    out, lse = attention_operator(q, k, v, bool(causal), scale, layout, same_bits)
    return (out, lse) if return_lse else out


def _gradient_wanted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    try:  # `|` asks all three, so that any of them may be found to be no tensor
        return torch.is_grad_enabled() and q.requires_grad | k.requires_grad | v.requires_grad
    except AttributeError:  # no tensors: the forward pass says so
        return False


def flash_attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """`flash_attention` without a gradient."""
    plan = None if plan_of is None else plan_of(q, k, v, causal, scale, layout)
    if plan is None:
        return flash_attention_tl(q, k, v, causal, scale, return_lse, layout)
    out, lse = plan(q, k, v)
    return (out, lse) if return_lse else out


def flash_attention_tl(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
) -> Result:
    """The fastest of v3, v4 and v5 that takes these inputs: what Triton's `tl` gives."""
    launch = prepare(flash_attention_kernel, q, k, v, causal, scale, layout)
    if launch.queries:
        major, _ = gpu_of(launch.q).capability
        specializing = major == WITH_SPECIALIZATION and triton_version() >= SPECIALIZING_TRITON
        if specializing and specializable(launch):
            launch_specialized(launch)
        elif major in WITH_DESCRIPTORS and describable(launch.k, launch.v):
            launch_described(launch)
        else:
            launch_plain(launch, settings_on(launch.q))
    return launch.result(return_lse)


# custom_op and not triton_op: a Plan launches what PyTorch cannot look into.


@torch.library.custom_op("kernels::flash_attention", mutates_args=())
def attention_operator(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None,
    layout: str, deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """flash_attention's output and log-sum-exp. deterministic: of the gradient."""
    out, lse = flash_attention_forward(q, k, v, causal, scale, True, layout)
    return out, lse


@attention_operator.register_fake
def _shapes(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None,
    layout: str, deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, heads, length, _ = q.shape if layout == LAYOUTS[0] else q.transpose(1, 2).shape
    return q.new_empty(q.shape), q.new_empty((batch, heads, length), dtype=torch.float32)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    q, k, v, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.set_materialize_grads(False)  # None, and no zeros, for an output that nobody used


def _gradients(ctx: Any, d_out: torch.Tensor | None, d_lse: torch.Tensor | None) -> tuple[Any, ...]:
    q, k, v, out, lse = ctx.saved_tensors
    d_out = torch.zeros_like(out) if d_out is None else d_out
    # An operator as well, since torch.compile looks into what a gradient calls. It takes d_out in
    # any strides, and the gradient of lse, for whoever merges parts: see gradient/.
    gradients = backward_operator(d_out, q, k, v, out, lse, d_lse, *ctx.options)
    return *gradients, None, None, None, None


attention_operator.register_autograd(_gradients, setup_context=_save_for_backward)
