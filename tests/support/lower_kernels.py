"""Kernels for the tests of lower, whose lines the tests look for.

ADD and MATMUL describe the arguments of `add_kernel` and `matmul_kernel`.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.core import _aggregate

ADD = ("*fp32:16", "*fp32:16", "*fp32:16", "i32:16")
MATMUL = ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64)


def line_of(text):
    """The number of the first line of this file that holds a text."""
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, start=1) if text in line)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def square(x):
    return x * x


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    x = square(x)
    total = tl.sum(x, axis=0)
    tl.store(out_ptr + row, total)


@triton.jit
def tile_sum_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * BLOCK + cols[None, :])
    total = tl.sum(x, axis=1)
    tl.store(out_ptr + rows, total)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows[:, None] * K + rows[None, :] + k)
        b = tl.load(b_ptr + (rows[:, None] + k) * BLOCK + rows[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


@triton.jit
def descriptor_kernel(x_desc, out_ptr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    tl.store(out_ptr + rows[:, None] * BLOCK + rows[None, :], x_desc.load([0, 0]))


@triton.jit
def centred(block):
    mean = tl.sum(block, axis=1) / block.shape[1]
    return block - mean[:, None]


@triton.jit
def helped_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    places = rows[:, None] * BLOCK + cols[None, :]
    result = centred(tl.load(x_ptr + places))
    tl.store(out_ptr + places, result)


@triton.jit
def noted(block, out_ptr):
    total = tl.sum(block, axis=1)
    tl.store(out_ptr + tl.arange(0, block.shape[0]), total)
    return total


@triton.jit
def noted_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * BLOCK + cols[None, :])
    result = noted(x, out_ptr)
    tl.store(out_ptr + BLOCK + rows, result)


@triton.jit
def options_kernel(x_ptr, flag, scale, KIND: tl.constexpr, DTYPE: tl.constexpr):
    x = tl.load(x_ptr)
    if KIND == "scaled":
        x = x * scale
    if flag:
        x += 1
    tl.store(x_ptr, x.to(DTYPE))


@triton.jit
def wrong_type_kernel(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    y = tl.dot(x, x)
    tl.store(x_ptr, y)


@triton.jit
def unknown_name_kernel(x_ptr):
    tl.store(x_ptr, nothing_of_that_name)  # noqa: F821


@triton.jit
def odd_shape_kernel(x_ptr):
    tl.store(x_ptr + tl.arange(0, 100), 1.0)


@triton.jit
def library_kernel(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr, tl.sum(x, axis=3))


@triton.jit
def assembly_kernel(x_ptr):
    x = tl.load(x_ptr)
    y = tl.inline_asm_elementwise(
        "nonsense.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(x_ptr, y)


@triton.jit
def endless_kernel(x_ptr):
    for _ in tl.static_range(100_000_000):
        tl.store(x_ptr, 1.0)


@triton.jit
def print_kernel(x_ptr):
    tl.device_print("<img src=x onerror=alert(1)></script><b>", tl.load(x_ptr))


@triton.jit
def apply_kernel(x_ptr, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr + tl.arange(0, BLOCK), FUNCTION(x))


@triton.jit
def typed_kernel(x_ptr, a, b, LARGE: tl.constexpr, BLOCK: tl.constexpr = 64):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    if LARGE:
        x = x * a
    tl.store(x_ptr + tl.arange(0, BLOCK), x + b)


@triton.jit
def max_of_two_kernel(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(x_ptr, tl.max(x, tl.sum(x, axis=0)))


@triton.jit
def constant_while_kernel(x_ptr, n: tl.constexpr = 1):
    while n >= 0:
        tl.store(x_ptr, 0.0)


@triton.jit
def recursive_kernel(x_ptr, n):
    tl.store(x_ptr + n, 0.0)
    if n > 0:
        recursive_kernel(x_ptr, n - 1)


@triton.jit
def self_kernel(self, grid, BLOCK: tl.constexpr):
    tl.store(self + tl.arange(0, BLOCK), grid)


@triton.jit
def tuple_kernel(pointers, sizes, BLOCK: tl.constexpr):
    x = tl.load(pointers[0] + tl.arange(0, BLOCK))
    tl.store(pointers[1] + tl.arange(0, BLOCK), x, mask=tl.arange(0, BLOCK) < sizes[0])


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0})
@triton.jit
def chosen_kernel(x_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + offsets, 1.0)
    else:
        tl.store(x_ptr + offsets, 1.0, mask=offsets < n)


@_aggregate
class Places:
    first: tl.tensor

    @triton.constexpr_function
    def __init__(self, first):
        self.first = first

    @triton.jit
    def of(self, BLOCK: tl.constexpr):
        return self.first + tl.arange(0, BLOCK)


@triton.jit
def aggregate_kernel(x_ptr, first, BLOCK: tl.constexpr):
    places = Places(first)
    tl.store(x_ptr + places.of(BLOCK), 1.0)


def plain(x):
    return 2 * x


@triton.jit
def plain_call_kernel(x_ptr):
    tl.store(x_ptr, plain(tl.load(x_ptr)))


@triton.jit
def numpy_call_kernel(x_ptr):
    tl.store(x_ptr, np.exp(tl.load(x_ptr)))


@triton.jit
def torch_call_kernel(x_ptr):
    tl.store(x_ptr, torch.sin(tl.load(x_ptr)))


@triton.jit
def torch_type_kernel(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).to(torch.float16))
