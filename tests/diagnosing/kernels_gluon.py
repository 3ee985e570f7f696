"""Kernels in Gluon with something that their compiled code shows, each with a twin without it."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from .launches import Launch, Pair, empty


@gluon.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: gl.constexpr, EACH: gl.constexpr):
    """Copy, with EACH neighbors in each thread at a time."""
    layout: gl.constexpr = gl.BlockedLayout([EACH], [32], [gl.num_warps()], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(out_ptr + i, gl.load(x_ptr + i))


@gluon.jit
def subtract_largest_kernel(x_ptr, out_ptr, N: gl.constexpr):
    """Subtract each row's largest element, which needs the whole row at the same time."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    i = gl.program_id(0) * N + gl.arange(0, N, layout=layout)
    x = gl.load(x_ptr + i)
    gl.store(out_ptr + i, x - gl.max(x, 0))


@gluon.jit
def products_kernel(a_ptr, b_ptr, c_ptr, N: gl.constexpr, MMA: gl.constexpr):
    """A product of 32 x 32 in each program, by mma_v2 or by multiply-adds."""
    blocked: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0])
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [gl.num_warps(), 1], [16, 8])
    layout: gl.constexpr = mma if MMA else blocked
    rows = gl.arange(0, N, layout=gl.SliceLayout(1, blocked))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, blocked))
    places = gl.program_id(0) * N * N + rows[:, None] * N + columns[None, :]
    width: gl.constexpr = 2 if MMA else 0
    a = gl.convert_layout(gl.load(a_ptr + places), gl.DotOperandLayout(0, layout, width))
    b = gl.convert_layout(gl.load(b_ptr + places), gl.DotOperandLayout(1, layout, width))
    zeros = gl.zeros([N, N], gl.float32, layout=layout)
    c = mma_v2(a, b, zeros) if MMA else gl.dot_fma(a.to(gl.float32), b.to(gl.float32), zeros)
    gl.store(c_ptr + places, gl.convert_layout(c, blocked))


@gluon.jit
def transpose_kernel(x_ptr, out_ptr, N: gl.constexpr, PHASES: gl.constexpr):
    """Turn a tile of N x N around in shared memory, whose rows are rotated in so many phases."""
    rows: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [gl.num_warps(), 1], [1, 0])
    columns: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, gl.num_warps()], [0, 1])
    i = gl.arange(0, N, layout=gl.SliceLayout(1, rows))
    j = gl.arange(0, N, layout=gl.SliceLayout(0, rows))
    x = gl.load(x_ptr + i[:, None] * N + j[None, :])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(1, 1, PHASES, [1, 0])
    tile = gl.allocate_shared_memory(gl.float32, [N, N], swizzled)
    tile.store(x)
    turned = tile.load(columns)
    i = gl.arange(0, N, layout=gl.SliceLayout(1, columns))
    j = gl.arange(0, N, layout=gl.SliceLayout(0, columns))
    gl.store(out_ptr + j[None, :] * N + i[:, None], turned)


N = 2**21
HALF = torch.float16
SQUARES = empty(256, 32, 32, dtype=HALF), empty(256, 32, 32, dtype=HALF), empty(256, 32, 32)


def copy(each: int) -> Launch:
    return Launch(copy_kernel, (N // 1024,), (empty(N), empty(N), 1024, each))


def rows(num_warps: int) -> Launch:
    tensors = empty(256, 16384), empty(256, 16384)
    return Launch(subtract_largest_kernel, (256,), (*tensors, 16384), {"num_warps": num_warps})


def products(mma: bool) -> Launch:
    return Launch(products_kernel, (256,), (*SQUARES, 32, mma), {"num_warps": 2})


PAIRS = (
    Pair("spills", rows(num_warps=2), rows(num_warps=16)),
    Pair("tensor cores", products(mma=False), products(mma=True)),
)


def transposed(phases: int) -> Launch:
    return Launch(transpose_kernel, (256,), (empty(64, 64), empty(64, 64), 64, phases))


BANKS = Pair("", transposed(1), transposed(32))
WIDTHS = Pair("", copy(each=1), copy(each=4))
