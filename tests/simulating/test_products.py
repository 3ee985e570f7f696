"""Products of tensor cores: which value may be used when, and what it is rounded to."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from course.simulating.api import simulate
from course.simulating.faults import HazardError, SimulationError


@gluon.jit
def two_kernel(out_ptr, USE: gl.constexpr):
    """Two products under way: of ones, and added to it one more."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    ones = gl.full([64, 64], 1.0, gl.float16, gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))
    a = gl.allocate_shared_memory(gl.float16, [64, 64], shared, ones)
    fence_async_shared()
    first = warpgroup_mma(a, a, gl.zeros([64, 64], gl.float32, layout), is_async=True)
    second = warpgroup_mma(a, a, first, is_async=True)
    if USE == "the newest too early":
        first, second = warpgroup_mma_wait(1, deps=[first, second])
        gl.store(out_ptr, gl.max(gl.max(second, 1), 0))
    if USE == "without deps":
        warpgroup_mma_wait(0)
    done = warpgroup_mma_wait(0, deps=[second])
    if USE == "the old name":
        gl.store(out_ptr, gl.max(gl.max(second, 1), 0))
    gl.store(out_ptr, gl.max(gl.max(done, 1), 0))


def test_a_product_is_added_to_one_that_is_under_way():
    out = torch.zeros(1)
    simulate(two_kernel, (1,), out, "what was waited for")
    assert out.item() == 128


@pytest.mark.parametrize("use", ["the newest too early", "the old name"])
def test_only_what_the_wait_returns_is_a_value_once_it_has_ended(use):
    with pytest.raises(HazardError, match="used before warpgroup_mma_wait has returned it"):
        simulate(two_kernel, (1,), torch.zeros(1), use)


def test_a_wait_needs_the_products_that_it_returns():
    with pytest.raises(SimulationError, match=r"needs the products that it returns: deps=\[prod"):
        simulate(two_kernel, (1,), torch.zeros(1), "without deps")


@gluon.jit
def typed_kernel(
    out_ptr, TYPE: gl.constexpr, ACC: gl.constexpr, FIRST: gl.constexpr, SIZE: gl.constexpr
):
    """FIRST plus the product of SIZE columns and rows of FIRST, but for a first one of 126."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    shared: gl.constexpr = gl.NVMMASharedLayout(32, 8, 2)
    blocked: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    cols = gl.arange(0, SIZE, gl.SliceLayout(0, blocked))[None, :]
    values = gl.where(cols == 0, 126, gl.full([64, SIZE], FIRST, gl.int32, blocked))
    a = gl.allocate_shared_memory(TYPE, [64, SIZE], shared, values.to(TYPE))
    fence_async_shared()
    out = warpgroup_mma(a, a.permute((1, 0)), gl.full([64, 64], FIRST, ACC, layout))
    gl.store(out_ptr, gl.max(gl.max(out, 1), 0))


@pytest.mark.parametrize(
    ("kind", "acc", "first", "size", "expected"),
    [
        (gl.int8, gl.int32, 127, 2048, 126**2 + 2047 * 127**2 + 127),  # more than float32 can hold
        # 126² + 1023 + 1 = 16900, which lies between steps of 16.
        (gl.float16, gl.float16, 1, 1024, 16896),
    ],
)
def test_a_product_is_computed_and_rounded_in_the_type_of_its_accumulator(
    kind, acc, first, size, expected
):
    out = torch.zeros(1, dtype=torch.int32 if acc == gl.int32 else torch.float32)
    simulate(typed_kernel, (1,), out, kind, acc, first, size)
    assert out.item() == expected
