"""Sliding-window maximum of 64 along the rows, stride 1 (fp32)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1]
TOL = dict(atol=0, rtol=0)


@triton.jit
def kernel(x_ptr, y_ptr, L, L_OUT, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < L_OUT
    m = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for k in range(K):
        m = tl.maximum(m, tl.load(x_ptr + row * L + i + k, mask=mask, other=float("-inf")))
    tl.store(y_ptr + row * L_OUT + i, m, mask=mask)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def kernel_a(x_ptr, y_ptr, L, L_OUT, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    j = tl.arange(0, K)[None, :]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK // K)[:, None] * K + j
    own = tl.load(x_ptr + row * L + i, mask=i < L, other=float("-inf"))
    following = tl.load(
        x_ptr + row * L + i + K - 1, mask=(j > 0) & (i + K - 1 < L), other=float("-inf")
    )
    suffix = tl.associative_scan(own, 1, larger, reverse=True)
    prefix = tl.associative_scan(following, 1, larger)
    tl.store(y_ptr + row * L_OUT + i, tl.maximum(suffix, prefix), mask=i < L_OUT)


@triton.jit
def kernel_b(x_ptr, y_ptr, L, L_OUT, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < L_OUT
    m = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for k in tl.static_range(K):
        m = tl.maximum(m, tl.load(x_ptr + row * L + i + k, mask=mask, other=float("-inf")))
    tl.store(y_ptr + row * L_OUT + i, m, mask=mask)


def arguments(device, large=False):
    rows, length, k = (96, 262_144, 64) if large else (2, 150, 8)
    g = torch.Generator(device=device).manual_seed(13)
    x = torch.randn(rows, length, device=device, generator=g)
    y = torch.full((rows, length - k + 1), float("nan"), device=device)
    block = 1024 if large else 64
    return (
        (x, y, length, length - k + 1),
        dict(K=k, BLOCK=block, num_warps=4, num_stages=3),
        (triton.cdiv(length - k + 1, block), rows),
    )


def reference(args):
    x, _, length, out = args
    return [torch.nn.functional.max_pool1d(x[:, None], length - out + 1, 1)[:, 0]]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, outputs=outputs)
CAUSE_A = "Every output reads all 64 values of its window again; the maximum of a suffix and of a prefix from two scans needs two reads for each output."
CAUSE_B = "The loop over the window is not unrolled, so its loads are issued a few at a time with loop overhead between them."
