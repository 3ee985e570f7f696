"""AdamW over many tensors of different sizes in one launch (fp32 parameters, gradients and moments, packed one after another)."""

# ruff: noqa: C408, E501 (kept as it was timed)

import random
from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [4, 5, 6]
TOL = dict(atol=1e-4, rtol=1e-4)


@triton.jit
def kernel(
    p_ptr,
    g_ptr,
    m_ptr,
    v_ptr,
    po_ptr,
    mo_ptr,
    vo_ptr,
    start_ptr,
    end_ptr,
    step_ptr,
    lr,
    beta1,
    beta2,
    eps,
    wd,
    BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    start = tl.load(start_ptr + pid)
    end = tl.load(end_ptr + pid)
    step = tl.load(step_ptr + pid)
    for base in range(start, end, BLOCK):
        offs = base + tl.arange(0, BLOCK)
        mask = offs < end
        p = tl.load(p_ptr + offs, mask=mask)
        g = tl.load(g_ptr + offs, mask=mask)
        m = tl.load(m_ptr + offs, mask=mask)
        v = tl.load(v_ptr + offs, mask=mask)
        m = beta1 * m + (1.0 - beta1) * g
        v = beta2 * v + (1.0 - beta2) * g * g
        mhat = m / (1.0 - tl.exp(step * tl.log(beta1)))
        vhat = v / (1.0 - tl.exp(step * tl.log(beta2)))
        p = p - lr * (mhat / (tl.sqrt(vhat) + eps) + wd * p)
        tl.store(po_ptr + offs, p, mask=mask)
        tl.store(mo_ptr + offs, m, mask=mask)
        tl.store(vo_ptr + offs, v, mask=mask)


@triton.jit
def kernel_a(
    p_ptr,
    g_ptr,
    m_ptr,
    v_ptr,
    po_ptr,
    mo_ptr,
    vo_ptr,
    start_ptr,
    end_ptr,
    step_ptr,
    lr,
    beta1,
    beta2,
    eps,
    wd,
    BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    start = tl.load(start_ptr + pid)
    end = tl.load(end_ptr + pid)
    step = tl.load(step_ptr + pid)
    c1 = lr / (1.0 - tl.exp(step * tl.log(beta1)))
    c2 = tl.rsqrt(1.0 - tl.exp(step * tl.log(beta2)))
    decay = 1.0 - lr * wd
    for base in range(start, end, BLOCK):
        offs = base + tl.arange(0, BLOCK)
        mask = offs < end
        p = tl.load(p_ptr + offs, mask=mask)
        g = tl.load(g_ptr + offs, mask=mask)
        m = tl.load(m_ptr + offs, mask=mask)
        v = tl.load(v_ptr + offs, mask=mask)
        m = beta1 * m + (1.0 - beta1) * g
        v = beta2 * v + (1.0 - beta2) * g * g
        p = decay * p - c1 * (m / (tl.sqrt(v) * c2 + eps))
        tl.store(po_ptr + offs, p, mask=mask)
        tl.store(mo_ptr + offs, m, mask=mask)
        tl.store(vo_ptr + offs, v, mask=mask)


def sizes(large):
    rng = random.Random(4)
    if not large:
        return [100, 33, 260, 17]
    s = [rng.randrange(1_600_000, 2_000_000) for _ in range(5)] + [
        rng.randrange(200_000, 400_000) for _ in range(20)
    ]
    s += [rng.randrange(2_000, 16_000) for _ in range(600)]
    s = [16 * (i // 16) for i in s]
    rng.shuffle(s)
    return s


def table(large, chunk):
    rng = random.Random(5)
    starts, ends, steps, at = [], [], [], 0
    for size in sizes(large):
        step = float(rng.randrange(1, 50))
        for s in range(0, size, chunk or size):
            starts.append(at + s)
            ends.append(min(at + size, at + s + (chunk or size)))
            steps.append(step)
        at += size
    return starts, ends, steps, at


def build(device, large, chunk):
    starts, ends, steps, total = table(large, chunk)
    g = torch.Generator(device=device).manual_seed(4)
    p = torch.randn(total, device=device, generator=g)
    gr = torch.randn(total, device=device, generator=g)
    m = torch.randn(total, device=device, generator=g) * 0.1
    v = torch.rand(total, device=device, generator=g) + 0.05
    outs = [torch.full_like(p, float("nan")) for _ in range(3)]
    i32 = lambda t: torch.tensor(t, dtype=torch.int32, device=device)  # noqa: E731
    args = (
        p,
        gr,
        m,
        v,
        *outs,
        i32(starts),
        i32(ends),
        torch.tensor(steps, device=device),
        1e-2,
        0.9,
        0.999,
        1e-8,
        0.1,
    )
    return args, dict(BLOCK=2048 if large else 64, num_warps=8, num_stages=3), (len(starts),)


def arguments(device, large=False):
    return build(device, large, 0)


def arguments_b(device, large=False):
    return build(device, large, 8192 if large else 128)


def reference(args):
    p, g, m, v, _, _, _, start, end, step, lr, beta1, beta2, eps, wd = args
    step = torch.repeat_interleave(step.double(), (end - start).long())
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    mhat = m / (1 - beta1**step).float()
    vhat = v / (1 - beta2**step).float()
    return [p - lr * (mhat / (vhat.sqrt() + eps) + wd * p), m, v]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Bias corrections and divisions by them are done again for each element instead of being folded into two scalars for each tensor."
CAUSE_B = "One program walks a whole tensor, so that the few large tensors run alone at the end; chunks of equal size spread them over all multiprocessors."
