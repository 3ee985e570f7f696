"""Bias and tanh-GELU of a feed-forward layer's hidden activations (bf16)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [2]
TOL = dict(atol=2e-2, rtol=1.6e-2)


@triton.jit
def kernel(x_ptr, b_ptr, y_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    x = tl.load(x_ptr + row * D + d, mask=mask).to(tl.float32)
    x += tl.load(b_ptr + d, mask=mask).to(tl.float32)
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tanh = (tl.exp(u) - tl.exp(-u)) / (tl.exp(u) + tl.exp(-u))
    tl.store(y_ptr + row * D + d, (0.5 * x * (1.0 + tanh)).to(tl.bfloat16), mask=mask)


@triton.jit
def kernel_a(x_ptr, b_ptr, y_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    x = tl.load(x_ptr + row * D + d, mask=mask).to(tl.float32)
    x += tl.load(b_ptr + d, mask=mask).to(tl.float32)
    u = 2.302208198 * (x + 0.044715 * x * x * x)
    tl.store(y_ptr + row * D + d, (x / (1.0 + tl.exp2(-u))).to(tl.bfloat16), mask=mask)


def arguments(device, large=False):
    rows, D = (16_384, 5120) if large else (6, 300)
    g = torch.Generator(device=device).manual_seed(408)
    x = torch.randn(rows, D, device=device, generator=g).to(torch.bfloat16)
    b = torch.randn(D, device=device, generator=g).to(torch.bfloat16)
    y = torch.full_like(x, float("nan"))
    block = 128 if large else 64
    return (
        (x, b, y, D),
        dict(BLOCK=block, num_warps=4, num_stages=3),
        (triton.cdiv(D, block), rows),
    )


def arguments_b(device, large=False):
    args, options, grid = arguments(device, large)
    block = 1024 if large else 256
    return args, dict(options, BLOCK=block), (triton.cdiv(args[3], block), grid[1])


def reference(args):
    x, b = args[:2]
    return [torch.nn.functional.gelu(x.float() + b.float(), approximate="tanh")]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel, arguments=arguments_b, outputs=outputs)
CAUSE_A = "The tanh is written out with four exponentials; gelu is x times a sigmoid, with one exponential."
CAUSE_B = "650 thousand programs of 128 elements, one element of two bytes for each thread, so that starting programs costs more than their work; 1024 elements for each program are eight for each thread."
