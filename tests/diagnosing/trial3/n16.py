"""Embedding bag, sum over the rows of a large table named by a ragged index list (fp16 table, fp32 sums)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [3]
TOL = dict(atol=1e-3, rtol=1e-3)


@triton.jit
def kernel(table_ptr, index_ptr, offset_ptr, o_ptr, D: tl.constexpr):
    bag = tl.program_id(0)
    d = tl.arange(0, D)
    lo = tl.load(offset_ptr + bag)
    hi = tl.load(offset_ptr + bag + 1)
    acc = tl.zeros([D], tl.float32)
    for i in range(lo, hi):
        row = tl.load(index_ptr + i).to(tl.int64)
        acc += tl.load(table_ptr + row * D + d).to(tl.float32)
    tl.store(o_ptr + bag * D + d, acc)


@triton.jit
def kernel_a(table_ptr, index_ptr, offset_ptr, o_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    bag = tl.program_id(0)
    d = tl.arange(0, D)
    lo = tl.load(offset_ptr + bag)
    hi = tl.load(offset_ptr + bag + 1)
    acc = tl.zeros([BLOCK, D], tl.float32)
    for start in range(lo, hi, BLOCK):
        i = start + tl.arange(0, BLOCK)
        rows = tl.load(index_ptr + i, mask=i < hi, other=0).to(tl.int64)
        acc += tl.load(
            table_ptr + rows[:, None] * D + d[None, :], mask=(i < hi)[:, None], other=0.0
        ).to(tl.float32)
    tl.store(o_ptr + bag * D + d, tl.sum(acc, 0))


@triton.jit
def kernel_b(table_ptr, index_ptr, offset_ptr, o_ptr, order_ptr, D: tl.constexpr):
    bag = tl.load(order_ptr + tl.program_id(0))
    d = tl.arange(0, D)
    lo = tl.load(offset_ptr + bag)
    hi = tl.load(offset_ptr + bag + 1)
    acc = tl.zeros([D], tl.float32)
    for i in range(lo, hi):
        row = tl.load(index_ptr + i).to(tl.int64)
        acc += tl.load(table_ptr + row * D + d).to(tl.float32)
    tl.store(o_ptr + bag * D + d, acc)


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(16)
    rows, bags, longest, D = (1000003, 20000, 128, 128) if large else (101, 6, 40, 32)
    table = torch.randn((rows, D), generator=g, device=device, dtype=torch.float16)
    lengths = torch.randint(1, longest, (bags,), generator=g, device=device)
    offsets = torch.zeros(bags + 1, device=device, dtype=torch.int32)
    offsets[1:] = lengths.cumsum(0)
    index = torch.randint(
        0, rows, (int(offsets[-1]),), generator=g, device=device, dtype=torch.int32
    )
    out = torch.full((bags, D), float("nan"), device=device)
    return (table, index, offsets, out), dict(D=D, num_warps=4, num_stages=3), (bags, 1, 1)


def arguments_a(device, large=False):
    args, options, grid = arguments(device, large)
    return args, dict(options, BLOCK=16), grid


def arguments_b(device, large=False):
    args, options, grid = arguments(device, large)
    order = (args[2][1:] - args[2][:-1]).argsort(descending=True).to(torch.int32)
    return (*args, order), options, grid


def reference(args):
    table, index, offsets, out = args[:4]
    lengths = (offsets[1:] - offsets[:-1]).long()
    bag = torch.repeat_interleave(torch.arange(lengths.numel(), device=table.device), lengths)
    want = torch.zeros(out.shape, device=table.device)
    for part in torch.arange(index.numel(), device=table.device).split(200000):
        want.index_add_(0, bag[part], table[index[part].long()].float())
    return [want]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
CAUSE_A = "One index and then one row are fetched at a time, so each program waits a memory latency per row; sixteen rows are now gathered at once."
CAUSE_B = "Bags differ much in length and come in random order, so long ones end late; the longest are now started first."
