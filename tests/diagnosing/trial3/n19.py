"""Router: the eight largest of 96 logits of each token, with their places (fp32 in, fp32 and int32 out)."""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1, 2]
TOL = dict(atol=0.0, rtol=0.0)


@triton.jit
def kernel(x_ptr, value_ptr, place_ptr, T, E, K: tl.constexpr, BLOCK_E: tl.constexpr):
    token = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    x = tl.load(x_ptr + token * E + e, mask=e < E, other=-float("inf"))
    for i in tl.static_range(K):
        value, place = tl.max(x, 0, return_indices=True)
        tl.store(value_ptr + token * K + i, value)
        tl.store(place_ptr + token * K + i, place)
        x = tl.where(e == place, -float("inf"), x)


@triton.jit
def kernel_a(x_ptr, value_ptr, place_ptr, T, E, K: tl.constexpr, BLOCK_E: tl.constexpr):
    token = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    x = tl.load(x_ptr + token * E + e, mask=e < E, other=-float("inf"))
    bits = x.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = (bits.to(tl.int64) << 32) | (BLOCK_E - 1 - e).to(tl.int64)
    for i in tl.static_range(K):
        best = tl.max(key, 0)
        place = BLOCK_E - 1 - (best & 0xFFFFFFFF).to(tl.int32)
        high = (best >> 32).to(tl.int32)
        high = tl.where(high < 0, high ^ 0x7FFFFFFF, high)
        tl.store(value_ptr + token * K + i, high.to(tl.float32, bitcast=True))
        tl.store(place_ptr + token * K + i, place)
        key = tl.where(key == best, -0x7FFFFFFFFFFFFFFF, key)


@triton.jit
def kernel_b(
    x_ptr, value_ptr, place_ptr, T, E, K: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_T: tl.constexpr
):
    token = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    e = tl.arange(0, BLOCK_E)
    ok = token < T
    x = tl.load(
        x_ptr + token[:, None] * E + e[None, :],
        mask=ok[:, None] & (e < E)[None, :],
        other=-float("inf"),
    )
    for i in tl.static_range(K):
        value, place = tl.max(x, 1, return_indices=True)
        tl.store(value_ptr + token * K + i, value, mask=ok)
        tl.store(place_ptr + token * K + i, place, mask=ok)
        x = tl.where(e[None, :] == place[:, None], -float("inf"), x)


def arguments(device, large=False):
    g = torch.Generator(device=device).manual_seed(19)
    T, E, K, BE = (300001, 96, 8, 128) if large else (21, 24, 4, 32)
    x = torch.randn((T, E), generator=g, device=device)
    value = torch.full((T, K), float("nan"), device=device)
    place = torch.full((T, K), -1, device=device, dtype=torch.int32)
    return (x, value, place, T, E), dict(K=K, BLOCK_E=BE, num_warps=4, num_stages=3), (T, 1, 1)


def arguments_b(device, large=False):
    args, options, _ = arguments(device, large)
    block = 32 if large else 8
    return args, dict(options, BLOCK_T=block), (triton.cdiv(args[3], block), 1, 1)


def reference(args):
    K = args[1].shape[1]
    value, place = torch.sort(args[0], dim=1, descending=True, stable=True)
    return [value[:, :K].contiguous(), place[:, :K].to(torch.int32).contiguous()]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=outputs)
CAUSE_A = "Each maximum carries value and place through every exchange with a tie rule; they are packed into one 64-bit key and a plain maximum is taken."
CAUSE_B = "One row of 96 is spread over four warps, so each of eight maxima crosses warps through shared memory with barriers, a number per thread; 32 rows a program keep each row in one warp."
