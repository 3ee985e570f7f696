"""Attention's gradient: right against torch in float64; fast against torch's flash and cuDNN
backends, each with a forward pass that was run before."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch.nn.attention import SDPBackend

from course.benching.benchmarks import Function, Operation, Series, Study
from course.benching.benchmarks import flash_attention as in_tl
from course.benching.series import backward_of
from course.verifying.inputs import Case, Input
from kernels.attention import flash_attention, gradient
from kernels.attention.gluon import plan as launching
from kernels.attention.gradient import (
    flash_attention_backward,
    flash_attention_backward_v1,
    flash_attention_backward_v2,
)
from kernels.attention.gradient.inputs import prepare_backward

Gradients = tuple[torch.Tensor, ...]
WITHOUT_ADDING = "without adding dQ"
"""The series that shows what the additions to dQ cost."""

DEVIATIONS = 6
"""How many standard deviations rounding may take a gradient off."""
IN_FLOAT32 = 1e-5
"""The error of sums in float32, and of probabilities too small for float16."""


def joined(gradients: Gradients) -> torch.Tensor:
    """dQ, dK and dV as the rows of one matrix: `verify` compares one tensor."""
    return torch.cat([each.reshape(-1, each.shape[-1]) for each in gradients])


def _verified(
    version: Callable[..., Gradients], d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor,
    v: torch.Tensor, causal: int,
) -> torch.Tensor:  # fmt: skip
    out, lse = flash_attention(q, k, v, bool(causal), return_lse=True)
    return joined(version(d_out, q, k, v, out, lse, causal=bool(causal)))


def planned(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int = 0
) -> torch.Tensor:
    """The gradient that the operator takes."""
    return _verified(flash_attention_backward, d_out, q, k, v, causal)


def v1(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int = 0
) -> torch.Tensor:
    """v1 of the ladder."""
    return _verified(flash_attention_backward_v1, d_out, q, k, v, causal)


def v2(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int = 0
) -> torch.Tensor:
    """v2 of the ladder."""
    return _verified(flash_attention_backward_v2, d_out, q, k, v, causal)


def _without_adding(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, causal: bool,
) -> Gradients:  # fmt: skip
    """The gradient in Gluon, but dQ is added to nothing, and stays 0: what that takes off its time
    is what the additions cost."""
    launch = prepare_backward(d_out, q, k, v, out, lse, None, causal, None, "bhmd")
    launch_kernel = partial(gradient.hopper.launch_gradient, add_d_q=False)
    return gradient.by_adding_d_q(launch, launch_kernel)


def _in_gluon() -> bool:
    """Whether this machine's GPU runs the kernels in Gluon."""
    here = torch.cuda.is_available() and gradient.hopper is not None
    return here and launching.available(torch.empty(0, device="cuda"))


def reference(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int = 0
) -> torch.Tensor:
    """The gradients by PyTorch's autograd."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        shared = q.shape[1] // k.shape[1]
        keys, values = (x.repeat_interleave(shared, dim=1) for x in leaves[1:])
        out = in_tl.probabilities(leaves[0], keys, causal) @ values
        return joined(torch.autograd.grad(out, leaves, d_out))


def rounding(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int = 0
) -> torch.Tensor:
    """How far the gradients may be off because P, dS and out are rounded to the dtype.

    Tensor cores multiply numbers of 16 bits, so any kernel rounds these, and delta is computed from
    an out that is rounded. A small gradient is a sum of large terms that cancel, so what matters is
    the size of the terms. A rounding is off by a quarter of eps, as a root of the mean square.
    Roundings know nothing of each other, so the squares of their errors add up.
    """
    eps, scale, shared = torch.finfo(q.dtype).eps, q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    d_out, q, k, v = (x.double() for x in (d_out, q, k, v))
    keys, values = (x.repeat_interleave(shared, dim=1) for x in (k, v))
    P = in_tl.probabilities(q, keys, causal)
    d_P, out = d_out @ values.mT, P @ values
    d_S = P * (d_P - (d_out * out).sum(-1, keepdim=True))
    # The squares of errors, in units of a rounding's. Of delta: out is rounded, and before it P.
    delta = ((d_out * out) ** 2).sum(-1, keepdim=True) + ((P * d_P) ** 2).sum(-1, keepdim=True)
    rounded_d_S = 2 * d_S**2  # once itself; and some kernels round P before it
    d_q = scale**2 * (rounded_d_S @ keys**2 + delta * (P @ keys) ** 2)
    d_k = scale**2 * (rounded_d_S + delta * P**2).mT @ q**2
    d_v = (P**2).mT @ d_out**2
    d_k, d_v = (x.unflatten(1, (-1, shared)).sum(2) for x in (d_k, d_v))
    return DEVIATIONS * eps / 4 * joined((d_q, d_k, d_v)).sqrt() + IN_FLOAT32


def _cases() -> list[Case]:
    """Each head dimension in both dtypes, with a causal mask and without: by turns, since each case
    is compiled anew."""
    half, brain = torch.float16, torch.bfloat16
    sizes: list[tuple[int, int, int, int, int, torch.dtype, int]] = [
        (1, 2, 1, 1, 16, half, 1), (1, 2, 130, 65, 40, brain, 1),
        (1, 2, 65, 130, 64, half, 0), (2, 4, 500, 1025, 64, brain, 1),
        (1, 2, 33, 63, 128, half, 1), (2, 4, 512, 512, 128, brain, 0),
        (1, 2, 20, 70, 256, brain, 0), (2, 4, 256, 320, 256, half, 1),
    ]  # fmt: skip
    cases = []
    for batch, key_heads, queries, keys, head_dim, dtype, causal in sizes:
        q = Input((batch, 4, queries, head_dim), dtype)
        k = Input((batch, key_heads, keys, head_dim), dtype)
        cases.append(Case((q, q, k, k), seed=queries, scalars=(causal,)))
    return cases


def _study(head_dim: int, causal: bool, dtype: torch.dtype) -> Study:
    like = in_tl.study(head_dim, causal, dtype)

    def make(length: int) -> tuple[torch.Tensor, ...]:
        q, k, v = like.make(length)
        out, lse = flash_attention(q, k, v, causal, return_lse=True)
        return torch.randn_like(q), q, k, v, out, lse

    def ours(version: Callable[..., Gradients]) -> Callable[[int], Function]:
        return lambda length: cast(Function, partial(version, causal=causal))

    def torchs(backend: SDPBackend) -> Callable[[int], Function]:
        return lambda length: backward_of(in_tl.by_torch(backend, causal), 3)

    series: Series = {"flash_attention_backward": ours(flash_attention_backward)}
    if dtype == torch.float16:
        series[WITHOUT_ADDING] = lambda length: (
            ours(_without_adding)(length) if _in_gluon() else None
        )
        series["flash_attention_backward_v1"] = ours(flash_attention_backward_v1)
        if head_dim == 128:
            series["flash_attention_backward_v2"] = ours(flash_attention_backward_v2)
    series["torch, flash"] = torchs(SDPBackend.FLASH_ATTENTION)
    series["torch, cuDNN"] = torchs(SDPBackend.CUDNN_ATTENTION)
    return replace(
        like,
        name=like.name.replace("flash_attention", "flash_attention_backward"),
        make=make,
        # d_out, q, k, v, out and lse are read once; dQ, dK and dV are written once.
        bytes=lambda d_out, q, k, v, out, lse: 8 * q.nbytes + lse.nbytes,
        # 5 products, where the forward pass has 2 of the same size
        operations=lambda d_out, q, *_: in_tl.operations_of(q.shape[2], causal) * 5 // 2,
        series=series,
    )


OPERATION = Operation(
    name="flash_attention_backward",
    ladder={version.__name__: version for version in (v1, v2, planned)},
    reference=reference,
    cases=_cases(),
    absolute=rounding,
    studies=[_study(*which) for which in in_tl.STUDIES],
)
