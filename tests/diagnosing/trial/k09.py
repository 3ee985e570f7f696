"""Gated linear recurrence h = a*h + b along time (selective-scan style), (batch, time, channel)."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=1e-3, atol=1e-3)
outputs = [2]


@triton.jit
def kernel(a, b, y, T, C, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = tl.program_id(1) * T * C
    h = tl.zeros((BLOCK,), tl.float32)
    for t in range(T):
        at = tl.load(a + base + t * C + c)
        bt = tl.load(b + base + t * C + c)
        h = at * h + bt
        tl.store(y + base + t * C + c, h)


def _make(device, large):
    B, T, C = (8, 1024, 2048) if large else (2, 32, 64)
    g = torch.Generator(device=device).manual_seed(9)
    a = torch.rand((B, T, C), device=device, generator=g) * 0.5 + 0.5
    b = torch.randn((B, T, C), device=device, generator=g)
    return (a, b, torch.empty_like(a), T, C)


def _launch(device, large, B, warps):
    a = _make(device, large)
    return a, dict(BLOCK=B, STEPS=16, num_warps=warps, num_stages=1), (a[4] // B, a[0].shape[0])


def arguments(device, large):
    return _launch(device, large, 128 if large else 64, 4 if large else 2)


def arguments_a(device, large):
    return _launch(device, large, 32, 1)


def reference(args):
    a, b = args[0], args[1]
    y = torch.empty_like(a)
    h = torch.zeros_like(a[:, 0])
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        y[:, t] = h
    return [y]


@triton.jit
def _combine(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def kernel_b(a, b, y, T, C, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = tl.program_id(1) * T * C
    s = tl.arange(0, STEPS)
    h = tl.zeros((BLOCK,), tl.float32)
    for t in range(0, T, STEPS):
        p = base + (t + s)[:, None] * C + c[None, :]
        at = tl.load(a + p)
        bt = tl.load(b + p)
        A, Bs = tl.associative_scan((at, bt), 0, _combine)
        hs = A * h[None, :] + Bs
        tl.store(y + p, hs)
        h = tl.sum(tl.where((s == STEPS - 1)[:, None], hs, 0.0), axis=0)


mend_a = SimpleNamespace(kernel=kernel, arguments=arguments_a, reference=reference, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, reference=reference, outputs=outputs)
DOMINANT = "b"
CAUSE_A = "The grid is small (128 programs on 132 multiprocessors); blocks of 32 channels with one warp give 512 programs."
CAUSE_B = "A serial loop of 1024 steps, each waiting a full memory latency for one row piece before the next is asked for; taking 16 time steps at once with an associative scan puts 16 times the bytes in flight."
LINE_A = "c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
LINE_B = "at = tl.load(a + base + t * C + c)"
