"""Layout change from padded to packed: the real tokens of every sequence, back to back (bf16)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [2]
TOL = dict(atol=0.0, rtol=0.0)


@triton.jit
def kernel(x_ptr, cu_ptr, o_ptr, B, S, D: tl.constexpr):
    token = tl.program_id(0)
    d = tl.arange(0, D)
    seq = 0
    end = tl.load(cu_ptr + 1)
    while end <= token:
        seq += 1
        end = tl.load(cu_ptr + seq + 1)
    pos = token - tl.load(cu_ptr + seq)
    row = seq.to(tl.int64) * S + pos
    tl.store(o_ptr + token.to(tl.int64) * D + d, tl.load(x_ptr + row * D + d))


@triton.jit
def kernel_a(x_ptr, cu_ptr, o_ptr, B, S, D: tl.constexpr):
    token = tl.program_id(0)
    d = tl.arange(0, D)
    seq = 0
    end = tl.load(cu_ptr + 1, eviction_policy="evict_last")
    while end <= token:
        seq += 1
        end = tl.load(cu_ptr + seq + 1, eviction_policy="evict_last")
    pos = token - tl.load(cu_ptr + seq, eviction_policy="evict_last")
    row = seq.to(tl.int64) * S + pos
    x = tl.load(x_ptr + row * D + d, eviction_policy="evict_first")
    tl.store(o_ptr + token.to(tl.int64) * D + d, x, eviction_policy="evict_first")


@triton.jit
def kernel_b(x_ptr, cu_ptr, o_ptr, B, S, D: tl.constexpr, BLOCK_B: tl.constexpr):
    token = tl.program_id(0)
    d = tl.arange(0, D)
    b = tl.arange(0, BLOCK_B)
    end = tl.load(cu_ptr + 1 + b, mask=b < B, other=2147483647)
    seq = tl.sum((end <= token).to(tl.int32), 0)
    pos = token - tl.load(cu_ptr + seq)
    row = seq.to(tl.int64) * S + pos
    tl.store(o_ptr + token.to(tl.int64) * D + d, tl.load(x_ptr + row * D + d))


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(21)
    B, S, D = (500, 384, 1024) if large else (7, 12, 64)
    x = torch.randn((B, S, D), generator=g, device=device, dtype=torch.bfloat16)
    lengths = torch.randint(S // 12, S + 1, (B,), generator=g, device=device)
    cu = torch.zeros(B + 1, device=device, dtype=torch.int32)
    cu[1:] = lengths.cumsum(0)
    total = int(cu[-1])
    out = torch.full((total, D), float("nan"), device=device, dtype=torch.bfloat16)
    return (x, cu, out, B, S), dict(D=D, num_warps=4, num_stages=3), (total, 1, 1)


def arguments_b(device, large=False):
    args, options, grid = arguments(device, large)
    return args, dict(options, BLOCK_B=triton.next_power_of_2(args[3])), grid


def reference(args):
    x, cu = args[:2]
    lengths = cu[1:] - cu[:-1]
    real = torch.arange(x.shape[1], device=x.device)[None, :] < lengths[:, None]
    return [x[real].float()]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Rows that are used once push the sequence offsets out of the caches; cache hints keep the offsets and let the rows go."
CAUSE_B = "Each program finds its token's sequence by stepping through the offsets, one dependent load and branch after another; all offsets are now compared at once and counted."
