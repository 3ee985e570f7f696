"""Softmax of attention scores with a bias by relative position.

P[b, h, i, :] = softmax(scale * S[b, h, i, :] + bias[h, i, :])
"""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [2]
TOL = dict(atol=2e-6, rtol=4e-3)


@triton.jit
def kernel(s_ptr, bias_ptr, p_ptr, S, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    h = tl.program_id(1)
    b = tl.program_id(2)
    c = tl.arange(0, BLOCK)
    row = (b * tl.num_programs(1) + h).to(tl.int64) * S + i
    x = tl.load(s_ptr + row * S + c, mask=c < S, other=float("-inf")).to(tl.float32) * scale
    bias = tl.load(bias_ptr + (h.to(tl.int64) * S + i) * S + c, mask=c < S, other=0.0)
    x += bias
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(p_ptr + row * S + c, (e / tl.sum(e, axis=0)).to(tl.float16), mask=c < S)


@triton.jit
def kernel_a(s_ptr, bias_ptr, p_ptr, S, scale, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    h = tl.program_id(1)
    b = tl.program_id(2)
    c = tl.arange(0, BLOCK)
    row = (b * tl.num_programs(1) + h).to(tl.int64) * S + i
    mask = (i[:, None] < S) & (c[None, :] < S)
    x = (
        tl.load(s_ptr + row[:, None] * S + c[None, :], mask=mask, other=float("-inf")).to(
            tl.float32
        )
        * scale
    )
    bias = tl.load(
        bias_ptr + (h.to(tl.int64) * S + i)[:, None] * S + c[None, :], mask=mask, other=0.0
    )
    x += bias
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(
        p_ptr + row[:, None] * S + c[None, :],
        (e / tl.sum(e, axis=1)[:, None]).to(tl.float16),
        mask=mask,
    )


@triton.jit
def kernel_b(s_ptr, bias_ptr, p_ptr, S, scale, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    i = tl.program_id(1)
    h = tl.program_id(2)
    c = tl.arange(0, BLOCK)
    row = (b * tl.num_programs(2) + h).to(tl.int64) * S + i
    x = tl.load(s_ptr + row * S + c, mask=c < S, other=float("-inf")).to(tl.float32) * scale
    bias = tl.load(bias_ptr + (h.to(tl.int64) * S + i) * S + c, mask=c < S, other=0.0)
    x += bias
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(p_ptr + row * S + c, (e / tl.sum(e, axis=0)).to(tl.float16), mask=c < S)


def _make(device, large):
    B, H, S = (4, 16, 2048) if large else (2, 2, 32)
    g = torch.Generator(device=device).manual_seed(12)
    x = torch.randn((B, H, S, S), generator=g, device=device, dtype=torch.float16)
    bias = torch.randn((H, S, S), generator=g, device=device, dtype=torch.float32)
    p = torch.zeros((B, H, S, S), device=device, dtype=torch.float16)
    return (x, bias, p, S, 0.125), dict(BLOCK=triton.next_power_of_2(S), num_warps=4, num_stages=3)


def arguments(device, large):
    a, options = _make(device, large)
    B, H, S, _ = a[0].shape
    return a, options, (S, H, B)


def arguments_a(device, large):
    a, options = _make(device, large)
    B, H, S, _ = a[0].shape
    return a, dict(options, ROWS=2), (S // 2, H, B)


def arguments_b(device, large):
    a, options = _make(device, large)
    B, H, S, _ = a[0].shape
    return a, options, (B, S, H)


def reference(args):
    out = torch.empty_like(args[2])
    for b in range(out.shape[0]):
        out[b] = torch.softmax(args[0][b].float() * args[4] + args[1], -1).to(torch.float16)
    return [out]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
DOMINANT = "b"
CAUSE_A = "One row gives a program too little to load at once before it must wait for its two reductions; here two rows per program."
CAUSE_B = "The order of the programs: the batch comes last, so by the time the next sample needs a bias row it has left the L2 cache and is read from memory again; here the samples that share a bias row run together."
