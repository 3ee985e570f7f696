"""Mixture-of-experts router: the top 8 of 256 experts of each token with softmax weights (fp32 in, fp32 and int32 out)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1, 2]
TOL = dict(atol=1e-5, rtol=1e-4)


@triton.jit
def kernel(logit_ptr, weight_ptr, id_ptr, E: tl.constexpr, TOP: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    e = tl.arange(0, E)
    slot = tl.arange(0, TOP)
    x = tl.load(logit_ptr + token * E + e)
    top = tl.full([TOP], float("-inf"), tl.float32)
    ids = tl.zeros([TOP], tl.int32)
    for i in tl.static_range(TOP):
        value, index = tl.max(x, axis=0, return_indices=True)
        top = tl.where(slot == i, value, top)
        ids = tl.where(slot == i, index, ids)
        x = tl.where(e == index, float("-inf"), x)
    w = tl.exp(top - tl.max(top, axis=0))
    tl.store(weight_ptr + token * TOP + slot, w / tl.sum(w, axis=0))
    tl.store(id_ptr + token * TOP + slot, ids)


@triton.jit
def kernel_b(logit_ptr, weight_ptr, id_ptr, E: tl.constexpr, TOP: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    e = tl.arange(0, E)
    slot = tl.arange(0, TOP)
    x = tl.load(logit_ptr + token * E + e)
    bits = x.to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    key = (bits.to(tl.int64) << 32) | (E - 1 - e).to(tl.int64)
    keys = tl.zeros([TOP], tl.int64)
    for i in tl.static_range(TOP):
        best = tl.max(key, axis=0)
        keys = tl.where(slot == i, best, keys)
        key = tl.where(key == best, -0x7FFFFFFFFFFFFFFF, key)
    bits = (keys >> 32).to(tl.int32)
    top = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    w = tl.exp(top - tl.max(top, axis=0))
    tl.store(weight_ptr + token * TOP + slot, w / tl.sum(w, axis=0))
    tl.store(id_ptr + token * TOP + slot, E - 1 - (keys & (E - 1)).to(tl.int32))


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(17)
    tokens, E, top = (131072, 256, 8) if large else (20, 32, 4)
    rank = torch.rand((tokens, E), generator=g, device=device).argsort(1).float()
    shift = torch.rand((tokens, 1), generator=g, device=device)
    logits = rank * (8 / E) - 4 + shift
    weights = torch.full((tokens, top), float("nan"), device=device)
    ids = torch.full((tokens, top), -1, device=device, dtype=torch.int32)
    return (logits, weights, ids), dict(E=E, TOP=top, num_warps=4), (tokens,)


def arguments_a(device, large=False):
    args, options, grid = arguments(device, large)
    return args, dict(options, num_warps=1), grid


def reference(args):
    logits, weights, _ = args
    top, ids = torch.topk(logits, weights.shape[1], dim=1)
    return [torch.softmax(top, 1), ids.float()]


mend_a = SimpleNamespace(kernel=kernel, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, outputs=outputs)
CAUSE_A = "Four warps share a row of 256 values, so that each of eight dependent reductions goes through shared memory and barriers; one warp reduces with shuffles alone."
CAUSE_B = "Each reduction carries a value and an index with two comparisons; one packed 64-bit key carries both."
