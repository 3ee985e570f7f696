"""Group-wise dequantisation int8 -> half of a packed matrix whose rows end in one extra byte."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=2e-3, atol=2e-3)
outputs = [2]


@triton.jit
def kernel(q, scale, out, N, sq, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(q + row * sq + cols)
    s = tl.load(scale + row * (N // GROUP) + cols // GROUP)
    tl.store(out + row * N + cols, (v.to(tl.float32) * s).to(tl.float16))


def _make(device, large, extra):
    M, N, G = (16384, 8192, 128) if large else (8, 512, 64)
    g = torch.Generator(device=device).manual_seed(6)
    q = torch.randint(-127, 128, (M, N + extra), device=device, dtype=torch.int8, generator=g)[
        :, :N
    ]
    scale = torch.rand((M, N // G), device=device, generator=g) * 0.01 + 0.001
    out = torch.empty((M, N), device=device, dtype=torch.float16)
    return (q, scale, out, N, q.stride(0)), G


def _launch(device, large, extra):
    a, G = _make(device, large, extra)
    B = 2048 if large else 256
    return a, dict(GROUP=G, BLOCK=B, num_warps=4, num_stages=1), (a[0].shape[0], a[3] // B)


def arguments(device, large):
    return _launch(device, large, 1)


def arguments_b(device, large):
    return _launch(device, large, 16)


def reference(args):
    q, s = args[0], args[1]
    return [q.float() * s.repeat_interleave(q.shape[1] // s.shape[1], dim=1)]


@triton.jit
def kernel_a(q, scale, out, N, sq, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    grp = tl.program_id(1) * (BLOCK // GROUP) + tl.arange(0, BLOCK // GROUP)
    cols = grp[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    v = tl.load(q + row * sq + cols)
    s = tl.load(scale + row * (N // GROUP) + grp)
    tl.store(out + row * N + cols, (v.to(tl.float32) * s[:, None]).to(tl.float16))


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, reference=reference, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, reference=reference, outputs=outputs)
DOMINANT = "b"
CAUSE_A = "The scale is loaded once for every element (a gather by cols // GROUP) although 128 neighbours share it; a (group, column) tile loads one scale per group."
CAUSE_B = "The int8 rows have an odd stride (8193 bytes), so the compiler cannot prove alignment and loads one byte at a time; a row stride of 8208, a multiple of 16, gives vector loads."
LINE_A = "s = tl.load(scale + row * (N // GROUP) + cols // GROUP)"
LINE_B = "v = tl.load(q + row * sq + cols)"
