"""Leapfrog step of the 3D acoustic wave equation, 7-point Laplacian (fp32)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [3]
TOL = dict(atol=1e-4, rtol=1e-4)


@triton.jit
def kernel(u_ptr, old_ptr, c_ptr, new_ptr, NX, NY, NZ, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    z = offs % NZ
    y = (offs // NZ) % NY
    x = offs // (NY * NZ)
    inside = (x > 0) & (x < NX - 1) & (y > 0) & (y < NY - 1) & (z > 0) & (z < NZ - 1)
    u = tl.load(u_ptr + offs, mask=inside, other=0.0)
    old = tl.load(old_ptr + offs, mask=inside, other=0.0)
    c = tl.load(c_ptr + offs, mask=inside, other=0.0)
    around = tl.load(u_ptr + offs - 1, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + 1, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs - NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs - NY * NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + NY * NZ, mask=inside, other=0.0)
    tl.store(new_ptr + offs, 2.0 * u - old + c * (around - 6.0 * u), mask=offs < n)


@triton.jit
def kernel_a(u_ptr, old_ptr, c_ptr, new_ptr, NX, NY, NZ, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    z = offs % NZ
    y = (offs // NZ) % NY
    x = offs // (NY * NZ)
    inside = (x > 0) & (x < NX - 1) & (y > 0) & (y < NY - 1) & (z > 0) & (z < NZ - 1)
    u = tl.load(u_ptr + offs, mask=inside, other=0.0)
    old = tl.load(old_ptr + offs, mask=inside, other=0.0, eviction_policy="evict_first")
    c = tl.load(c_ptr + offs, mask=inside, other=0.0, eviction_policy="evict_first")
    around = tl.load(u_ptr + offs - 1, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + 1, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs - NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs - NY * NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + NY * NZ, mask=inside, other=0.0, eviction_policy="evict_last")
    new = 2.0 * u - old + c * (around - 6.0 * u)
    tl.store(new_ptr + offs, new, mask=offs < n, cache_modifier=".cs")


@triton.jit
def kernel_b(u_ptr, old_ptr, c_ptr, new_ptr, NX, NY, NZ, BY: tl.constexpr, BZ: tl.constexpr):
    z = (tl.program_id(0) * BZ + tl.arange(0, BZ))[None, :]
    y = (tl.program_id(1) * BY + tl.arange(0, BY))[:, None]
    x = tl.program_id(2)
    offs = x.to(tl.int64) * (NY * NZ) + (y * NZ + z)
    inside = (
        (y > 0) & (y < NY - 1) & (z > 0) & (z < NZ - 1) & (x + 0 * y > 0) & (x + 0 * y < NX - 1)
    )
    u = tl.load(u_ptr + offs, mask=inside, other=0.0)
    old = tl.load(old_ptr + offs, mask=inside, other=0.0)
    c = tl.load(c_ptr + offs, mask=inside, other=0.0)
    around = tl.load(u_ptr + offs - 1, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + 1, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs - NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs - NY * NZ, mask=inside, other=0.0)
    around += tl.load(u_ptr + offs + NY * NZ, mask=inside, other=0.0)
    new = 2.0 * u - old + c * (around - 6.0 * u)
    tl.store(new_ptr + offs, new, mask=(y < NY) & (z < NZ))


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(20)
    shape = (400, 400, 384) if large else (6, 7, 20)
    u = torch.randn(shape, generator=g, device=device)
    old = torch.randn(shape, generator=g, device=device)
    c = torch.rand(shape, generator=g, device=device) * 0.15
    new = torch.full(shape, float("nan"), device=device)
    n = u.numel()
    block = 1024 if large else 128
    return ((u, old, c, new, *shape, n), dict(BLOCK=block, num_warps=4), (triton.cdiv(n, block),))


def arguments_b(device, large=False):
    (u, old, c, new, NX, NY, NZ, _), _, _ = arguments(device, large)
    BY, BZ = (8, 128) if large else (4, 16)
    return (
        (u, old, c, new, NX, NY, NZ),
        dict(BY=BY, BZ=BZ, num_warps=4),
        (triton.cdiv(NZ, BZ), triton.cdiv(NY, BY), NX),
    )


def reference(args):
    u, old, c = args[:3]
    i = slice(1, -1)
    around = u[:-2, i, i] + u[2:, i, i] + u[i, :-2, i] + u[i, 2:, i] + u[i, i, :-2] + u[i, i, 2:]
    new = torch.zeros_like(u)
    u = u[i, i, i]
    new[i, i, i] = 2 * u - old[i, i, i] + c[i, i, i] * (around - 6 * u)
    return [new]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Values read once push the neighbours' planes out of the caches; policies keep the planes and stream the others."
CAUSE_B = "Three 64-bit divisions and remainders of every cell's flat index cost more instructions than the stencil; a grid of three dimensions needs none."
