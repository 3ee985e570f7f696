"""Packing of signs into bits, 32 values a word (fp32 in, int32 out)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1]
TOL = dict(atol=0, rtol=0)


@triton.jit
def kernel(x_ptr, out_ptr, n_words, BLOCK: tl.constexpr):
    words = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = words < n_words
    acc = tl.zeros((BLOCK,), dtype=tl.int32)
    for j in range(32):
        x = tl.load(x_ptr + words * 32 + j, mask=mask, other=0.0)
        acc |= (x > 0).to(tl.int32) << j
    tl.store(out_ptr + words, acc, mask=mask)


@triton.jit
def kernel_a(x_ptr, out_ptr, n_words, BLOCK: tl.constexpr):
    words = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = words < n_words
    j = tl.arange(0, 32)
    x = tl.load(x_ptr + words[:, None] * 32 + j[None, :], mask=mask[:, None], other=0.0)
    acc = tl.sum((x > 0).to(tl.int32) << j[None, :], axis=1)
    tl.store(out_ptr + words, acc, mask=mask)


def arguments(device, large=False):
    n = 3_000_001 if large else 100
    g = torch.Generator(device=device).manual_seed(6)
    x = torch.randn(n * 32, device=device, generator=g)
    out = torch.zeros(n, device=device, dtype=torch.int32)
    block = 256 if large else 32
    return (x, out, n), dict(BLOCK=block, num_warps=4, num_stages=3), (triton.cdiv(n, block),)


def arguments_a(device, large=False):
    args, options, _ = arguments(device, large)
    options["BLOCK"] = 64 if large else 32
    return args, options, (triton.cdiv(args[2], options["BLOCK"]),)


def arguments_b(device, large=False):
    args, options, grid = arguments(device, large)
    options["num_warps"] = 8
    return args, options, grid


def reference(args):
    x, _, n = args
    bits = (x.view(n, 32) > 0).long() << torch.arange(32, device=x.device)
    return [bits.sum(1).to(torch.int32)]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Neighbouring lanes read values 128 bytes apart at each step of the loop; a tile read along the 32 values of a word and summed is contiguous."
CAUSE_B = "A thread walks two words, a long serial chain of loads; eight warps give each thread one word and twice as many warps to hide the latency."
