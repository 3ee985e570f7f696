"""Kernels to take things out of: each has a bit of everything that a kind of variant is about."""

import triton
import triton.language as tl

from .launches import Launch, empty


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """The softmax of a row: a load, two reductions, an exponential, a division, a store."""
    row = tl.program_id(axis=0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + i, e / tl.sum(e, axis=0), mask=i < columns)


@triton.jit
def only_one_counts_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    """x + y in a line of many instructions: without its arithmetic nobody needs y."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, x + y * y * y)


@triton.jit
def decay_kernel(x_ptr, rate_ptr, out_ptr, BLOCK: tl.constexpr):
    """x / (1 + rate), with a rate in float64."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    rate = tl.load(rate_ptr)
    tl.store(out_ptr + i, (tl.load(x_ptr + i) / (1.0 + rate)).to(tl.float32))


SOFTMAX = Launch(softmax_kernel, (1024,), (empty(1024, 1000), empty(1024, 1000), 1000, 1024))
SUM = Launch(only_one_counts_kernel, (64,), (empty(2**17), empty(2**17), empty(2**17), 2048))
