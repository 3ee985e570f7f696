"""Gradient of a low-rank adapter: dA = dY^T X, 16 rows, summed over all tokens (fp16 in, fp32 out)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [2]
TOL = dict(atol=5e-2, rtol=5e-3)


@triton.jit
def kernel(
    x_ptr, dy_ptr, o_ptr, T, K, R: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr
):
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    r = tl.arange(0, R)
    acc = tl.zeros([R, BLOCK_K], tl.float32)
    for start in range(0, T, BLOCK_T):
        t = start + tl.arange(0, BLOCK_T)
        dy = tl.load(dy_ptr + t[:, None] * R + r[None, :], mask=(t < T)[:, None], other=0.0)
        x = tl.load(
            x_ptr + t[:, None] * K + k[None, :], mask=(t < T)[:, None] & (k < K)[None, :], other=0.0
        )
        acc = tl.dot(tl.trans(dy), x, acc)
    tl.store(o_ptr + r[:, None] * K + k[None, :], acc, mask=(k < K)[None, :])


@triton.jit
def kernel_a(
    x_ptr, dy_ptr, o_ptr, T, K, part, R: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr
):
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    r = tl.arange(0, R)
    acc = tl.zeros([R, BLOCK_K], tl.float32)
    first = tl.program_id(1) * part
    for start in range(first, tl.minimum(first + part, T), BLOCK_T):
        t = start + tl.arange(0, BLOCK_T)
        dy = tl.load(dy_ptr + t[:, None] * R + r[None, :], mask=(t < T)[:, None], other=0.0)
        x = tl.load(
            x_ptr + t[:, None] * K + k[None, :], mask=(t < T)[:, None] & (k < K)[None, :], other=0.0
        )
        acc = tl.dot(tl.trans(dy), x, acc)
    tl.atomic_add(o_ptr + r[:, None] * K + k[None, :], acc, mask=(k < K)[None, :], sem="relaxed")


@triton.jit
def kernel_b(
    x_ptr, dy_ptr, o_ptr, T, K, R: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr
):
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    r = tl.arange(0, R)
    acc = tl.zeros([R, BLOCK_K], tl.float32)
    for start in range(0, T, BLOCK_T):
        t = start + tl.arange(0, BLOCK_T)
        dy = tl.load(dy_ptr + r[:, None] * T + t[None, :], mask=(t < T)[None, :], other=0.0)
        x = tl.load(
            x_ptr + t[:, None] * K + k[None, :], mask=(t < T)[:, None] & (k < K)[None, :], other=0.0
        )
        acc = tl.dot(dy, x, acc)
    tl.store(o_ptr + r[:, None] * K + k[None, :], acc, mask=(k < K)[None, :])


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(26)
    T, K, R, BT, BK = (48000, 3008, 16, 64, 128) if large else (208, 48, 16, 32, 32)
    x = torch.randn((T, K), generator=g, device=device, dtype=torch.float16)
    dy = torch.randn((T, R), generator=g, device=device, dtype=torch.float16) * T**-0.5
    out = torch.zeros((R, K), device=device)
    return (
        (x, dy, out, T, K),
        dict(R=R, BLOCK_T=BT, BLOCK_K=BK, num_warps=4, num_stages=3),
        (triton.cdiv(K, BK), 1, 1),
    )


def arguments_a(device, large=False):
    args, options, (blocks, _, _) = arguments(device, large)
    part = 1600 if large else 96
    return (*args, part), options, (blocks, triton.cdiv(args[3], part), 1)


def arguments_b(device, large=False):
    (x, dy, out, T, K), options, grid = arguments(device, large)
    return (x, dy.T.contiguous(), out, T, K), options, grid


def reference(args):
    x, dy, out = args[:3]
    want = torch.zeros(out.shape, device=x.device)
    for part in torch.arange(x.shape[0], device=x.device).split(8000):
        want += dy[part].float().T @ x[part].float()
    return [want]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Only as many programs as blocks of columns, two dozen, each walking all tokens one tile after another; the tokens are split over thirty programs a block, added with atomics."
CAUSE_B = "The gradient tile is transposed in every step; it is stored transposed beforehand and loaded as the product wants it."
