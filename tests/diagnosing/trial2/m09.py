"""A linear recurrence with gates over time: h[t] = a[t] * h[t-1] + b[t], every h stored.

It is the scan of a state-space model or a linear RNN.
"""

# ruff: noqa: C408, E501, PIE808 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [2]
TOL = dict(atol=1e-2, rtol=1e-2)


@triton.jit
def kernel(a_ptr, b_ptr, h_ptr, T, D, BLOCK_D: tl.constexpr):
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    base = tl.program_id(1) * T * D
    h = tl.zeros([BLOCK_D], tl.float32)
    for t in range(0, T):
        a = tl.load(a_ptr + base + t * D + d).to(tl.float32)
        b = tl.load(b_ptr + base + t * D + d).to(tl.float32)
        h = a * h + b
        tl.store(h_ptr + base + t * D + d, h.to(tl.float16))


@triton.jit
def _chain(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def kernel_b(a_ptr, b_ptr, h_ptr, T, D, BLOCK_D: tl.constexpr, BLOCK_T: tl.constexpr):
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    step = tl.arange(0, BLOCK_T)
    base = tl.program_id(1) * T * D
    carry = tl.zeros([BLOCK_D], tl.float32)
    for t0 in range(0, T, BLOCK_T):
        where = base + (t0 + step)[:, None] * D + d[None, :]
        a = tl.load(a_ptr + where).to(tl.float32)
        b = tl.load(b_ptr + where).to(tl.float32)
        b = tl.where(step[:, None] == 0, b + a * carry[None, :], b)
        _, h = tl.associative_scan((a, b), 0, _chain)
        tl.store(h_ptr + where, h.to(tl.float16))
        carry = tl.sum(tl.where(step[:, None] == BLOCK_T - 1, h, 0.0), axis=0)


def _make(device, large):
    B, T, D = (4, 1024, 4096) if large else (2, 64, 128)
    g = torch.Generator(device=device).manual_seed(9)
    a = torch.rand((B, T, D), generator=g, device=device, dtype=torch.float32)
    a = (a * 0.5 + 0.5).to(torch.float16)
    b = torch.randn((B, T, D), generator=g, device=device, dtype=torch.float16)
    return a, b, torch.zeros((B, T, D), device=device, dtype=torch.float16), T, D


def arguments(device, large, wide=128, num_warps=4):
    a = _make(device, large)
    options = dict(BLOCK_D=wide, num_warps=num_warps, num_stages=3)
    return a, options, (a[4] // wide, a[0].shape[0])


def arguments_a(device, large):
    return arguments(device, large, 32, 1)


def arguments_b(device, large):
    a, options, grid = arguments(device, large, 64)
    return a, dict(options, BLOCK_T=64), grid


def reference(args):
    a, b = args[0], args[1]
    h = torch.zeros(a[:, 0].shape, device=a.device)
    out = torch.empty_like(a)
    for t in range(a.shape[1]):
        h = a[:, t].float() * h + b[:, t].float()
        out[:, t] = h.to(torch.float16)
    return [out]


mend_a = SimpleNamespace(kernel=kernel, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
DOMINANT = "b"
CAUSE_A = "Too few programs, each with a block of features too wide; here four times as many."
CAUSE_B = "Waiting: each time step's loads are issued only after the step before is stored, so every step costs a trip to memory."
