"""Transpose of a half-precision matrix, one row piece per program."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=0, atol=0)
outputs = [1]


@triton.jit
def kernel(x, y, M, N, sx, sy, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    keep = cols < N
    v = tl.load(x + row * sx + cols, mask=keep, other=0.0)
    tl.store(y + cols * sy + row, v, mask=keep)


def _make(device, large, pad):
    M, N = (8192, 8192) if large else (64, 96)
    g = torch.Generator(device=device).manual_seed(1)
    x = torch.randn((M, N), device=device, dtype=torch.float16, generator=g)
    y = torch.empty((N, M + pad), device=device, dtype=torch.float16)[:, :M]
    return (x, y, M, N, x.stride(0), y.stride(0))


def arguments(device, large):
    a = _make(device, large, 0)
    B = 1024 if large else 64
    return a, dict(BLOCK=B, num_warps=4, num_stages=1), (a[2], triton.cdiv(a[3], B))


def reference(args):
    return [args[0].t().contiguous()]


@triton.jit
def kernel_a(x, y, M, N, sx, sy, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    keep = (rows[:, None] < M) & (cols[None, :] < N)
    v = tl.load(x + rows[:, None] * sx + cols[None, :], mask=keep, other=0.0)
    tl.store(y + cols[None, :] * sy + rows[:, None], v, mask=keep)


def arguments_a(device, large):
    a = _make(device, large, 0)
    B = 64 if large else 32
    return a, dict(BLOCK=B, num_warps=4, num_stages=1), (triton.cdiv(a[2], B), triton.cdiv(a[3], B))


def arguments_b(device, large):
    a = _make(device, large, 64)
    B = 1024 if large else 64
    return a, dict(BLOCK=B, num_warps=4, num_stages=1), (a[2], triton.cdiv(a[3], B))


mend_a = SimpleNamespace(
    kernel=kernel_a, arguments=arguments_a, reference=reference, outputs=outputs
)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, reference=reference, outputs=outputs)
DOMINANT = "a"
CAUSE_A = "Neighbouring lanes store one 2-byte element each to addresses a whole output row apart, so every store touches its own sector; a square tile lets Triton turn the data on chip and write along the row."
CAUSE_B = "The output's row stride is a large power of two, so all stores of a program fall on the same cache sets or memory channels; padding the row stride by 64 elements spreads them."
LINE_A = "tl.store(y + cols * sy + row, v, mask=keep)"
LINE_B = "tl.store(y + cols * sy + row, v, mask=keep)"
