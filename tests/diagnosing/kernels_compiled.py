"""Kernels that cannot be followed, or cannot be launched at all."""

import triton
import triton.language as tl

from .launches import empty

OPERANDS = empty(64 * 32, 32), empty(32, 32), empty(64 * 32, 32), 32


@triton.jit
def product_by_assembly_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    """A product without tensor cores, twice as large by a line of assembly."""
    rows, columns = tl.program_id(axis=0) * N + tl.arange(0, N), tl.arange(0, N)
    a = tl.load(a_ptr + rows[:, None] * N + columns[None, :])
    b = tl.load(b_ptr + columns[:, None] * N + columns[None, :])
    c = tl.dot(a, b, input_precision="ieee")
    c = tl.inline_asm_elementwise(
        "add.f32 $0, $1, $1;", "=f,f", [c], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], c)


@triton.jit
def endless_kernel(x_ptr, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x_ptr + i % 256)
    tl.store(x_ptr, total)


@triton.jit
def outside_kernel(x_ptr, n):
    tl.store(x_ptr + n, 1.0)


@triton.jit
def undefined_kernel(x_ptr):
    tl.store(x_ptr, nothing_of_this_name)  # noqa: F821
