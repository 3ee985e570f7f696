"""cost of launches whose programs differ, and of which not all are followed."""

import functools
import math

import numpy as np
import pytest
import torch

import course
from course import lower
from course.tracing import survey
from course.tracing.launch import requested
from course.tracing.program_sizes import program_sizes
from course.tracing.sample import Plan, weights
from tests.tracing import kernels_uneven as kernels

BLOCK, PROGRAMS = 16, 256
ROW = 4 * BLOCK


def meta(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device="meta")


@pytest.fixture
def cost(monkeypatch):
    """course.cost that follows fewer programs."""

    def counted(kernel, *tensors, numbers=(BLOCK,), programs=PROGRAMS, **plan):
        monkeypatch.setattr(survey, "Plan", functools.partial(Plan, **plan))
        args = *tensors, meta(programs, BLOCK), *numbers
        return course.cost(kernel, (programs,), *args, target="H200")

    return counted


@pytest.mark.parametrize("kernel", [kernels.rising_kernel, kernels.falling_kernel])
def test_what_programs_of_known_loops_load_is_right_wherever_the_launch_is_cut_off(cost, kernel):
    counted = cost(kernel, meta(PROGRAMS, BLOCK), operations=10_000)
    assert 1 < counted.programs < PROGRAMS / 16
    assert counted.bytes_loaded == ROW * PROGRAMS * (PROGRAMS + 1) // 2
    assert counted.bytes_stored == ROW * PROGRAMS
    assert counted.simple == {"fp32": counted.bytes_loaded // 4}
    assert f" to 256 times in the {counted.programs} programs followed" in str(counted)


def test_the_smallest_programs_are_counted_where_the_launch_is_cut_off_before_the_last(cost):
    x = meta(PROGRAMS, BLOCK)
    counted = cost(kernels.falling_kernel, x, most=64, operations=8_000)
    assert 1 < counted.programs < 16
    assert counted.bytes_loaded == ROW * PROGRAMS * (PROGRAMS + 1) // 2


def test_a_single_heavy_program_is_found_by_its_loop_and_stands_for_itself(cost):
    heavy, many = 1234, 500
    numbers = heavy, many, BLOCK
    x = meta(many, BLOCK)
    counted = cost(kernels.heavy_kernel, x, numbers=numbers, programs=3000, most=64)
    assert counted.programs <= 64 + 2
    assert counted.bytes_loaded == ROW * (2999 + many)
    assert counted.distinct_loaded == ROW * many


def test_loops_in_loops_are_counted_by_what_a_program_loads_for_their_bounds(cost):
    rows = torch.randint(0, 40, (PROGRAMS,), generator=torch.Generator().manual_seed(0))
    args = meta(40, BLOCK), rows.int()
    counted = cost(kernels.nested_kernel, *args, most=64)
    assert counted.programs < PROGRAMS
    assert counted.bytes_loaded == ROW * int(3 * ((rows + 1) // 2).sum()) + 4 * PROGRAMS


def test_a_loop_in_a_loop_is_run_as_often_as_both_say():
    rows = torch.tensor([0, 5, 8], dtype=torch.int32)
    args = meta(8, BLOCK), rows, meta(3, BLOCK), BLOCK
    lowered = lower(kernels.nested_kernel, *args, target="sm_90")
    asked = requested("cost", kernels.nested_kernel, (3,), args, {})
    # Each outer iteration of two rows has three of its own.
    assert program_sizes(asked, lowered).tolist() == [0, 3 + 3 * 3, 4 + 4 * 3]


def test_where_bounds_are_not_known_the_programs_followed_are_spread_over_the_grid(cost):
    args = meta(PROGRAMS, BLOCK), torch.arange(1, PROGRAMS + 1).int()
    counted = cost(kernels.hidden_kernel, *args, operations=40_000)
    assert counted.programs < PROGRAMS / 2
    assert counted.bytes_loaded == pytest.approx(ROW * PROGRAMS * (PROGRAMS + 1) / 2, rel=0.1)
    assert "How often loops run was computed" not in str(counted)
    assert f"times in the {counted.programs} programs followed" in str(counted)


def test_a_least_time_is_a_bound_only_where_every_program_was_followed(cost):
    args = kernels.rising_kernel, meta(PROGRAMS, BLOCK)
    # The speed of an A100's L2 cache is not known here; what L2 would take is no bound.
    part, whole = (str(cost(*args, **few).on("A100")) for few in ({"most": 64}, {"programs": 32}))
    assert "A100: least time about " in part and "at least" not in part
    assert "A100: at least " in whole


def test_programs_that_wait_for_the_one_before_them_run_in_their_order():
    turn, out = torch.zeros(1, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    counted = course.cost(kernels.in_turn_kernel, (8,), turn, out, target="H200")
    assert counted.exact and counted.bytes_stored == 4 * 8 + 4 * 8 * 2


@pytest.mark.parametrize("programs, most", [(100, 1024), (1000, 1024), (5000, 1024), (70_000, 64)])
def test_wherever_an_order_is_cut_off_it_stands_for_the_whole_grid(programs, most):
    order = [x for x, _, _ in Plan(most, fair=True).programs((programs, 1, 1))]
    assert len(order) == len(set(order)) == min(programs, most)
    assert {0, programs - 1} <= set(order)
    for cut in range(16, len(order) + 1, 7):
        assert np.mean(order[:cut]) == pytest.approx((programs - 1) / 2, rel=0.08)


def test_work_at_the_end_of_a_grid_is_not_taken_for_that_of_others():
    x = torch.randn(4096)
    counted = course.cost(kernels.first_kernel, (5000,), x, torch.empty_like(x), 4096, BLOCK=256)
    assert counted.bytes_loaded == counted.bytes_stored == 4096 * 4
    followed = [x for x, _, _ in Plan().programs((5000, 1, 1))]
    assert weights(None, followed, 5000).sum() == pytest.approx(5000)
    assert weights(None, followed, 5000).min() == 1


def test_programs_stand_for_those_of_their_size():
    sizes = np.array([1, 1, 1, 3, 5, 9, 9, 50])
    stand_for = weights(sizes, [0, 5, 7], len(sizes))
    assert stand_for.sum() == pytest.approx(len(sizes))
    assert (stand_for * sizes[[0, 5, 7]]).sum() == pytest.approx(sizes.sum())
    assert stand_for[2] == 1
    assert weights(None, [0, 5], 8).tolist() == [4, 4]
    # Larger ones that were not followed count as often as they are larger.
    assert math.isclose((weights(sizes, [0, 1], 8) * sizes[:2]).sum(), sizes.sum())
