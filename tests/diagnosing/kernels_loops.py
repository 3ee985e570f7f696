"""Kernels whose loops wait for their loads, each with a twin whose loads are under way."""

import torch
import triton
import triton.language as tl

from .kernels_widths import product
from .launches import Launch, Pair, empty, view


@triton.jit
def product_while_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
    """The product of `product_kernel` in a while loop, for a K that BLOCK divides."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns, ks = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    k = 0
    while k < K:
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks[:, None]) * BLOCK + columns[None, :])
        acc = tl.dot(a, b, acc)
        k += BLOCK
    tl.store(c_ptr + rows[:, None] * BLOCK + columns[None, :], acc)


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + row * n + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def row_sum_ahead_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=4):
        total += tl.load(x_ptr + row * n + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def product_unrolled_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
    """The product of `product_while_kernel`, two blocks in each iteration: the compiler adds a loop
    for one that is left over, and pipelines the first alone."""
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    columns, ks = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for k in tl.range(0, K, BLOCK, num_stages=3, loop_unroll_factor=2):
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks[:, None]) * BLOCK + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BLOCK + columns[None, :], acc)


@triton.jit
def scan_kernel(x_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    """Running sums down the columns, one row in each iteration."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(n):
        total += tl.load(x_ptr + row * width + i)
        tl.store(out_ptr + row * width + i, total)


HALF = torch.float16
ROWS, DEPTH = 8448, 1024
OPERANDS = empty(ROWS, DEPTH, dtype=HALF), empty(DEPTH, 64, dtype=HALF), empty(ROWS, 64)
HALVES = 132 * 16384
SUMS = empty(132, 16384), empty(132), 16384, 512
PAIRS = (
    Pair("pipelining", product(ROWS, DEPTH, num_stages=1), product(ROWS, DEPTH, num_stages=4)),
    Pair(
        "pipelining",
        Launch(product_while_kernel, (ROWS // 64,), (*OPERANDS, DEPTH, 64)),
        product(ROWS, DEPTH),
    ),
    Pair(
        "pipelining",
        Launch(row_sum_kernel, (132,), SUMS),
        Launch(row_sum_ahead_kernel, (132,), SUMS),
    ),
    Pair(
        "pipelining",
        product(ROWS, DEPTH, num_stages=1),
        Launch(product_unrolled_kernel, (ROWS // 64,), (*OPERANDS, DEPTH, 64)),
    ),
)

TOLD = Pair(
    "narrow",  # a pipeline was asked for, and the loads are too narrow for its copies
    Launch(
        row_sum_ahead_kernel,
        (132,),
        (view(HALVES, dtype=HALF).view(132, 16384), empty(132), 16384, 512),
    ),
    Launch(row_sum_ahead_kernel, (132,), (empty(132, 16384, dtype=HALF), empty(132), 16384, 512)),
)
WIDTH = 132 * 128
SCAN = Launch(scan_kernel, (132,), (empty(64, WIDTH), empty(64, WIDTH), 64, WIDTH, 128))
