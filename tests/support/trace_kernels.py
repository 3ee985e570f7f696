"""Kernels for the tests of replay, draw.access and cost."""

import triton
import triton.language as tl

from course.tracing.time_limit import Stopped
from tools.counted_kernels import copy_strided_kernel, matmul_kernel

__all__ = ["copy_strided_kernel", "matmul_kernel"]


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def two_on_a_line_kernel(x_ptr, y_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * tl.load(y_ptr + 2 * offsets))


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    total = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        total += tl.sum(x, axis=0)
    tl.store(out_ptr + row, total)


@triton.jit
def far_mask_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    """Its second load lies beyond all memory, and none of its lanes is active."""
    i = tl.arange(0, BLOCK_SIZE)
    far = tl.load(x_ptr + (i.to(tl.int64) + 2**40), mask=i >= n, other=0.0)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + far)


@triton.jit
def outer_sum_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    i = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i[:, None] * BLOCK_SIZE + i[None, :], x[:, None] * 2.0 + i[None, :])


@triton.jit
def half(x):
    scaled = x * 0.5
    return scaled


@triton.jit
def helper_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    y = half(x)
    tl.store(out_ptr + offsets, y)


@triton.jit
def failing_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    y = tl.reshape(x, (3, pid + 1))
    tl.store(out_ptr + offsets, y)


@triton.jit
def endless_kernel(x_ptr):
    i = tl.load(x_ptr).to(tl.int32)
    while i >= 0:
        i += 1
        if i > 1000:
            i = 0


@triton.jit
def shared_total_kernel(x_ptr, total_ptr, ATOMIC: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(axis=0))
    if ATOMIC:
        tl.atomic_add(total_ptr, x)
    else:
        tl.store(total_ptr, tl.load(total_ptr) + x)


@triton.jit
def odd_values_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, x / x)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    index = tl.load(index_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.load(x_ptr + index, mask=mask), mask=mask)


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def row_max_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK_SIZE))
    most = tl.reduce(x, 0, _larger)
    tl.store(out_ptr, most)


@triton.jit
def descriptor_kernel(x_desc, out_desc, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0) * BLOCK
    tile = x_desc.load([row, 0])
    out_desc.store([row, 0], tile * 2)


@triton.jit
def half_written_kernel(x_ptr, part_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    x = tl.load(x_ptr + pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE))
    tl.store(part_ptr + pid, tl.sum(x, axis=0))
    parts = tl.load(part_ptr + tl.arange(0, 8))
    tl.store(out_ptr, tl.sum(parts, axis=0))


@triton.autotune(
    configs=[triton.Config({"BLOCK_SIZE": 64}), triton.Config({"BLOCK_SIZE": 128})],
    key=["n_elements"],
)
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def break_kernel(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    for start in range(0, n, BLOCK_SIZE):
        x = tl.load(x_ptr + start + tl.arange(0, BLOCK_SIZE))
        if tl.sum(x, axis=0) != 1e30:
            break


@triton.jit
def load_at(ptr, offsets, mask):
    return tl.load(ptr + offsets, mask=mask)


@triton.jit
def helper_twice_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = load_at(x_ptr, offsets, mask)
    y = load_at(y_ptr, offsets * 2, mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def failing_helper(x):
    doubled = x * 2
    return tl.reshape(doubled, (3, 5))


@triton.jit
def failing_in_helper_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK_SIZE))
    y = failing_helper(x)
    tl.store(out_ptr + tl.arange(0, BLOCK_SIZE), y)


@triton.jit
def turned_kernel(x_ptr, out_ptr):
    i = tl.arange(0, 4)
    square = x_ptr + i[:, None] * 4 + i[None, :]
    plain = tl.load(square, mask=i[:, None] < 2, other=-1.0)
    turned = tl.trans(tl.load(square, mask=i[:, None] < 2, other=-1.0))
    tl.store(out_ptr + i[:, None] * 4 + i[None, :], plain + turned)


@triton.jit
def double_in_place_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets))


@triton.jit
def before_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets - 4)
    tl.store(out_ptr + offsets, x)


@triton.jit
def scan_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, tl.cumsum(tl.load(x_ptr + offsets), axis=0))


@triton.jit
def small_dot_kernel(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    offsets = i[:, None] * BLOCK + i[None, :]
    tl.store(c_ptr + offsets, tl.dot(tl.load(a_ptr + offsets), tl.load(b_ptr + offsets)))


@triton.jit
def apply_kernel(x_ptr, out_ptr, function: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, function(tl.load(x_ptr + offsets)))


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK_SIZE"] == 0})
@triton.jit
def heuristic_kernel(x_ptr, out_ptr, n, EVEN: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    if EVEN:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
    else:
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


exponential = tl.exp


@triton.jit
def alias_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, exponential(tl.load(x_ptr + offsets)))


def stop_in(program, last):
    """As the clock does. Only the interpreter calls it."""
    if program == last:
        raise Stopped


@triton.jit
def stopped_kernel(x_ptr, out_ptr, last, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, x + x)
    stop_in(tl.program_id(axis=0), last)


@triton.jit
def copy_once_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    """A copy that tells the caches what to keep."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, eviction_policy="evict_last")
    tl.store(out_ptr + offsets, x, eviction_policy="evict_first", cache_modifier=".cg")


@triton.jit
def listed_kernel(pointers_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    x_ptr = tl.load(pointers_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    x = tl.load(x_ptr + tl.arange(0, BLOCK_SIZE))
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def third_axis_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK_SIZE))
    tl.store(out_ptr, tl.sum(x, axis=2))


@triton.jit
def scaled_dot_kernel(a_ptr, b_ptr, scales_ptr, out_ptr, K: tl.constexpr, FORMAT: tl.constexpr):
    bytes_of_k: tl.constexpr = K // 2 if FORMAT == "e2m1" else K
    rows, ks, groups = tl.arange(0, 64), tl.arange(0, bytes_of_k), tl.arange(0, K // 32)
    a = tl.load(a_ptr + rows[:, None] * bytes_of_k + ks[None, :])
    b = tl.load(b_ptr + ks[:, None] * 64 + rows[None, :])
    scales = tl.load(scales_ptr + rows[:, None] * (K // 32) + groups[None, :])
    product = tl.dot_scaled(a, scales, FORMAT, b, scales, FORMAT)
    tl.store(out_ptr + rows[:, None] * 64 + rows[None, :], product)


@triton.jit
def modulo_kernel(x_ptr, out_ptr, KEPT: tl.constexpr, BLOCK: tl.constexpr):
    number, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + number % KEPT * BLOCK + lanes)
    tl.store(out_ptr + number * BLOCK + lanes, x)


@triton.jit
def picked_kernel(table_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    number, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    row = tl.load(index_ptr + number)
    tl.store(out_ptr + number * BLOCK + lanes, tl.load(table_ptr + row * BLOCK + lanes))


@triton.jit
def shared_by_neighbors_kernel(x_ptr, out_ptr, EACH: tl.constexpr, BLOCK: tl.constexpr):
    number, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + number // EACH * BLOCK + lanes)
    tl.store(out_ptr + number * BLOCK + lanes, x)


@triton.jit
def rows_far_apart_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + row * BLOCK + lanes, tl.load(x_ptr + row * stride + lanes))


@triton.jit
def prefixes_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    number, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(number + 1):
        total += tl.load(x_ptr + block * BLOCK + lanes)
    tl.store(out_ptr + number * BLOCK + lanes, total)


@triton.jit
def converted_dot_kernel(x_ptr, out_ptr, DTYPE: tl.constexpr):
    places = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + places).to(DTYPE)
    tl.store(out_ptr + places, tl.dot(x, x, input_precision="ieee"))


@triton.jit
def unused_load_kernel(x_ptr, y_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets)  # noqa: F841
    tl.store(out_ptr + offsets, x)


@triton.jit
def sum_by_atomics_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.atomic_add(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def precise_dot_kernel(a_ptr, c_ptr, PRECISION: tl.constexpr):
    rows, cols = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    a = tl.load(a_ptr + rows * 32 + cols)
    tl.store(c_ptr + rows * 32 + cols, tl.dot(a, a, input_precision=PRECISION))


@triton.jit
def unrolled_shifts_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for shift in tl.static_range(4):
        total += tl.load(x_ptr + i + shift)
    tl.store(out_ptr + i, total)


@triton.jit
def written_shifts_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + i)
    total += tl.load(x_ptr + i + 1)
    total += tl.load(x_ptr + i + 2)
    total += tl.load(x_ptr + i + 3)
    tl.store(out_ptr + i, total)
