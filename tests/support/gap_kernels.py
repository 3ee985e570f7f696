"""Kernels that the compiler takes, and that Triton's interpreter by itself does not run. Each takes
x_ptr and out_ptr first."""

import torch
import triton
import triton.language as tl
from triton.language import arange, exp, load, static_range, store
from triton.language.core import _aggregate
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.libdevice import tanh

from tests.support.gap_helpers import exp_of

cast = tl.cast
N = 64


@triton.jit
def imported_kernel(x_ptr, out_ptr):
    offsets = arange(0, 64)
    store(out_ptr + offsets, exp(load(x_ptr + offsets)))


@triton.jit
def renamed_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, tl.exp(cast(tl.load(x_ptr + offsets), tl.float32)))


@triton.jit
def other_module_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, exp_of(tl.load(x_ptr + offsets)))


@triton.jit
def counted_kernel(x_ptr, out_ptr):
    for start in range(0, 64, 16):
        offsets = start.to(tl.int64) + tl.arange(0, 16)
        tl.store(out_ptr + offsets, tl.exp(tl.load(x_ptr + offsets)))


@triton.jit
def unrolled_kernel(x_ptr, out_ptr):
    for i in static_range(4):
        offsets = tl.arange(0, 16 * (i + 1)) if i == 0 else 16 * i + tl.arange(0, 16)
        tl.store(out_ptr + offsets, tl.exp(tl.load(x_ptr + offsets)))


@triton.jit
def conditions_kernel(x_ptr, out_ptr, n, FLAG: tl.constexpr):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    inside = i < n and FLAG and (i > -1 and not i > 63)
    outside = not inside or i > n or FLAG is None
    first = tl.program_id(0) == 0 and n > 0
    x = tl.load(x_ptr + i, mask=inside and first and not outside, other=0.0)
    x = tl.where((FLAG is not None and 0 <= i < 32) or x > 1e9, tl.exp(x), x)
    if first and not n < 32:
        tl.store(out_ptr + i, x, mask=not outside)


@triton.jit
def asserting_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK.value)
    assert BLOCK.value == 64, "a constant"
    x = tl.load(x_ptr + i)
    assert x < 100, "a block"
    tl.store(out_ptr + i, x)


@triton.jit
def constant_first_kernel(x_ptr, out_ptr, y_ptr):
    i = tl.arange(0, 64)
    x = tl.load(x_ptr + i)
    if y_ptr is not None and tl.load(y_ptr) > 0:
        x = 2 * x
    factors = [2 * each for each in (y_ptr is None and (1, 3))]
    x = x * factors[0] / 2
    tl.store(out_ptr + i, x)


@triton.jit
def number_kernel(x_ptr, out_ptr):
    i = tl.arange(0, 64)
    tl.store(out_ptr + i, tl.load(x_ptr + i), mask=i and i < 64)


def around(size, function):
    """A kernel that takes names from this function, also for a default."""

    @triton.jit
    def inner_kernel(x_ptr, out_ptr, SIZE: tl.constexpr = size):
        offsets = tl.arange(0, SIZE)
        tl.store(out_ptr + offsets, function(tl.load(x_ptr + offsets)))

    return inner_kernel


inner_kernel = around(N, exp_of)


@triton.jit
def bounded_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, min(max(tl.load(x_ptr + offsets), -0.5), 0.5))


@triton.jit
def sorting_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, tl.sort(tl.load(x_ptr + offsets)))


@triton.jit
def numbers_kernel(x_ptr, out_ptr, shift, flag):
    offsets = tl.arange(0, 64)
    x = tl.load(x_ptr + offsets)
    if flag:
        x += shift.to(tl.float32)
    tl.store(out_ptr + offsets, x * (shift * 2).to(tl.float32))


@triton.jit
def exchange_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, -x)
    was = tl.atomic_xchg(out_ptr + offsets, 2 * x, mask=offsets < 32)
    tl.atomic_xchg(out_ptr + offsets, was, mask=offsets < 16)


@triton.jit
def updated_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    tl.atomic_add(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def descriptor_update_kernel(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    out = tl.make_tensor_descriptor(out_ptr, [64], [1], [64])
    out.atomic_add([0], x)


@triton.jit
def descriptor_maximum_kernel(x_ptr, out_ptr):
    out = tl.make_tensor_descriptor(out_ptr, [64], [1], [64])
    out.atomic_max([0], tl.load(x_ptr + tl.arange(0, 64)))


@triton.jit
def scaled_kernel(x_ptr, out_ptr, scale):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * scale)


@triton.jit
def library_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    x = tl.load(x_ptr + offsets)
    tl.store(
        out_ptr + offsets,
        libdevice.exp(x) + libdevice.erf(x) + tanh(x) + cuda_libdevice.fast_expf(x),
    )


@triton.jit
def assembly_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    x = tl.load(x_ptr + offsets)
    y = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out_ptr + offsets, y)


@triton.jit
def bessel_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, libdevice.j0(tl.load(x_ptr + offsets)))


@triton.jit
def clock_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    now = tl.extra.cuda.globaltimer()
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + (now - now).to(tl.float32))


@_aggregate
class Tile:
    start: tl.tensor

    @triton.jit
    def offsets(self):
        return self.start + tl.arange(0, 64)


@triton.jit
def aggregate_kernel(x_ptr, out_ptr):
    offsets = Tile(tl.program_id(axis=0) * 64).offsets()
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def indexed_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, x_ptr[offsets])


@triton.jit
def assigned_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    out_ptr[offsets] = tl.load(x_ptr + offsets)


@triton.jit
def unmasked_sum_kernel(x_ptr, out_ptr, n):
    """The lanes from n on are loaded without `other`."""
    offsets = tl.arange(0, 64)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n), axis=0))


@triton.jit
def greatest(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def slow_kernel(x_ptr, out_ptr, SIZE: tl.constexpr):
    """In a scan, a combining function of one's own is called for each element in the
    interpreter."""
    x = tl.load(x_ptr + tl.arange(0, SIZE) % 64)
    most = tl.max(tl.associative_scan(x, axis=0, combine_fn=greatest), axis=0)
    tl.store(out_ptr + tl.arange(0, 64), tl.load(x_ptr + tl.arange(0, 64)) + most * 0)


def launcher(kernel, *more):
    """A function of x that launches a kernel of these once, in one program."""

    def launch(x):
        out = torch.empty_like(x)
        kernel[(1,)](x, out, *more)
        return out

    return launch
