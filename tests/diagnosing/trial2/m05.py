"""Graph aggregation: sparse (CSR) times dense, Y[r, :] = sum over the row's entries of val * X[col, :], 128 features."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [4]
TOL = dict(atol=2e-2, rtol=2e-3)
CHUNK = 256


@triton.jit
def kernel(ptr_ptr, col_ptr, val_ptr, x_ptr, y_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin = tl.load(ptr_ptr + row)
    end = tl.load(ptr_ptr + row + 1)
    f = tl.arange(0, F)
    acc = tl.zeros([F], tl.float32)
    for p in range(begin, end, BLOCK):
        e = p + tl.arange(0, BLOCK)
        col = tl.load(col_ptr + e, mask=e < end, other=0)
        val = tl.load(val_ptr + e, mask=e < end, other=0.0)
        x = tl.load(x_ptr + col[:, None] * F + f[None, :])
        acc += tl.sum(val[:, None] * x, axis=0)
    tl.store(y_ptr + row * F + f, acc)


@triton.jit
def kernel_a(chunk_ptr, col_ptr, val_ptr, x_ptr, y_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.program_id(0) * 4
    row = tl.load(chunk_ptr + c)
    begin = tl.load(chunk_ptr + c + 1)
    end = tl.load(chunk_ptr + c + 2)
    alone = tl.load(chunk_ptr + c + 3)
    f = tl.arange(0, F)
    acc = tl.zeros([F], tl.float32)
    for p in range(begin, end, BLOCK):
        e = p + tl.arange(0, BLOCK)
        col = tl.load(col_ptr + e, mask=e < end, other=0)
        val = tl.load(val_ptr + e, mask=e < end, other=0.0)
        x = tl.load(x_ptr + col[:, None] * F + f[None, :])
        acc += tl.sum(val[:, None] * x, axis=0)
    if alone == 1:
        tl.store(y_ptr + row * F + f, acc)
    else:
        tl.atomic_add(y_ptr + row * F + f, acc, sem="relaxed")


@triton.jit
def kernel_b(ptr_ptr, col_ptr, val_ptr, x_ptr, y_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin = tl.load(ptr_ptr + row)
    end = tl.load(ptr_ptr + row + 1)
    f = tl.arange(0, F)
    acc = tl.zeros([F], tl.float32)
    for p in range(begin, end, BLOCK):
        e = p + tl.arange(0, BLOCK)
        col = tl.load(col_ptr + e, mask=e < end, other=0)
        val = tl.load(val_ptr + e, mask=e < end, other=0.0)
        x = tl.load(x_ptr + col[:, None] * F + f[None, :]).to(tl.float32)
        acc += tl.sum(val[:, None] * x, axis=0)
    tl.store(y_ptr + row * F + f, acc)


def _lengths(large):
    """Entries of each row; of a few rows very many."""
    rows, low, high, hubs, hub = (32768, 16, 48, 8, 8192) if large else (24, 0, 9, 2, 150)
    g = torch.Generator().manual_seed(5)
    length = torch.randint(low, high + 1, (rows,), generator=g)
    length[torch.randperm(rows, generator=g)[:hubs]] = hub
    ptr = torch.zeros(rows + 1, dtype=torch.int64)
    ptr[1:] = length.cumsum(0)
    return length, ptr


def _make(device, large):
    _, ptr = _lengths(large)
    cols, nnz = 32768 if large else 64, int(ptr[-1])
    g = torch.Generator(device=device).manual_seed(5)
    col = torch.randint(0, cols, (nnz,), generator=g, device=device, dtype=torch.int32)
    val = torch.rand((nnz,), generator=g, device=device, dtype=torch.float32)
    x = torch.randn((cols, 128), generator=g, device=device, dtype=torch.float32)
    x = x.to(torch.float16).to(torch.float32)
    y = torch.zeros((ptr.numel() - 1, 128), device=device, dtype=torch.float32)
    return ptr.to(torch.int32).to(device), col, val, x, y


OPTIONS = dict(F=128, BLOCK=16, num_warps=4, num_stages=3)


def arguments(device, large):
    a = _make(device, large)
    return a, OPTIONS, (a[4].shape[0],)


def arguments_a(device, large):
    length, ptr = _lengths(large)
    pieces = (length + CHUNK - 1) // CHUNK
    row = torch.repeat_interleave(torch.arange(length.numel()), pieces)
    nth = torch.arange(row.numel()) - (pieces.cumsum(0) - pieces)[row]
    begin = ptr[row] + nth * CHUNK
    end = torch.minimum(begin + CHUNK, ptr[row + 1])
    table = torch.stack([row, begin, end, (pieces[row] == 1).long()], 1).to(torch.int32)
    _, *rest = _make(device, large)
    return (table.to(device), *rest), OPTIONS, (table.shape[0],)


def arguments_b(device, large):
    ptr, col, val, x, y = _make(device, large)
    return (ptr, col, val, x.to(torch.float16), y), OPTIONS, (y.shape[0],)


def reference(args):
    ptr, col, val, x, y = args
    rows = y.shape[0]
    row = torch.repeat_interleave(torch.arange(rows, device=x.device), (ptr[1:] - ptr[:-1]).long())
    out = torch.zeros((rows, 128), device=x.device, dtype=torch.float64)
    for i in range(0, row.numel(), 1 << 18):
        j = slice(i, i + (1 << 18))
        out.index_add_(0, row[j], (val[j, None] * x[col[j].long()]).double())
    return [out.float()]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
DOMINANT = "a"
CAUSE_A = "The work of a program is the length of its row, and a few rows are hundreds of times longer than the rest."
CAUSE_B = "The gathered rows of X are four bytes a feature: twice the gather traffic that fp16 would need."
