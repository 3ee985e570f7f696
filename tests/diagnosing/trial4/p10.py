"""Gated linear recurrence over time, h[t] = a[t] * h[t-1] + x[t], for every channel (fp32)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [2]
TOL = dict(atol=2e-3, rtol=2e-3)


@triton.jit
def kernel(a_ptr, x_ptr, h_ptr, T, C, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = c < C
    offs = tl.program_id(1).to(tl.int64) * T * C + c
    h = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(T):
        a = tl.load(a_ptr + offs, mask=mask, other=0.0)
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        h = a * h + x
        tl.store(h_ptr + offs, h, mask=mask)
        offs += C


@triton.jit
def combine(a0, h0, a1, h1):
    return a0 * a1, h0 * a1 + h1


@triton.jit
def kernel_a(a_ptr, x_ptr, h_ptr, T, C, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, STEPS)
    base = tl.program_id(1).to(tl.int64) * T * C
    carry = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, T, STEPS):
        t = start + s
        offs = base + t[:, None] * C + c[None, :]
        mask = (t < T)[:, None] & (c < C)[None, :]
        a = tl.load(a_ptr + offs, mask=mask, other=1.0)
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        a, x = tl.associative_scan((a, x), 0, combine)
        h = x + a * carry[None, :]
        tl.store(h_ptr + offs, h, mask=mask)
        carry = tl.sum(tl.where((s == STEPS - 1)[:, None], h, 0.0), 0)


def arguments(device, large=False):
    B, T, C = (8, 1500, 4096) if large else (2, 37, 48)
    g = torch.Generator(device=device).manual_seed(410)
    a = torch.sigmoid(torch.randn(B, T, C, device=device, generator=g) + 2)
    x = torch.randn(B, T, C, device=device, generator=g)
    h = torch.full_like(x, float("nan"))
    block = 128 if large else 32
    return (
        (a, x, h, T, C),
        dict(BLOCK=block, num_warps=4, num_stages=3),
        (triton.cdiv(C, block), B),
    )


def arguments_a(device, large=False):
    args, options, grid = arguments(device, large)
    return args, dict(options, STEPS=32 if large else 8), grid


def arguments_b(device, large=False):
    args, options, grid = arguments(device, large)
    block = options["BLOCK"] // 4
    return args, dict(options, BLOCK=block, num_warps=1), (triton.cdiv(args[4], block), grid[1])


def reference(args):
    a, x = args[:2]
    h = torch.zeros_like(x[:, 0], dtype=torch.float64)
    steps = []
    for t in range(x.shape[1]):
        h = a[:, t].double() * h + x[:, t].double()
        steps.append(h.float())
    return [torch.stack(steps, 1)]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Each time step waits for the memory before the next one asks for its values; 32 steps are now loaded together and scanned."
CAUSE_B = "Two programs of four warps on each multiprocessor are few; the same channels in programs of one warp are spread more evenly."
