"""The 64 largest of each row of 4096, in order (fp32)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1]
TOL = dict(atol=0.0, rtol=0.0)


@triton.jit
def kernel(x_ptr, o_ptr, N, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + n, mask=n < N, other=-float("inf"))
    x = tl.sort(x, descending=True)
    tl.store(o_ptr + row * K + n, x, mask=n < K)


@triton.jit
def kernel_b(x_ptr, o_ptr, N, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + n, mask=n < N, other=-float("inf"))
    x = tl.topk(x, K)
    tl.store(o_ptr + row * K + tl.arange(0, K), x)


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(25)
    R, N, block, K = (6000, 4000, 4096, 64) if large else (3, 60, 64, 8)
    x = torch.randn((R, N), generator=g, device=device)
    out = torch.full((R, K), float("nan"), device=device)
    return (x, out, N), dict(BLOCK=block, K=K, num_warps=4, num_stages=3), (R, 1, 1)


def arguments_a(device, large=False):
    args, options, grid = arguments(device, large)
    return args, dict(options, num_warps=8), grid


def reference(args):
    return [torch.topk(args[0], args[1].shape[1], dim=1).values]


mend_a = SimpleNamespace(kernel=kernel, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, outputs=outputs)
CAUSE_A = "Four warps are few for a row of 4096, 32 elements a thread; eight warps share it."
CAUSE_B = "The whole row is sorted though 64 of it are wanted; a partial sort keeps the best 64 while it merges."
