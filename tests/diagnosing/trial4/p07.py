"""Gravitational accelerations of N bodies by direct summation, with softening (fp64 in and out)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [4, 5, 6]
TOL = dict(atol=1e-3, rtol=1e-3)


@triton.jit
def kernel(
    x_ptr,
    y_ptr,
    z_ptr,
    m_ptr,
    ax_ptr,
    ay_ptr,
    az_ptr,
    soft_ptr,
    n,
    BLOCK_I: tl.constexpr,
    BLOCK_J: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
    xi = tl.load(x_ptr + i, mask=i < n, other=0.0)
    yi = tl.load(y_ptr + i, mask=i < n, other=0.0)
    zi = tl.load(z_ptr + i, mask=i < n, other=0.0)
    soft = tl.load(soft_ptr)
    ax = tl.zeros((BLOCK_I, BLOCK_J), dtype=x_ptr.dtype.element_ty)
    ay = tl.zeros((BLOCK_I, BLOCK_J), dtype=x_ptr.dtype.element_ty)
    az = tl.zeros((BLOCK_I, BLOCK_J), dtype=x_ptr.dtype.element_ty)
    for start in range(0, n, BLOCK_J):
        j = start + tl.arange(0, BLOCK_J)
        dx = tl.load(x_ptr + j, mask=j < n, other=0.0)[None, :] - xi[:, None]
        dy = tl.load(y_ptr + j, mask=j < n, other=0.0)[None, :] - yi[:, None]
        dz = tl.load(z_ptr + j, mask=j < n, other=0.0)[None, :] - zi[:, None]
        m = tl.load(m_ptr + j, mask=j < n, other=0.0)
        r2 = dx * dx + dy * dy + dz * dz + soft
        w = m[None, :] / (r2 * tl.sqrt(r2))
        ax += w * dx
        ay += w * dy
        az += w * dz
    tl.store(ax_ptr + i, tl.sum(ax, 1), mask=i < n)
    tl.store(ay_ptr + i, tl.sum(ay, 1), mask=i < n)
    tl.store(az_ptr + i, tl.sum(az, 1), mask=i < n)


@triton.jit
def kernel_a(
    x_ptr,
    y_ptr,
    z_ptr,
    m_ptr,
    ax_ptr,
    ay_ptr,
    az_ptr,
    soft_ptr,
    n,
    BLOCK_I: tl.constexpr,
    BLOCK_J: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
    xi = tl.load(x_ptr + i, mask=i < n, other=0.0)
    yi = tl.load(y_ptr + i, mask=i < n, other=0.0)
    zi = tl.load(z_ptr + i, mask=i < n, other=0.0)
    soft = tl.load(soft_ptr)
    ax = tl.zeros((BLOCK_I, BLOCK_J), dtype=x_ptr.dtype.element_ty)
    ay = tl.zeros((BLOCK_I, BLOCK_J), dtype=x_ptr.dtype.element_ty)
    az = tl.zeros((BLOCK_I, BLOCK_J), dtype=x_ptr.dtype.element_ty)
    for start in range(0, n, BLOCK_J):
        j = start + tl.arange(0, BLOCK_J)
        dx = tl.load(x_ptr + j, mask=j < n, other=0.0)[None, :] - xi[:, None]
        dy = tl.load(y_ptr + j, mask=j < n, other=0.0)[None, :] - yi[:, None]
        dz = tl.load(z_ptr + j, mask=j < n, other=0.0)[None, :] - zi[:, None]
        m = tl.load(m_ptr + j, mask=j < n, other=0.0)
        r2 = dx * dx + dy * dy + dz * dz + soft
        inv = tl.rsqrt(r2)
        w = m[None, :] * (inv * inv * inv)
        ax += w * dx
        ay += w * dy
        az += w * dz
    tl.store(ax_ptr + i, tl.sum(ax, 1), mask=i < n)
    tl.store(ay_ptr + i, tl.sum(ay, 1), mask=i < n)
    tl.store(az_ptr + i, tl.sum(az, 1), mask=i < n)


def arguments(device, large=False):
    n = 16_000 if large else 100
    g = torch.Generator(device=device).manual_seed(407)
    x, y, z, m = (torch.rand(n, device=device, generator=g, dtype=torch.float64) for _ in range(4))
    out = [torch.full_like(x, float("nan")) for _ in range(3)]
    soft = torch.full((1,), 1e-2, device=device, dtype=torch.float64)
    bi, bj = (32, 32) if large else (16, 32)
    return (
        (x, y, z, m / n, *out, soft, n),
        dict(BLOCK_I=bi, BLOCK_J=bj, num_warps=4, num_stages=3),
        (triton.cdiv(n, bi),),
    )


def arguments_b(device, large=False):
    args, options, grid = arguments(device, large)
    return (*(t.float() for t in args[:8]), args[8]), options, grid


def reference(args):
    x, y, z, m, _, _, _, soft, _ = args
    parts = []
    for rows in torch.arange(len(x), device=x.device).split(2000):
        dx, dy, dz = (t[None, :] - t[rows, None] for t in (x, y, z))
        w = m[None, :] * (dx * dx + dy * dy + dz * dz + soft).pow(-1.5)
        parts.append(torch.stack([(w * t).sum(1) for t in (dx, dy, dz)]))
    return list(torch.cat(parts, 1))


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Each pair pays for a square root and a division; one reciprocal square root and three products give the same."
CAUSE_B = "All arithmetic is in double precision, whose roots and divisions are long sequences of instructions; single precision is enough here."
