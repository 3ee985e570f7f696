"""Causal sliding-window attention, forward (fp16, heads of 64, window of 512)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [3]
TOL = dict(atol=2e-2, rtol=2e-2)


@triton.jit
def kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    S,
    window,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    start_m = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1).to(tl.int64) * S * D
    m = start_m + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    top = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, start_m + BLOCK_M, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[None, :] * D + d[:, None])
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
        s = tl.dot(q, k) * scale
        keep = (n[None, :] <= m[:, None]) & (n[None, :] > m[:, None] - window)
        s = tl.where(keep, s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
        top = new
    o = acc / total[:, None]
    tl.store(o_ptr + base + m[:, None] * D + d[None, :], o.to(tl.float16))


@triton.jit
def kernel_a(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    S,
    window,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    start_m = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1).to(tl.int64) * S * D
    m = start_m + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    top = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    first = tl.maximum(start_m - window + 1, 0) // BLOCK_N * BLOCK_N
    for start in range(first, start_m + BLOCK_M, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[None, :] * D + d[:, None])
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
        s = tl.dot(q, k) * scale
        keep = (n[None, :] <= m[:, None]) & (n[None, :] > m[:, None] - window)
        s = tl.where(keep, s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
        top = new
    o = acc / total[:, None]
    tl.store(o_ptr + base + m[:, None] * D + d[None, :], o.to(tl.float16))


@triton.jit
def kernel_b(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    S,
    window,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    start_m = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1).to(tl.int64) * S * D
    m = start_m + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    top = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    scale *= 1.4426950408889634
    for start in range(0, start_m + BLOCK_M, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[None, :] * D + d[:, None])
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
        s = tl.dot(q, k)
        keep = (n[None, :] <= m[:, None]) & (n[None, :] > m[:, None] - window)
        s = tl.where(keep, s, -1e30)
        new = tl.maximum(top, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - new[:, None])
        alpha = tl.exp2(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
        top = new
    o = acc / total[:, None]
    tl.store(o_ptr + base + m[:, None] * D + d[None, :], o.to(tl.float16))


def arguments(device, large=False):
    heads, S, D, window = (16, 8192, 64, 512) if large else (2, 128, 16, 24)
    g = torch.Generator(device=device).manual_seed(406)
    q, k, v = (
        torch.randn(heads, S, D, device=device, generator=g).to(torch.float16) for _ in range(3)
    )
    o = torch.full_like(q, float("nan"))
    bm, bn = (128, 64) if large else (32, 16)
    return (
        (q, k, v, o, S, window, D**-0.5),
        dict(D=D, BLOCK_M=bm, BLOCK_N=bn, num_warps=4, num_stages=3),
        (S // bm, heads),
    )


def reference(args):
    q, k, v, _, S, window, scale = args
    at = torch.arange(S, device=q.device)
    keep = (at[None, :] <= at[:, None]) & (at[None, :] > at[:, None] - window)
    heads = []
    for qh, kh, vh in zip(q.float(), k.float(), v.float(), strict=True):
        s = (qh @ kh.T * scale).masked_fill(~keep, -float("inf"))
        heads.append(torch.softmax(s, -1) @ vh)
    return [torch.stack(heads)]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, outputs=outputs)
CAUSE_A = "All blocks of keys from the first to the diagonal are computed, and those before the window are masked away; the loop now begins at the window."
CAUSE_B = "The softmax scales each score and takes exponentials to base e; exp2 takes a scale that has log2(e) in it."
