"""Twelve first kernels, right as they stand; slips.toml says what a beginner wrote instead."""

import math  # noqa: F401  a slip uses it

import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 2 * x, mask=mask)


def double(x):
    out = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, 32),)
    double_kernel[grid](x, out, n, BLOCK_SIZE=32)
    return out


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)  # noqa: E731  as the tutorials have it
    add_kernel[grid](x, y, out, n, BLOCK_SIZE=32)
    return out


@triton.jit
def flip_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + n - 1 - offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x, mask=offsets < n)


def flip(x):
    out = torch.empty_like(x)
    flip_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK_SIZE=32)
    return out


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.maximum(x, 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


def relu(x):
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK_SIZE=32)
    return out


@triton.jit
def gate_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    a = tl.load(a_ptr + offsets, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
    out = a * tl.sigmoid(a) * b
    tl.store(out_ptr + offsets, out, mask=mask)


def gate(a, b):
    out = torch.empty_like(a)
    gate_kernel[(triton.cdiv(a.numel(), 32),)](a, b, out, a.numel(), BLOCK_SIZE=32)
    return out


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    top = tl.max(x, axis=0)
    numerator = tl.exp(x - top)
    tl.store(out_ptr + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    block_size = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, n_cols, BLOCK_SIZE=block_size)
    return out


@triton.jit
def center_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    offsets = rows[:, None] * n_cols + cols[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    mean = tl.sum(x, axis=1) / n_cols
    tl.store(out_ptr + offsets, x - mean[:, None], mask=mask)


def center(x):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    center_kernel[(triton.cdiv(n_rows, 16),)](x, out, n_rows, n_cols, BLOCK_M=16, BLOCK_N=64)
    return out


@triton.jit
def bias_kernel(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    offsets = rows[:, None] * stride + cols[None, :]
    x = tl.load(x_ptr + offsets, mask=mask)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols)
    y = x + bias[None, :]
    tl.store(out_ptr + offsets, y, mask=mask)


def bias(x, b):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(n_rows, 16), triton.cdiv(n_cols, 32))
    bias_kernel[grid](x, b, out, n_rows, n_cols, x.stride(0), BLOCK_M=16, BLOCK_N=32)
    return out


@triton.jit
def transpose_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask)
    out_offsets = cols[:, None] * n_rows + rows[None, :]
    tl.store(out_ptr + out_offsets, x.T, mask=mask.T)


def transpose(x):
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n_rows, 16), triton.cdiv(n_cols, 32))
    transpose_kernel[grid](x, out, n_rows, n_cols, BLOCK_M=16, BLOCK_N=32)
    return out


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a_mask = (rows[:, None] < M) & (ks[None, :] < K)
        b_mask = (ks[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], mask=b_mask, other=0.0)
        acc += tl.dot(a, b)
    c_mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=c_mask)


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 32))
    matmul_kernel[grid](a, b, c, M, N, K, BLOCK_M=16, BLOCK_N=32, BLOCK_K=16)
    return c


@triton.jit
def total_kernel(x_ptr, total_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    part = tl.sum(x, axis=0)
    tl.atomic_add(total_ptr, part)


def total(x):
    out = torch.zeros(1, dtype=x.dtype, device=x.device)
    total_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK_SIZE=32)
    return out


@triton.jit
def tile_kernel(x_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, [n_rows, n_cols], [n_cols, 1], [BLOCK_M, BLOCK_N])
    out_desc = tl.make_tensor_descriptor(out_ptr, [n_rows, n_cols], [n_cols, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    x = x_desc.load([row, col])
    out_desc.store([row, col], 2 * x)


def tile(x):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(n_rows, 16), triton.cdiv(n_cols, 32))
    tile_kernel[grid](x, out, n_rows, n_cols, BLOCK_M=16, BLOCK_N=32)
    return out
