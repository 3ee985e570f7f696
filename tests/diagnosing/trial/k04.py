"""Embedding bag (sum): gather L rows of a table per bag, with a padding index."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=1e-3, atol=1e-3)
outputs = [2]


@triton.jit
def kernel(table, idx, out, L, D, BLOCK_D: tl.constexpr, CHUNK: tl.constexpr):
    bag = tl.program_id(0)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    acc = tl.zeros((BLOCK_D,), tl.float32)
    for j in range(L):
        r = tl.load(idx + bag * L + j)
        if r >= 0:
            acc += tl.load(table + r * D + d)
    tl.store(out + bag * D + d, acc)


def _make(device, large):
    V, D, bags, L = (65536, 512, 512, 384) if large else (100, 64, 4, 32)
    g = torch.Generator(device=device).manual_seed(4)
    table = torch.randn((V, D), device=device, generator=g)
    idx = torch.randint(0, V, (bags, L), device=device, generator=g)
    idx = torch.where(torch.rand((bags, L), device=device, generator=g) < 0.03, -1, idx)
    return (table, idx, torch.empty((bags, D), device=device), L, D)


def arguments(device, large):
    a = _make(device, large)
    return a, dict(BLOCK_D=a[4], CHUNK=16, num_warps=4, num_stages=1), (a[1].shape[0], 1)


def reference(args):
    table, idx = args[0], args[1]
    out = []
    for part in idx.split(64):
        rows = table[part.clamp(min=0)] * (part >= 0)[..., None]
        out.append(rows.sum(1))
    return [torch.cat(out)]


@triton.jit
def kernel_a(table, idx, out, L, D, BLOCK_D: tl.constexpr, CHUNK: tl.constexpr):
    bag = tl.program_id(0)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    acc = tl.zeros((BLOCK_D,), tl.float32)
    for j in range(0, L, CHUNK):
        jj = j + tl.arange(0, CHUNK)
        r = tl.load(idx + bag * L + jj, mask=jj < L, other=-1)
        rows = tl.load(table + r[:, None] * D + d[None, :], mask=(r >= 0)[:, None], other=0.0)
        acc += tl.sum(rows, axis=0)
    tl.store(out + bag * D + d, acc)


def arguments_b(device, large):
    a = _make(device, large)
    B = a[4] // 4
    return a, dict(BLOCK_D=B, CHUNK=16, num_warps=1, num_stages=1), (a[1].shape[0], 4)


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, reference=reference, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, reference=reference, outputs=outputs)
DOMINANT = "a"
CAUSE_A = "A chain of dependent loads without overlap: each iteration loads an index, branches on it, loads one row and adds it, so a program has one row in flight; gathering 16 rows at once overlaps them."
CAUSE_B = "The grid is small (512 programs, one per bag); splitting the columns over four one-warp programs per bag gives 2048 programs."
LINE_A = "acc += tl.load(table + r * D + d)"
LINE_B = "bag = tl.program_id(0)"
