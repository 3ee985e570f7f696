"""Batched matrix product of half matrices, 'for accuracy' converted to float before the dot."""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

TOL = dict(rtol=2e-2, atol=2e-2)
outputs = [2]


@triton.jit
def kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    z = tl.program_id(2)
    k = tl.arange(0, BK)
    pa = a + z * M * K + m[:, None] * K + k[None, :]
    pb = b + z * K * N + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        ta = tl.load(pa).to(tl.float32)
        tb = tl.load(pb).to(tl.float32)
        acc = tl.dot(ta, tb, acc, input_precision="ieee")
        pa += BK
        pb += BK * N
    tl.store(c + z * M * N + m[:, None] * N + n[None, :], acc.to(tl.float16))


def _make(device, large):
    B, M, N, K = (4, 1024, 1024, 1024) if large else (2, 64, 64, 64)
    g = torch.Generator(device=device).manual_seed(11)
    a = torch.randn((B, M, K), device=device, dtype=torch.float16, generator=g)
    b = (torch.randn((B, K, N), device=device, generator=g) / K**0.5).half()
    return (a, b, torch.empty((B, M, N), device=device, dtype=torch.float16), M, N, K)


def _launch(device, large, stages):
    a = _make(device, large)
    BM, BN, BK = (64, 64, 32) if large else (32, 32, 16)
    return (
        a,
        dict(BM=BM, BN=BN, BK=BK, num_warps=4, num_stages=stages),
        (a[3] // BM, a[4] // BN, a[0].shape[0]),
    )


def arguments(device, large):
    return _launch(device, large, 1)


def arguments_a(device, large):
    return _launch(device, large, 4)


def reference(args):
    return [torch.bmm(args[0].float(), args[1].float())]


@triton.jit
def kernel_b(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    z = tl.program_id(2)
    k = tl.arange(0, BK)
    pa = a + z * M * K + m[:, None] * K + k[None, :]
    pb = b + z * K * N + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        ta = tl.load(pa)
        tb = tl.load(pb)
        acc = tl.dot(ta, tb, acc)
        pa += BK
        pb += BK * N
    tl.store(c + z * M * N + m[:, None] * N + n[None, :], acc.to(tl.float16))


mend_a = SimpleNamespace(kernel=kernel, arguments=arguments_a, reference=reference, outputs=outputs)
mend_b = SimpleNamespace(kernel=kernel_b, arguments=arguments, reference=reference, outputs=outputs)
DOMINANT = "b"
CAUSE_A = "num_stages=1: the loop's loads are not pipelined, each iteration waits for its tiles; four stages prefetch them."
CAUSE_B = 'No tensor cores: the operands are converted to float and multiplied with input_precision="ieee", on the ordinary FMA units; a dot of the half operands uses the tensor cores.'
LINE_A = "for k0 in range(0, K, BK):"
LINE_B = 'acc = tl.dot(ta, tb, acc, input_precision="ieee")'
