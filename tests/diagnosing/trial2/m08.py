"""Router of a mixture of experts: softmax over 256 experts, the best 8 of each token and their weights made to sum to one."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1, 2]
TOL = dict(atol=1e-4, rtol=1e-3)


@triton.jit
def kernel(x_ptr, w_ptr, id_ptr, E: tl.constexpr, TOPK: tl.constexpr):
    token = tl.program_id(0)
    e = tl.arange(0, E)
    j = tl.arange(0, TOPK)
    x = tl.load(x_ptr + token * E + e)
    p = tl.exp(x - tl.max(x, axis=0))
    p = p / tl.sum(p, axis=0)
    w = tl.zeros([TOPK], tl.float32)
    ids = tl.zeros([TOPK], tl.int32)
    for i in tl.static_range(TOPK):
        best, at = tl.max(p, axis=0, return_indices=True)
        w = tl.where(j == i, best, w)
        ids = tl.where(j == i, at, ids)
        p = tl.where(e == at, -1.0, p)
    w = w / tl.sum(w, axis=0)
    tl.store(w_ptr + token * TOPK + j, w)
    tl.store(id_ptr + token * TOPK + j, ids)


@triton.jit
def kernel_b(x_ptr, w_ptr, id_ptr, E: tl.constexpr, TOPK: tl.constexpr):
    token = tl.program_id(0)
    e = tl.arange(0, E)
    j = tl.arange(0, TOPK)
    x = tl.load(x_ptr + token * E + e)
    w = tl.zeros([TOPK], tl.float32)
    ids = tl.zeros([TOPK], tl.int32)
    for i in tl.static_range(TOPK):
        best, at = tl.max(x, axis=0, return_indices=True)
        w = tl.where(j == i, best, w)
        ids = tl.where(j == i, at, ids)
        x = tl.where(e == at, float("-inf"), x)
    w = tl.exp(w - tl.max(w, axis=0))
    w = w / tl.sum(w, axis=0)
    tl.store(w_ptr + token * TOPK + j, w)
    tl.store(id_ptr + token * TOPK + j, ids)


def arguments(device, large, num_warps=8):
    T = 131072 if large else 12
    g = torch.Generator(device=device).manual_seed(8)
    order = torch.rand((T, 256), generator=g, device=device).argsort(1)
    x = (order.to(torch.float32) - 128.0) * 0.03  # each row a shuffle of distinct scores: no ties
    w = torch.zeros((T, 8), device=device, dtype=torch.float32)
    ids = torch.zeros((T, 8), device=device, dtype=torch.int32)
    return (x, w, ids), dict(E=256, TOPK=8, num_warps=num_warps, num_stages=3), (T,)


def arguments_a(device, large):
    return arguments(device, large, num_warps=1)


def reference(args):
    v, i = torch.topk(args[0], 8, dim=1)
    return [torch.softmax(v, 1), i.to(torch.int32)]


mend_a = SimpleNamespace(kernel=kernel, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, outputs=outputs)
DOMINANT = "a"
CAUSE_A = "256 values are spread over eight warps, so every round of the search meets at barriers in shared memory; here one warp."
CAUSE_B = (
    "The exponentials and the sum of all 256 experts, though only the eight chosen ones matter."
)
