"""Causal depthwise convolution of width 4 over (batch, channel, time), time contiguous."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=5e-3, atol=5e-3)
outputs = [2]


@triton.jit
def kernel(x, w, y, C, T, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * STEPS
    base = (tl.program_id(2) * C + c) * T
    w0 = tl.load(w + c * 4)
    w1 = tl.load(w + c * 4 + 1)
    w2 = tl.load(w + c * 4 + 2)
    w3 = tl.load(w + c * 4 + 3)
    for t in range(first, first + STEPS):
        x0 = tl.load(x + base + t - 3, mask=(c < C) & (t >= 3), other=0.0).to(tl.float32)
        x1 = tl.load(x + base + t - 2, mask=(c < C) & (t >= 2), other=0.0).to(tl.float32)
        x2 = tl.load(x + base + t - 1, mask=(c < C) & (t >= 1), other=0.0).to(tl.float32)
        x3 = tl.load(x + base + t, mask=c < C, other=0.0).to(tl.float32)
        v = x0 * w0 + x1 * w1 + x2 * w2 + x3 * w3
        tl.store(y + base + t, v.to(tl.float16), mask=c < C)


def _make(device, large):
    B, C, T = (8, 2048, 2048) if large else (2, 32, 64)
    g = torch.Generator(device=device).manual_seed(7)
    x = torch.randn((B, C, T), device=device, dtype=torch.float16, generator=g)
    w = torch.randn((C, 4), device=device, generator=g)
    return (x, w, torch.empty_like(x), C, T)


def arguments(device, large):
    a = _make(device, large)
    S, B = (64, 128) if large else (16, 32)
    return (
        a,
        dict(STEPS=S, BLOCK=B, num_warps=4, num_stages=1),
        (a[3] // B, a[4] // S, a[0].shape[0]),
    )


def reference(args):
    x, w = args[0].float(), args[1]
    p = torch.nn.functional.pad(x, (3, 0))
    T = x.shape[2]
    return [sum(p[:, :, k : k + T] * w[:, k][None, :, None] for k in range(4))]


@triton.jit
def kernel_a(x, w, y, C, T, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * STEPS
    base = (tl.program_id(2) * C + c) * T
    w0 = tl.load(w + c * 4)
    w1 = tl.load(w + c * 4 + 1)
    w2 = tl.load(w + c * 4 + 2)
    w3 = tl.load(w + c * 4 + 3)
    x0 = tl.load(x + base + first - 3, mask=(c < C) & (c * 0 + first >= 3), other=0.0).to(
        tl.float32
    )
    x1 = tl.load(x + base + first - 2, mask=(c < C) & (c * 0 + first >= 2), other=0.0).to(
        tl.float32
    )
    x2 = tl.load(x + base + first - 1, mask=(c < C) & (c * 0 + first >= 1), other=0.0).to(
        tl.float32
    )
    for t in range(first, first + STEPS):
        x3 = tl.load(x + base + t, mask=c < C, other=0.0).to(tl.float32)
        v = x0 * w0 + x1 * w1 + x2 * w2 + x3 * w3
        tl.store(y + base + t, v.to(tl.float16), mask=c < C)
        x0 = x1
        x1 = x2
        x2 = x3


@triton.jit
def kernel_b(x, w, y, C, T, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    base = (tl.program_id(2) * C + c) * T
    w0 = tl.load(w + c * 4)
    w1 = tl.load(w + c * 4 + 1)
    w2 = tl.load(w + c * 4 + 2)
    w3 = tl.load(w + c * 4 + 3)
    x0 = tl.load(x + base + t - 3, mask=(t < T) & (t >= 3), other=0.0).to(tl.float32)
    x1 = tl.load(x + base + t - 2, mask=(t < T) & (t >= 2), other=0.0).to(tl.float32)
    x2 = tl.load(x + base + t - 1, mask=(t < T) & (t >= 1), other=0.0).to(tl.float32)
    x3 = tl.load(x + base + t, mask=t < T, other=0.0).to(tl.float32)
    v = x0 * w0 + x1 * w1 + x2 * w2 + x3 * w3
    tl.store(y + base + t, v.to(tl.float16), mask=t < T)


def arguments_b(device, large):
    a = _make(device, large)
    B = 1024 if large else 32
    return a, dict(BLOCK=B, num_warps=4, num_stages=1), (a[3], a[4] // B, a[0].shape[0])


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, reference=reference, outputs=outputs)
mend_b = SimpleNamespace(
    kernel=kernel_b, arguments=arguments_b, reference=reference, outputs=outputs
)
DOMINANT = "b"
CAUSE_A = "Each input is loaded four times, once per tap; carrying the last three values in registers loads it once."
CAUSE_B = "Lanes run over channels, which lie T elements apart, so every 2-byte load and store of a lane touches its own sector; lanes over time, the contiguous dimension, are coalesced."
LINE_A = "x0 = tl.load(x + base + t - 3, mask=(c < C) & (t >= 3), other=0.0).to(tl.float32)"
LINE_B = "base = (tl.program_id(2) * C + c) * T"
