"""Kernels that run too many instructions, each with a twin that does not."""

from dataclasses import replace

import torch
import triton
import triton.language as tl

from .launches import Launch, Pair, empty


@triton.jit
def hashed_kernel(x_ptr, out_ptr, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Turn signs by a hash of each element's number, of so many rounds."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    h = i
    for _ in tl.static_range(ROUNDS):
        h = (h ^ (h >> 15)) * 0x2C1B3C6D
    tl.store(out_ptr + i, tl.where(h > 0, x, -x))


@triton.jit
def noise_kernel(x_ptr, out_ptr, seed, BLOCK: tl.constexpr):
    """Add a random number to each element."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.rand(seed, i).to(tl.float16))


@triton.jit
def noise_by_four_kernel(x_ptr, out_ptr, seed, BLOCK: tl.constexpr):
    """The same, with all four numbers that one evaluation gives."""
    first = tl.program_id(axis=0) * BLOCK
    a, b, c, d = tl.rand4x(seed, first // 4 + tl.arange(0, BLOCK // 4))
    r = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), (BLOCK,))
    i = first + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + r.to(tl.float16))


@triton.jit
def sort_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i)))


@triton.jit
def copy_by_assembly_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [tl.load(x_ptr + i)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out_ptr + i, x)


@triton.jit
def decay_kernel(x_ptr, rate_ptr, out_ptr, BLOCK: tl.constexpr):
    """A gate whose rate is one float64 number."""
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    rate = tl.load(rate_ptr)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, (x / (rate + tl.sqrt(rate + x * x))).to(tl.float32))


@triton.jit
def decay_in_float32_kernel(x_ptr, rate_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    rate = tl.load(rate_ptr).to(tl.float32)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x / (rate + tl.sqrt(rate + x * x)))


@triton.jit
def border_kernel(x_ptr, out_ptr, rows, columns, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    """Zeros around each of many pictures; where an element is comes from its number."""
    i = tl.program_id(axis=0).to(DTYPE) * BLOCK + tl.arange(0, BLOCK)
    column, row = i % columns, i // columns % rows
    inside = (row > 0) & (row < rows - 1) & (column > 0) & (column < columns - 1)
    tl.store(out_ptr + i, tl.where(inside, tl.load(x_ptr + i), 0.0))


@triton.jit
def moments_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """A row's sum and the sum of its squares, reduced in each iteration."""
    row = tl.program_id(axis=0)
    total, squares = 0.0, 0.0
    for start in tl.range(0, n, BLOCK, num_stages=4):
        x = tl.load(x_ptr + row * n + start + tl.arange(0, BLOCK)).to(tl.float32)
        total += tl.sum(x)
        squares += tl.sum(x * x)
    tl.store(out_ptr + 2 * row, total)
    tl.store(out_ptr + 2 * row + 1, squares)


@triton.jit
def moments_by_lane_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The same, reduced once."""
    row = tl.program_id(axis=0)
    total, squares = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=4):
        x = tl.load(x_ptr + row * n + start + tl.arange(0, BLOCK)).to(tl.float32)
        total += x
        squares += x * x
    tl.store(out_ptr + 2 * row, tl.sum(total))
    tl.store(out_ptr + 2 * row + 1, tl.sum(squares))


HALF = torch.float16
N = 2**25
ELEMENTS = empty(N), empty(N)
HALVES = empty(N, dtype=HALF), empty(N, dtype=HALF)
PICTURES = *ELEMENTS, 500, 700
RATE = empty(N), empty(1, dtype=torch.float64), empty(N)
ROWS = empty(4224, 32768, dtype=HALF), empty(4224, 2), 32768, 1024
SORT = Launch(sort_kernel, (1024,), (empty(2**18), empty(2**18), 256))
BY_ASSEMBLY = Launch(copy_by_assembly_kernel, (8192,), (empty(2**21), empty(2**21), 256))
BY_ASSEMBLY_IN_BLOCKS = replace(BY_ASSEMBLY, grid=(512,), args=(*BY_ASSEMBLY.args[:2], 4096))
PAIRS = (
    Pair(
        "instructions",
        Launch(hashed_kernel, (N // 1024,), (*ELEMENTS, 48, 1024)),
        Launch(hashed_kernel, (N // 1024,), (*ELEMENTS, 4, 1024)),
    ),
    Pair(
        "instructions",
        Launch(noise_kernel, (N // 1024,), (*HALVES, 7, 1024)),
        Launch(noise_by_four_kernel, (N // 4096,), (*HALVES, 7, 4096)),
    ),
    Pair(
        "instructions",
        Launch(border_kernel, (N // 1024,), (*PICTURES, tl.int64, 1024)),
        Launch(border_kernel, (N // 1024,), (*PICTURES, tl.int32, 1024)),
    ),
    Pair(
        "float64",
        Launch(decay_kernel, (N // 1024,), (*RATE, 1024)),
        Launch(decay_in_float32_kernel, (N // 1024,), (*RATE, 1024)),
    ),
    Pair(
        "reductions",
        Launch(moments_kernel, (4224,), ROWS, {"num_warps": 16}),
        Launch(moments_by_lane_kernel, (4224,), ROWS, {"num_warps": 16}),
    ),
)
