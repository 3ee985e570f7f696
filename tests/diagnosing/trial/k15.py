"""Row statistics (sum, sum of squares, largest magnitude) of long half rows, for calibration."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=2e-3, atol=0.5)
outputs = [1]


@triton.jit
def kernel(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    square = 0.0
    peak = 0.0
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        v = tl.load(x + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        total += tl.sum(v, axis=0)
        square += tl.sum(v * v, axis=0)
        peak = tl.maximum(peak, tl.max(tl.abs(v), axis=0))
    tl.store(out + row, total)
    tl.store(out + M + row, square)
    tl.store(out + 2 * M + row, peak)


def _make(device, large):
    M, N = (2112, 65536) if large else (4, 4096)
    g = torch.Generator(device=device).manual_seed(15)
    x = torch.randn((M, N), device=device, dtype=torch.float16, generator=g)
    return (x, torch.empty((3, M), device=device), M, N)


def arguments(device, large):
    a = _make(device, large)
    return (
        a,
        dict(BLOCK=2048 if large else 512, num_warps=16 if large else 4, num_stages=1),
        (a[2],),
    )


def reference(args):
    out = []
    for part in args[0].split(256):
        f = part.float()
        out.append(torch.stack((f.sum(1), (f * f).sum(1), f.abs().amax(1))))
    return [torch.cat(out, 1)]


@triton.jit
def kernel_a(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    square = 0.0
    peak = 0.0
    for off in tl.range(0, N, BLOCK, num_stages=4):
        cols = off + tl.arange(0, BLOCK)
        v = tl.load(x + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        total += tl.sum(v, axis=0)
        square += tl.sum(v * v, axis=0)
        peak = tl.maximum(peak, tl.max(tl.abs(v), axis=0))
    tl.store(out + row, total)
    tl.store(out + M + row, square)
    tl.store(out + 2 * M + row, peak)


@triton.jit
def kernel_b(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    square = tl.zeros((BLOCK,), tl.float32)
    peak = tl.zeros((BLOCK,), tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        v = tl.load(x + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        total += v
        square += v * v
        peak = tl.maximum(peak, tl.abs(v))
    tl.store(out + row, tl.sum(total, axis=0))
    tl.store(out + M + row, tl.sum(square, axis=0))
    tl.store(out + 2 * M + row, tl.max(peak, axis=0))


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, reference=reference, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, reference=reference, outputs=outputs)
DOMINANT = "b"
CAUSE_A = "The loop's load is used at once, without overlap; tl.range(num_stages=4) prefetches the next blocks."
CAUSE_B = "Three reductions over all 16 warps, with shared memory and barriers, in every iteration; element-wise accumulators reduced once after the loop leave only loads and adds in it."
LINE_A = "for off in range(0, N, BLOCK):"
LINE_B = "total += tl.sum(v, axis=0)"
