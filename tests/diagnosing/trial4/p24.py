"""Softmax of attention scores with a pair bias shared by the batch (fp16 scores, fp32 bias, fp16 out)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [2]
TOL = dict(atol=1e-3, rtol=1e-2)


@triton.jit
def kernel(s_ptr, bias_ptr, o_ptr, H, T, scale, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    h = tl.program_id(1)
    b = tl.program_id(2)
    j = tl.arange(0, BLOCK)
    row = ((b * H + h) * T + t).to(tl.int64) * T
    s = tl.load(s_ptr + row + j, mask=j < T, other=float("-inf")).to(tl.float32)
    bias = tl.load(bias_ptr + (h * T + t).to(tl.int64) * T + j, mask=j < T, other=0.0)
    s = s * scale + bias
    e = tl.exp(s - tl.max(s, axis=0))
    tl.store(o_ptr + row + j, (e / tl.sum(e, axis=0)).to(tl.float16), mask=j < T)


@triton.jit
def kernel_b(s_ptr, bias_ptr, o_ptr, H, T, scale, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    t = tl.program_id(1)
    h = tl.program_id(2)
    j = tl.arange(0, BLOCK)
    row = ((b * H + h) * T + t).to(tl.int64) * T
    s = tl.load(s_ptr + row + j, mask=j < T, other=float("-inf")).to(tl.float32)
    bias = tl.load(bias_ptr + (h * T + t).to(tl.int64) * T + j, mask=j < T, other=0.0)
    s = s * scale + bias
    e = tl.exp(s - tl.max(s, axis=0))
    tl.store(o_ptr + row + j, (e / tl.sum(e, axis=0)).to(tl.float16), mask=j < T)


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(24)
    B, H, T = (4, 8, 2000) if large else (2, 2, 20)
    s = torch.randn((B, H, T, T), generator=g, device=device, dtype=torch.float16)
    bias = torch.randn((H, T, T), generator=g, device=device)
    out = torch.full((B, H, T, T), float("nan"), device=device, dtype=torch.float16)
    options = dict(BLOCK=triton.next_power_of_2(T), num_warps=4)
    return (s, bias, out, H, T, 0.5), options, (T, H, B)


def arguments_a(device, large=False):
    args, options, grid = arguments(device, large)
    return args, dict(options, num_warps=8), grid


def arguments_b(device, large=False):
    args, options, (T, H, B) = arguments(device, large)
    return args, options, (B, T, H)


def reference(args):
    s, bias, _, _, _, scale = args
    want = torch.empty(s.shape, device=s.device)
    for b in range(s.shape[0]):
        want[b] = torch.softmax(s[b].float() * scale + bias, -1)
    return [want]


mend_a = SimpleNamespace(kernel=kernel, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Four warps on a row of two thousand values hold too many registers for enough rows in flight; eight are used."
CAUSE_B = "The batch is the slowest part of the grid, so that the bias, larger than L2, is read from memory for each element of the batch; with the batch first it is read once."
