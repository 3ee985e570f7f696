"""Bias gradient of a linear layer: db[n] = sum over rows of dY[m, n] (fp16 in, fp32 out)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1]
TOL = dict(atol=2e-2, rtol=2e-3)


@triton.jit
def kernel(dy_ptr, db_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    acc = tl.zeros([BLOCK_N], dtype=tl.float32)
    for start in range(0, M, BLOCK_M):
        r = start + rows
        tile = tl.load(
            dy_ptr + r[:, None] * N + cols[None, :],
            mask=(r[:, None] < M) & (cols[None, :] < N),
            other=0.0,
        )
        acc += tl.sum(tile.to(tl.float32), axis=0)
    tl.store(db_ptr + cols, acc, mask=cols < N)


@triton.jit
def kernel_a(dy_ptr, db_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, M, BLOCK_M):
        r = start + rows
        tile = tl.load(
            dy_ptr + r[:, None] * N + cols[None, :],
            mask=(r[:, None] < M) & (cols[None, :] < N),
            other=0.0,
        )
        acc += tile.to(tl.float32)
    tl.store(db_ptr + cols, tl.sum(acc, axis=0), mask=cols < N)


@triton.jit
def kernel_b(dy_ptr, db_ptr, M, N, ROWS, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    first = tl.program_id(1) * ROWS
    last = tl.minimum(first + ROWS, M)
    acc = tl.zeros([BLOCK_N], dtype=tl.float32)
    for start in range(first, last, BLOCK_M):
        r = start + rows
        tile = tl.load(
            dy_ptr + r[:, None] * N + cols[None, :],
            mask=(r[:, None] < last) & (cols[None, :] < N),
            other=0.0,
        )
        acc += tl.sum(tile.to(tl.float32), axis=0)
    tl.atomic_add(db_ptr + cols, acc, mask=cols < N, sem="relaxed")


def _make(device, large):
    M, N = (65536, 2048) if large else (384, 128)
    g = torch.Generator(device=device).manual_seed(1)
    dy = torch.randn((M, N), generator=g, device=device, dtype=torch.float16) * 0.1
    return dy, torch.zeros((N,), device=device, dtype=torch.float32), M, N


OPTIONS = dict(BLOCK_M=128, BLOCK_N=64, num_warps=4, num_stages=3)


def arguments(device, large):
    a = _make(device, large)
    return a, OPTIONS, (triton.cdiv(a[3], 64),)


def arguments_b(device, large):
    a = _make(device, large)
    rows = 2048 if large else 128
    return (*a, rows), OPTIONS, (triton.cdiv(a[3], 64), triton.cdiv(a[2], rows))


def reference(args):
    return [args[0].float().sum(0)]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
DOMINANT = "b"
CAUSE_A = "The sum over the rows of a tile is taken across the warps (shared memory and a barrier) in every iteration."
CAUSE_B = "Far fewer programs than multiprocessors, each walking down all the rows."
