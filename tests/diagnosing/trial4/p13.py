"""Scaled and masked softmax of attention scores for all heads (bf16 scores and probabilities, additive mask)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [2]
TOL = dict(atol=1e-2, rtol=1.6e-2)


@triton.jit
def kernel(s_ptr, mask_ptr, p_ptr, S, scale, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64) * S + tl.program_id(0)
    n = tl.arange(0, BLOCK)
    inside = n < S
    s = tl.load(s_ptr + row * S + n, mask=inside, other=0.0).to(tl.float32) * scale
    s += tl.load(mask_ptr + row * S + n, mask=inside, other=-float("inf"))
    e = tl.exp(s - tl.max(s, 0))
    tl.store(p_ptr + row * S + n, (e / tl.sum(e, 0)).to(tl.bfloat16), mask=inside)


@triton.jit
def kernel_a(s_ptr, mask_ptr, p_ptr, S, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * S + tl.program_id(1)
    n = tl.arange(0, BLOCK)
    inside = n < S
    s = tl.load(s_ptr + row * S + n, mask=inside, other=0.0).to(tl.float32) * scale
    s += tl.load(mask_ptr + tl.program_id(1) * S + n, mask=inside, other=-float("inf"))
    e = tl.exp(s - tl.max(s, 0))
    tl.store(p_ptr + row * S + n, (e / tl.sum(e, 0)).to(tl.bfloat16), mask=inside)


@triton.jit
def kernel_b(s_ptr, mask_ptr, p_ptr, S, scale, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64) * S + tl.program_id(0)
    n = tl.arange(0, BLOCK)
    inside = n < S
    s = tl.load(s_ptr + row * S + n, mask=inside, other=0.0).to(tl.float32) * (
        scale * 1.4426950408889634
    )
    s += tl.load(mask_ptr + row * S + n, mask=inside, other=-float("inf"))
    e = tl.exp2(s - tl.max(s, 0))
    tl.store(p_ptr + row * S + n, (e * (1.0 / tl.sum(e, 0))).to(tl.bfloat16), mask=inside)


def arguments(device, large=False):
    heads, S = (32, 2048) if large else (3, 40)
    g = torch.Generator(device=device).manual_seed(413)
    s = torch.randn(heads, S, S, device=device, generator=g, dtype=torch.bfloat16)
    # several documents in one sequence, each causal
    document = (torch.rand(S, device=device, generator=g) < 8 / S).cumsum(0)
    at = torch.arange(S, device=device)
    keep = (document[:, None] == document[None, :]) & (at[:, None] >= at[None, :])
    mask = torch.where(keep, 0.0, -1e9).expand(heads, S, S).contiguous()
    p = torch.full_like(s, float("nan"))
    return (
        (s, mask, p, S, 0.125),
        dict(BLOCK=triton.next_power_of_2(S), num_warps=4, num_stages=3),
        (S, heads),
    )


def arguments_a(device, large=False):
    (s, mask, p, S, scale), options, (_, heads) = arguments(device, large)
    return (s, mask[0].contiguous(), p, S, scale), options, (heads, S)


def reference(args):
    s, mask, _, _, scale = args
    return [
        torch.stack(
            [torch.softmax(x.float() * scale + m, -1) for x, m in zip(s, mask, strict=True)]
        )
    ]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, outputs=outputs)
CAUSE_A = "The fp32 mask is the same for all heads but was expanded to a copy for each, half of all bytes moved; one copy is now read by the heads of a row together, from the cache."
CAUSE_B = "The softmax takes exponentials to base e and divides every element; exp2 with a folded scale and one reciprocal do."
