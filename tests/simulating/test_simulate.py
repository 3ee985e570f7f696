"""Gluon kernels followed without a GPU: right ones are right, each planted fault is named."""

import pytest
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course import CourseError, lower
from course.simulating.api import simulate
from course.simulating.faults import DeadlockError, HazardError, SimulationError
from course.simulating.partitions import ORDERS
from tests.simulating import kernels

in_every_order = pytest.mark.parametrize("order", ORDERS)

RING_FAULTS = {
    "never arrives": (
        DeadlockError,
        "_fetch waits for a phase 0 of empty[0] to end: none has ended so far, and the one",
    ),
    "wrong phase of empty": (DeadlockError, "_fetch waits for a phase 0 of empty[0] to end"),
    "arrives at the wrong slot": (
        DeadlockError,
        "_fetch waits for a phase 0 of empty[0] to end: 2",
    ),
    "one arrival too many asked": (DeadlockError, "lacks 1 of 2 arrivals"),
    "arrives twice": (DeadlockError, "_fetch waits for a phase 0 of empty[0] to end: 2"),
    "too many bytes expected": (DeadlockError, "the one under way still lacks 2,048 bytes"),
    "nothing expected": (DeadlockError, "1 of 1 arrivals and an mbarrier.expect for 2,048 bytes"),
    "no wait for full": (HazardError, "buffers[0] is read before anything was written to it"),
    "wrong phase of full": (HazardError, "buffers[0] is read before anything was written to it"),
    "no wait for empty": (HazardError, "full[0] is initialized for 1 arrivals per phase"),
    "no store_wait": (HazardError, "out is written while a copy out of it is still"),
    "arrives too early": (HazardError, "buffers[0] is read while a copy into it is still"),
    "no fence before the next copy": (
        HazardError,
        "buffers[0] was read by load and is copied into with no fence_async_shared in between",
    ),
    "no fence": (HazardError, "no fence_async_shared in between"),
    "empty not initialized": (HazardError, "empty[0] before mbarrier.init"),
}
"""By fault the error that says so."""

PRODUCT_FAULTS = {
    "operands not waited for": "a is multiplied while a copy into it is still",
    "product not waited for": "A product is used before warpgroup_mma_wait",
    "operand overwritten": "b is copied into while a product of it is still",
}


@in_every_order
def test_a_vector_is_added(order):
    x, y = torch.randn(2, 1000)
    out = torch.zeros(1000)
    simulate(kernels.add_kernel, (4,), x, y, out, 1000, 256, orders=[order])
    assert torch.equal(out, x + y)


@in_every_order
@pytest.mark.parametrize(("tiles", "slots"), [(1, 2), (2, 2), (7, 2), (7, 3), (5, 1)])
def test_a_ring_hands_every_tile_on(order, tiles, slots):
    args, out, expected = kernels.ring_arguments(tiles, slots, "none")
    simulate(kernels.ring_kernel, (1,), *args, orders=[order])
    assert torch.equal(out, expected)


@pytest.mark.parametrize("fault", RING_FAULTS)
def test_a_fault_of_a_ring_is_named(fault):
    args, _, _ = kernels.ring_arguments(7, 2, fault)
    kind, words = RING_FAULTS[fault]
    with pytest.raises(kind) as caught:
        simulate(kernels.ring_kernel, (1,), *args)
    assert words in str(caught.value)


def test_a_product_is_right():
    args, out, expected = kernels.product_arguments("none")
    simulate(kernels.product_kernel, (1,), *args)
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("fault", PRODUCT_FAULTS)
def test_a_fault_of_a_product_is_named(fault):
    args, _, _ = kernels.product_arguments(fault)
    with pytest.raises(HazardError) as caught:
        simulate(kernels.product_kernel, (1,), *args)
    assert PRODUCT_FAULTS[fault] in str(caught.value)


def test_an_error_names_the_kernels_line():
    args, _, _ = kernels.ring_arguments(7, 2, "no wait for full")
    with pytest.raises(HazardError, match=r"\n    In _double, line \d+: x = buffers.index"):
        simulate(kernels.ring_kernel, (1,), *args)


@pytest.mark.parametrize("fault", ["none", *RING_FAULTS])
def test_what_is_simulated_compiles_as_it_stands(fault):
    args, _, _ = kernels.ring_arguments(7, 2, fault)
    assert lower(kernels.ring_kernel, *args, target="sm_90").ptx


@gluon.jit
def atomic_kernel(out_ptr):
    gl.atomic_add(out_ptr, 1.0)


@gluon.jit
def outside_kernel(out_ptr):
    gl.store(out_ptr + 5, 1.0)


@triton.jit
def other_kernel(out_ptr):
    pass


def test_what_the_simulation_does_not_know_is_refused_by_its_name():
    with pytest.raises(
        SimulationError,
        match=r"does not know gl\.atomic_add\. It knows abs, allocate_shared_memory, arange",
    ):
        simulate(atomic_kernel, (1,), torch.zeros(1))


def test_a_store_outside_is_named():
    with pytest.raises(HazardError, match=r"out_ptr\[5\] is outside the tensor, whose length is 4"):
        simulate(outside_kernel, (1,), torch.zeros(4))


def test_only_kernels_of_gluon_are_simulated():
    with pytest.raises(CourseError, match="takes a kernel of Gluon"):
        simulate(other_kernel, (1,), torch.zeros(4))


def test_a_tensor_without_memory_is_refused():
    with pytest.raises(CourseError, match="give it tensors that have memory"):
        simulate(outside_kernel, (1,), torch.zeros(4, device="meta"))


def test_a_grid_of_more_than_three_axes_is_refused():
    with pytest.raises(CourseError, match=r"one to three axes, as \(4,\), and not \(1, 1, 1, 1\)"):
        simulate(outside_kernel, (1, 1, 1, 1), torch.zeros(8))


def test_fewer_programs_than_none_are_refused():
    with pytest.raises(CourseError, match=r"one to three axes, as \(4,\), and not \(-1,\)"):
        simulate(outside_kernel, (-1,), torch.zeros(8))


@gluon.jit
def unmasked_kernel(x_ptr, out_ptr, n):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, 128, layout)
    gl.store(out_ptr, gl.sum(gl.load(x_ptr + i, mask=i < n), 0))


def test_a_lane_that_was_given_nothing_holds_no_zero():
    out = torch.zeros(1)
    simulate(unmasked_kernel, (1,), torch.ones(100), out, 100)
    assert torch.isnan(out).all()


@gluon.jit
def divided_kernel(out_ptr):
    i = gl.program_id(0)
    gl.store(out_ptr + 2 * i, (i - 3) // 2)
    gl.store(out_ptr + 2 * i + 1, (i - 3) / 2)


def test_integers_are_divided_as_on_a_gpu():
    out = torch.zeros(4)
    simulate(divided_kernel, (2,), out)
    assert out.tolist() == [-1, -1.5, -1, -1]


def test_a_tuned_kernel_is_simulated_as_it_is_given():
    tuned = triton.autotune(configs=[triton.Config({})], key=[])(divided_kernel)
    out = torch.zeros(4)
    simulate(tuned, (2,), out)
    assert out.tolist() == [-1, -1.5, -1, -1]


@pytest.mark.parametrize(("wanted", "phase", "name"), [(8192, 0, "b"), (16384, 1, "a")])
def test_a_wait_that_ends_early_leaves_the_copies_under_way(wanted, phase, name):
    (a, b, _, _), _, _ = kernels.product_arguments("none")
    words = f"{name} is multiplied while a copy into it is still"
    with pytest.raises(HazardError, match=words):
        simulate(kernels.short_kernel, (1,), a, b, torch.zeros(1), wanted, phase)
