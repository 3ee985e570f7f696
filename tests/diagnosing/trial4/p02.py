"""Calibration statistics of a classifier: per confidence bin the count, summed confidence and number correct (fp32)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [4]
TOL = dict(atol=3.0, rtol=1e-3)


@triton.jit
def kernel(
    conf_ptr,
    pred_ptr,
    label_ptr,
    edges_ptr,
    out_ptr,
    n,
    bins,
    BLOCK: tl.constexpr,
    BINS: tl.constexpr,
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    conf = tl.load(conf_ptr + offs, mask=mask, other=0.5)
    pred = tl.load(pred_ptr + offs, mask=mask, other=0)
    label = tl.load(label_ptr + offs, mask=mask, other=1)
    edges = tl.load(edges_ptr + tl.arange(0, BINS))
    which = tl.sum((conf[:, None] > edges[None, :]).to(tl.int32), 1) - 1
    hit = (pred == label).to(tl.float32)
    one = tl.full((BLOCK,), 1.0, dtype=tl.float32)
    tl.atomic_add(out_ptr + which, one, mask=mask, sem="relaxed")
    tl.atomic_add(out_ptr + BINS + which, conf, mask=mask, sem="relaxed")
    tl.atomic_add(out_ptr + 2 * BINS + which, hit, mask=mask, sem="relaxed")


@triton.jit
def kernel_a(
    conf_ptr,
    pred_ptr,
    label_ptr,
    edges_ptr,
    out_ptr,
    n,
    bins,
    BLOCK: tl.constexpr,
    BINS: tl.constexpr,
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    conf = tl.load(conf_ptr + offs, mask=mask, other=0.5)
    pred = tl.load(pred_ptr + offs, mask=mask, other=0)
    label = tl.load(label_ptr + offs, mask=mask, other=1)
    b = tl.arange(0, BINS)
    edges = tl.load(edges_ptr + b)
    which = tl.sum((conf[:, None] > edges[None, :]).to(tl.int32), 1) - 1
    hit = (pred == label).to(tl.float32)
    mine = (which[:, None] == b[None, :]) & mask[:, None]
    tl.atomic_add(out_ptr + b, tl.sum(mine.to(tl.float32), 0), mask=b < bins, sem="relaxed")
    tl.atomic_add(
        out_ptr + BINS + b,
        tl.sum(tl.where(mine, conf[:, None], 0.0), 0),
        mask=b < bins,
        sem="relaxed",
    )
    tl.atomic_add(
        out_ptr + 2 * BINS + b,
        tl.sum(tl.where(mine, hit[:, None], 0.0), 0),
        mask=b < bins,
        sem="relaxed",
    )


@triton.jit
def kernel_b(
    conf_ptr,
    pred_ptr,
    label_ptr,
    edges_ptr,
    out_ptr,
    n,
    bins,
    BLOCK: tl.constexpr,
    BINS: tl.constexpr,
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    conf = tl.load(conf_ptr + offs, mask=mask, other=0.5)
    pred = tl.load(pred_ptr + offs, mask=mask, other=0)
    label = tl.load(label_ptr + offs, mask=mask, other=1)
    which = tl.minimum(tl.ceil(conf * bins).to(tl.int32) - 1, bins - 1)
    hit = (pred == label).to(tl.float32)
    one = tl.full((BLOCK,), 1.0, dtype=tl.float32)
    tl.atomic_add(out_ptr + which, one, mask=mask, sem="relaxed")
    tl.atomic_add(out_ptr + BINS + which, conf, mask=mask, sem="relaxed")
    tl.atomic_add(out_ptr + 2 * BINS + which, hit, mask=mask, sem="relaxed")


def arguments(device, large=False):
    n, bins, width = 1_000_000 if large else 1000, 15, 16
    g = torch.Generator(device=device).manual_seed(402)
    conf = torch.rand(n, device=device, generator=g).clamp(min=1e-6).sqrt()
    pred = torch.randint(0, 10, (n,), device=device, generator=g, dtype=torch.int32)
    noise = torch.rand(n, device=device, generator=g) > conf
    label = (pred + noise.to(torch.int32)) % 10
    edges = torch.full((width,), float("inf"), device=device)
    edges[:bins] = torch.arange(bins, device=device) / bins
    out = torch.zeros(3, width, device=device)
    block = 1024 if large else 128
    return (
        (conf, pred, label, edges, out, n, bins),
        dict(BLOCK=block, BINS=width, num_warps=4, num_stages=3),
        (triton.cdiv(n, block),),
    )


def reference(args):
    conf, pred, label, edges, out, _, _ = args
    which = (conf[:, None] > edges[None, :]).sum(1) - 1
    want = torch.zeros(out.shape, device=conf.device, dtype=torch.float64)
    for row, value in enumerate((torch.ones_like(conf), conf, pred == label)):
        want[row].index_add_(0, which, value.double())
    return [want]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, outputs=outputs)
CAUSE_A = "Every sample adds atomically to the same 45 addresses and they queue; a program now sums its own samples for each bin and adds once."
CAUSE_B = "The bin is found by comparing each confidence with every edge; the bins are equally wide, so one product and a rounding do."
