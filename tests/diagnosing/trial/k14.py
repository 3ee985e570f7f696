"""Adam step on bfloat16 state; the hyper-parameters come in a float64 tensor."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=2e-2, atol=1e-5)
outputs = [0, 2, 3]


@triton.jit
def kernel(p, g, m, v, hyper, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    lr = tl.load(hyper)
    b1 = tl.load(hyper + 1)
    b2 = tl.load(hyper + 2)
    eps = tl.load(hyper + 3)
    c1 = tl.load(hyper + 4)
    c2 = tl.load(hyper + 5)
    gv = tl.load(g + i, mask=keep, other=0.0).to(tl.float32)
    mv = b1 * tl.load(m + i, mask=keep, other=0.0).to(tl.float32) + (1 - b1) * gv
    vv = b2 * tl.load(v + i, mask=keep, other=0.0).to(tl.float32) + (1 - b2) * gv * gv
    step = lr * (mv / c1) / (tl.sqrt(vv / c2) + eps)
    pv = tl.load(p + i, mask=keep, other=0.0).to(tl.float32) - step
    tl.store(p + i, pv.to(tl.float32).to(tl.bfloat16), mask=keep)
    tl.store(m + i, mv.to(tl.float32).to(tl.bfloat16), mask=keep)
    tl.store(v + i, vv.to(tl.float32).to(tl.bfloat16), mask=keep)


def _make(device, large):
    n = 32 * 1024 * 1024 if large else 4096
    gen = torch.Generator(device=device).manual_seed(14)
    p = torch.randn((n,), device=device, dtype=torch.bfloat16, generator=gen)
    g = torch.randn((n,), device=device, dtype=torch.bfloat16, generator=gen)
    m = torch.randn((n,), device=device, dtype=torch.bfloat16, generator=gen) * 0.1
    v = torch.rand((n,), device=device, dtype=torch.bfloat16, generator=gen) + 0.01
    t, b1, b2 = 10, 0.9, 0.999
    hyper = torch.tensor(
        [1e-3, b1, b2, 1e-8, 1 - b1**t, 1 - b2**t], dtype=torch.float64, device=device
    )
    return (p, g, m, v, hyper, n)


def _launch(device, large, B):
    a = _make(device, large)
    return a, dict(BLOCK=B, num_warps=4, num_stages=1), (triton.cdiv(a[5], B),)


def arguments(device, large):
    return _launch(device, large, 512)


def arguments_b(device, large):
    return _launch(device, large, 1024)


def reference(args):
    p, g, m, v, hyper, n = args
    lr, b1, b2, eps, c1, c2 = hyper.tolist()
    p, g, m, v = (t.float() for t in (p, g, m, v))
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    p = p - lr * (m / c1) / ((v / c2).sqrt() + eps)
    return [t.to(torch.bfloat16) for t in (p, m, v)]


@triton.jit
def kernel_a(p, g, m, v, hyper, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    lr = tl.load(hyper).to(tl.float32)
    b1 = tl.load(hyper + 1).to(tl.float32)
    b2 = tl.load(hyper + 2).to(tl.float32)
    eps = tl.load(hyper + 3).to(tl.float32)
    c1 = tl.load(hyper + 4).to(tl.float32)
    c2 = tl.load(hyper + 5).to(tl.float32)
    gv = tl.load(g + i, mask=keep, other=0.0).to(tl.float32)
    mv = b1 * tl.load(m + i, mask=keep, other=0.0).to(tl.float32) + (1 - b1) * gv
    vv = b2 * tl.load(v + i, mask=keep, other=0.0).to(tl.float32) + (1 - b2) * gv * gv
    step = lr * (mv / c1) / (tl.sqrt(vv / c2) + eps)
    pv = tl.load(p + i, mask=keep, other=0.0).to(tl.float32) - step
    tl.store(p + i, pv.to(tl.float32).to(tl.bfloat16), mask=keep)
    tl.store(m + i, mv.to(tl.float32).to(tl.bfloat16), mask=keep)
    tl.store(v + i, vv.to(tl.float32).to(tl.bfloat16), mask=keep)


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, reference=reference, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, reference=reference, outputs=outputs)
DOMINANT = "a"
CAUSE_A = "Accidental double precision: the float64 hyper-parameters promote every element's arithmetic, with its divisions and square root, to float64; casting the scalars to float32 keeps it single."
CAUSE_B = "Blocks too small: 512 elements in 128 threads is an 8-byte load per array; 1024 give 16-byte loads and half the programs."
LINE_A = "lr = tl.load(hyper)"
LINE_B = "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
