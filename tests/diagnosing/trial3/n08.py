"""Rotary position embedding of all heads with rescaled frequencies for long contexts, halves layout (bf16 in and out, fp32 angles)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1]
TOL = dict(atol=4e-2, rtol=2e-2)


@triton.jit
def kernel(
    x_ptr,
    y_ptr,
    pos_ptr,
    T,
    log2_base,
    context,
    factor,
    H: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    head = tl.program_id(1)
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    i = tl.arange(0, HALF)
    mask = (t < T)[:, None]
    pos = tl.load(pos_ptr + t, mask=t < T, other=0).to(tl.float32)
    freq = tl.exp2(-(i.to(tl.float32) / HALF) * log2_base)
    smooth = tl.clamp((context * freq * 0.15915494309189535 - 1.0) / 3.0, 0.0, 1.0)
    freq = (1.0 - smooth) * freq / factor + smooth * freq
    angle = pos[:, None] * freq[None, :]
    cos = tl.cos(angle)
    sin = tl.sin(angle)
    offs = (t[:, None] * H + head) * (2 * HALF) + i[None, :]
    x1 = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    x2 = tl.load(x_ptr + offs + HALF, mask=mask).to(tl.float32)
    tl.store(y_ptr + offs, (x1 * cos - x2 * sin).to(tl.bfloat16), mask=mask)
    tl.store(y_ptr + offs + HALF, (x2 * cos + x1 * sin).to(tl.bfloat16), mask=mask)


@triton.jit
def kernel_a(
    x_ptr,
    y_ptr,
    pos_ptr,
    T,
    log2_base,
    context,
    factor,
    H: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    i = tl.arange(0, HALF)
    mask = (t < T)[:, None]
    pos = tl.load(pos_ptr + t, mask=t < T, other=0).to(tl.float32)
    freq = tl.exp2(-(i.to(tl.float32) / HALF) * log2_base)
    smooth = tl.clamp((context * freq * 0.15915494309189535 - 1.0) / 3.0, 0.0, 1.0)
    freq = (1.0 - smooth) * freq / factor + smooth * freq
    angle = pos[:, None] * freq[None, :]
    cos = tl.cos(angle)
    sin = tl.sin(angle)
    for head in range(H):
        offs = (t[:, None] * H + head) * (2 * HALF) + i[None, :]
        x1 = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
        x2 = tl.load(x_ptr + offs + HALF, mask=mask).to(tl.float32)
        tl.store(y_ptr + offs, (x1 * cos - x2 * sin).to(tl.bfloat16), mask=mask)
        tl.store(y_ptr + offs + HALF, (x2 * cos + x1 * sin).to(tl.bfloat16), mask=mask)


def arguments(device, large=False):
    tokens, heads, half = (28_001, 32, 64) if large else (21, 3, 8)
    g = torch.Generator(device=device).manual_seed(8)
    x = torch.empty(tokens, heads, 2 * half, device=device, dtype=torch.bfloat16).normal_(
        generator=g
    )
    y = torch.full_like(x, float("nan"))
    pos = torch.randint(
        0, 8192 if large else 64, (tokens,), device=device, generator=g, dtype=torch.int32
    )
    block = 16 if large else 8
    return (
        (x, y, pos, tokens, 18.931568569324174, 8192.0, 8.0),
        dict(H=heads, HALF=half, BLOCK_T=block, num_warps=4, num_stages=3),
        (triton.cdiv(tokens, block), heads),
    )


def arguments_a(device, large=False):
    args, options, grid = arguments(device, large)
    return args, options, grid[:1]


def arguments_b(device, large=False):
    args, options, _ = arguments(device, large)
    options.update(BLOCK_T=64 if large else 16, num_warps=8)
    return args, options, (triton.cdiv(args[3], options["BLOCK_T"]), options["H"])


def reference(args):
    x, _, pos, _, log2_base, context, factor = args
    half = x.shape[2] // 2
    freq = torch.exp2(-torch.arange(half, device=x.device).double() / half * log2_base)
    smooth = ((context * freq * 0.15915494309189535 - 1) / 3).clamp(0, 1)
    freq = (1 - smooth) * freq / factor + smooth * freq
    angle = (pos.double()[:, None] * freq)[:, None, :]
    cos, sin = angle.cos().float(), angle.sin().float()
    x1, x2 = x.float()[..., :half], x.float()[..., half:]
    return [torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Sines and cosines are computed again for each of the heads, though they depend on position and frequency only; a loop over heads computes them once."
CAUSE_B = "A program handles only sixteen positions of one head; larger tiles would mean fewer and longer programs."
