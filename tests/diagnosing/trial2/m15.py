"""Walsh-Hadamard transform of every row of 4096 fp16 values, scaled by 1/64.

It is the rotation before a quantization to few bits.
"""

# ruff: noqa: C408, E501 (kept as it was timed)

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

outputs = [1]
TOL = dict(atol=1e-2, rtol=5e-3)


@triton.jit
def _butterfly(x, HALF: tl.constexpr, N: tl.constexpr):
    x = tl.reshape(x, (N // (2 * HALF), 2, HALF))
    lo, hi = tl.split(tl.permute(x, (0, 2, 1)))
    x = tl.permute(tl.join(lo + hi, lo - hi), (0, 2, 1))
    return tl.reshape(x, (N,))


@triton.jit
def kernel(x_ptr, y_ptr, scale, N: tl.constexpr, LOG: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, N)
    x = tl.load(x_ptr + row * N + c).to(tl.float32)
    for i in tl.static_range(LOG):
        x = _butterfly(x, 2**i, N)
    tl.store(y_ptr + row * N + c, (x * scale).to(tl.float16))


@triton.jit
def kernel_a(x_ptr, y_ptr, scale, R, N: tl.constexpr, LOG: tl.constexpr):
    c = tl.arange(0, N)
    for row in range(tl.program_id(0), R, tl.num_programs(0)):
        x = tl.load(x_ptr + row * N + c).to(tl.float32)
        for i in tl.static_range(LOG):
            x = _butterfly(x, 2**i, N)
        tl.store(y_ptr + row * N + c, (x * scale).to(tl.float16))


@triton.jit
def kernel_b(x_ptr, h_ptr, y_ptr, scale, SIDE: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, SIDE)
    square = i[:, None] * SIDE + i[None, :]
    h = tl.load(h_ptr + square)
    x = tl.load(x_ptr + row * SIDE * SIDE + square)
    x = tl.dot(x, h) * 0.125
    y = tl.dot(h, x.to(tl.float16)) * (scale * 8.0)
    tl.store(y_ptr + row * SIDE * SIDE + square, y.to(tl.float16))


def _hadamard(n):
    h = torch.ones((1, 1))
    while h.shape[0] < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    return h


def _make(device, large):
    R, N = (16384, 4096) if large else (6, 4096)
    g = torch.Generator(device=device).manual_seed(15)
    x = torch.randn((R, N), generator=g, device=device, dtype=torch.float16)
    return x, torch.zeros((R, N), device=device, dtype=torch.float16)


def arguments(device, large):
    x, y = _make(device, large)
    return (x, y, 1.0 / 64.0), dict(N=4096, LOG=12, num_warps=4, num_stages=3), (x.shape[0],)


def arguments_a(device, large):
    x, y = _make(device, large)
    options = dict(N=4096, LOG=12, num_warps=4, num_stages=3)
    return (x, y, 1.0 / 64.0, x.shape[0]), options, (132 * 8 if large else 4,)


def arguments_b(device, large):
    x, y = _make(device, large)
    h = _hadamard(64).to(torch.float16).to(device)
    return (x, h, y, 1.0 / 64.0), dict(SIDE=64, num_warps=4, num_stages=3), (x.shape[0],)


def reference(args):
    h = _hadamard(4096).to(args[0].device)
    out = torch.empty_like(args[1])
    for r in range(0, out.shape[0], 2048):
        out[r : r + 2048] = (args[0][r : r + 2048].float() @ h * args[2]).to(torch.float16)
    return [out]


mend_a = SimpleNamespace(kernel=kernel_a, arguments=arguments_a, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments_b, outputs=[2])
DOMINANT = "b"
CAUSE_A = "Programs that live for one row only, always starting with a wait for their load; here a program goes on over many rows."
CAUSE_B = "The values are rearranged between the threads, through shared memory and barriers, for each of the twelve stages; here a row is a 64 x 64 square and two small matrix products do the whole."
