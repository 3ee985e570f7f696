"""Sparse (CSR) matrix times a dense matrix of 64 columns, rows of very different length (fp16 in, fp32 out)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [4]
TOL = dict(atol=2e-1, rtol=2e-3)


@triton.jit
def kernel(ptr_ptr, col_ptr, val_ptr, b_ptr, o_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, D)
    lo = tl.load(ptr_ptr + row)
    hi = tl.load(ptr_ptr + row + 1)
    acc = tl.zeros([BLOCK, D], tl.float32)
    for start in range(lo, hi, BLOCK):
        i = start + tl.arange(0, BLOCK)
        col = tl.load(col_ptr + i, mask=i < hi, other=0)
        val = tl.load(val_ptr + i, mask=i < hi, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + col[:, None] * D + d[None, :], mask=(i < hi)[:, None], other=0.0).to(
            tl.float32
        )
        acc += val[:, None] * b
    tl.store(o_ptr + row * D + d, tl.sum(acc, 0))


@triton.jit
def kernel_a(
    row_ptr, lo_ptr, hi_ptr, col_ptr, val_ptr, b_ptr, o_ptr, D: tl.constexpr, BLOCK: tl.constexpr
):
    item = tl.program_id(0)
    d = tl.arange(0, D)
    row = tl.load(row_ptr + item)
    lo = tl.load(lo_ptr + item)
    hi = tl.load(hi_ptr + item)
    acc = tl.zeros([BLOCK, D], tl.float32)
    for start in range(lo, hi, BLOCK):
        i = start + tl.arange(0, BLOCK)
        col = tl.load(col_ptr + i, mask=i < hi, other=0)
        val = tl.load(val_ptr + i, mask=i < hi, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + col[:, None] * D + d[None, :], mask=(i < hi)[:, None], other=0.0).to(
            tl.float32
        )
        acc += val[:, None] * b
    tl.atomic_add(o_ptr + row * D + d, tl.sum(acc, 0), sem="relaxed")


@triton.jit
def kernel_b(
    ptr_ptr, col_ptr, val_ptr, b_ptr, o_ptr, order_ptr, D: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.load(order_ptr + tl.program_id(0))
    d = tl.arange(0, D)
    lo = tl.load(ptr_ptr + row)
    hi = tl.load(ptr_ptr + row + 1)
    acc = tl.zeros([BLOCK, D], tl.float32)
    for start in range(lo, hi, BLOCK):
        i = start + tl.arange(0, BLOCK)
        col = tl.load(col_ptr + i, mask=i < hi, other=0)
        val = tl.load(val_ptr + i, mask=i < hi, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + col[:, None] * D + d[None, :], mask=(i < hi)[:, None], other=0.0).to(
            tl.float32
        )
        acc += val[:, None] * b
    tl.store(o_ptr + row * D + d, tl.sum(acc, 0))


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(24)
    M, K, D, hub, block = (60000, 60000, 64, 30000, 32) if large else (9, 50, 16, 45, 16)
    lengths = (
        (torch.randn((M,), generator=g, device=device).exp() * (30 if large else 5))
        .long()
        .clamp(max=hub)
    )
    lengths[torch.randint(0, M, (4,), generator=g, device=device)] = hub
    ptr = torch.zeros(M + 1, device=device, dtype=torch.int32)
    ptr[1:] = lengths.cumsum(0)
    nnz = int(ptr[-1])
    col = torch.randint(0, K, (nnz,), generator=g, device=device, dtype=torch.int32)
    val = torch.randn((nnz,), generator=g, device=device, dtype=torch.float16)
    b = torch.randn((K, D), generator=g, device=device, dtype=torch.float16)
    out = torch.zeros((M, D), device=device)
    return (ptr, col, val, b, out), dict(D=D, BLOCK=block, num_warps=4, num_stages=3), (M, 1, 1)


def arguments_a(device, large=False):
    (ptr, col, val, b, out), options, (M, _, _) = arguments(device, large)
    chunk = 512 if large else 16
    lengths = (ptr[1:] - ptr[:-1]).long()
    pieces = (lengths + chunk - 1) // chunk
    row = torch.repeat_interleave(torch.arange(M, device=ptr.device), pieces)
    piece = torch.arange(row.numel(), device=ptr.device) - (pieces.cumsum(0) - pieces)[row]
    lo = ptr[row].long() + piece * chunk
    hi = torch.minimum(lo + chunk, ptr[row + 1].long())
    return (row.int(), lo.int(), hi.int(), col, val, b, out), options, (row.numel(), 1, 1)


def arguments_b(device, large=False):
    args, options, grid = arguments(device, large)
    order = (args[0][1:] - args[0][:-1]).argsort(descending=True).to(torch.int32)
    return (*args, order), options, grid


def reference(args):
    ptr, col, val, b, out = args[:5]
    row = torch.repeat_interleave(
        torch.arange(out.shape[0], device=ptr.device), (ptr[1:] - ptr[:-1]).long()
    )
    want = torch.zeros(out.shape, device=ptr.device, dtype=torch.float64)
    for part in torch.arange(col.numel(), device=ptr.device).split(500000):
        want.index_add_(0, row[part], val[part, None].double() * b[col[part].long()].double())
    return [want.float()]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=[6])
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
CAUSE_A = "A program takes a whole row, and a few rows are hundreds of times longer than the rest, so the end is spent waiting for them; rows are cut into pieces of at most 512 entries."
CAUSE_B = "Rows start in the order they are stored, so a long one may start last; rows are started longest first."
