"""Dequantization of GPTQ-packed int4 weights, eight in an int32, with a scale and zero point for each group (to bf16)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [3]
TOL = dict(atol=3e-2, rtol=1.6e-2)


@triton.jit
def kernel(q_ptr, scale_ptr, zero_ptr, w_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    word = tl.load(q_ptr + (offs >> 3), mask=mask, other=0)
    q = (word >> ((offs & 7) << 2)) & 15
    group = offs >> SHIFT
    scale = tl.load(scale_ptr + group, mask=mask, other=0.0).to(tl.float32)
    zeros = tl.load(zero_ptr + (group >> 3), mask=mask, other=0)
    zero = (zeros >> ((group & 7) << 2)) & 15
    tl.store(w_ptr + offs, ((q - zero) * scale).to(tl.bfloat16), mask=mask)


@triton.jit
def kernel_a(q_ptr, scale_ptr, shift_ptr, w_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    word = tl.load(q_ptr + (offs >> 3), mask=mask, other=0)
    q = (word >> ((offs & 7) << 2)) & 15
    group = offs >> SHIFT
    scale = tl.load(scale_ptr + group, mask=mask, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + group, mask=mask, other=0.0)
    tl.store(w_ptr + offs, (q * scale + shift).to(tl.bfloat16), mask=mask)


@triton.jit
def kernel_b(q_ptr, scale_ptr, zero_ptr, w_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * (BLOCK // 8) + tl.arange(0, BLOCK // 8)
    nibble = tl.arange(0, 8)
    mask = at < n // 8
    word = tl.load(q_ptr + at, mask=mask, other=0)
    q = (word[:, None] >> (nibble << 2)[None, :]) & 15
    group = at >> (SHIFT - 3)
    scale = tl.load(scale_ptr + group, mask=mask, other=0.0).to(tl.float32)
    zeros = tl.load(zero_ptr + (group >> 3), mask=mask, other=0)
    zero = (zeros >> ((group & 7) << 2)) & 15
    w = (q - zero[:, None]) * scale[:, None]
    tl.store(w_ptr + at[:, None] * 8 + nibble[None, :], w.to(tl.bfloat16), mask=mask[:, None])


def arguments(device, large=False):
    n, shift = (16_384 * 8192, 7) if large else (40 * 64, 6)
    g = torch.Generator(device=device).manual_seed(412)
    pack = lambda size: torch.randint(
        -(2**31), 2**31, (size,), device=device, generator=g, dtype=torch.int32
    )  # noqa: E731
    groups = n >> shift
    q, zero = pack(n // 8), pack(groups // 8)
    scale = torch.rand(groups, device=device, generator=g).to(torch.bfloat16)
    w = torch.full((n,), float("nan"), device=device, dtype=torch.bfloat16)
    block = 2048 if large else 256
    return (
        (q, scale, zero, w, n),
        dict(SHIFT=shift, BLOCK=block, num_warps=4, num_stages=3),
        (triton.cdiv(n, block),),
    )


def unpack(words):
    nibbles = torch.arange(0, 32, 4, device=words.device, dtype=torch.int32)
    return ((words[:, None] >> nibbles) & 15).flatten().float()


def arguments_a(device, large=False):
    (q, scale, zero, w, n), options, grid = arguments(device, large)
    return (q, scale, -unpack(zero) * scale.float(), w, n), options, grid


def reference(args):
    q, scale, zero, _, n = args
    w = unpack(q).view(len(scale), -1)
    return [((w - unpack(zero)[:, None]) * scale[:, None].float()).view(n)]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, outputs=outputs)
CAUSE_A = "The zero point is unpacked anew for every weight; a shift multiplied out beforehand saves the unpacking."
CAUSE_B = "Every weight loads its own word, scale and zero point, three narrow loads with their addresses; a word is now loaded once for its eight weights, with one scale and zero point."
