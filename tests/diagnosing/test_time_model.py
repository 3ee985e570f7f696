"""The estimates against times that are recorded of an H200.

The work of each launch is counted by hand; the times are those that the lessons show.
"""

import pytest

from course.benching.result import recorded
from course.diagnosing.time_model import STORED_LINE, Work
from course.gpus.peaks import gpu_of

H200 = gpu_of("H200")
WITHIN = 1.3


def recorded_us(name, series, x):
    (timing,) = (each for each in recorded(name).timings if (each.series, each.x) == (series, x))
    return 1000 * timing.ms


def holds(work, us):
    """Whether an estimate is as much as the recorded time, or misses it by a third at most."""
    return us / WITHIN < work.us < us * WITHIN


def vector_add(elements, block, num_warps):
    """Three blocks of float32 in each program, with loads as wide as the block allows."""
    sectors = 3 * elements * 4 / 32
    width = min(16, max(4, 4 * block // (32 * num_warps)))
    return Work(
        gpu=H200,
        programs=elements // block,
        slots=min(32, 64 // num_warps),
        memory_sectors=sectors,
        l2_sectors=sectors * 2 / 3 + sectors / 3 / 4 * STORED_LINE,
        l1_sectors=sectors,
        requests=3 * elements * 4 / width / 32,
    )


@pytest.mark.parametrize("num_warps", [1, 4, 8, 16])
@pytest.mark.parametrize("block", [32, 64, 128, 256, 1024])
def test_a_vector_add_in_blocks_of_any_size(block, num_warps):
    us = recorded_us("vector_add_blocks", f"num_warps={num_warps}", block)
    assert holds(vector_add(2**26, block, num_warps), us)


@pytest.mark.parametrize("n", [2048, 4096])
def test_a_transpose_that_stores_a_line_for_each_element(n):
    sectors = n * n * 4 / 32
    work = Work(
        gpu=H200,
        programs=n,
        slots=16,
        memory_sectors=2 * sectors,
        l2_sectors=sectors + n * n * STORED_LINE,
        l1_sectors=sectors + n * n,
    )
    assert holds(work, recorded_us("transpose", "transpose_v1", n))


@pytest.mark.parametrize("n", [4096, 8192])
def test_a_product_in_small_tiles_is_bound_by_what_it_loads_again(n):
    tiles, per_tile = (n // 64) ** 2, 2 * 64 * n * 2 / 32
    work = Work(
        gpu=H200,
        programs=tiles,
        slots=8,
        memory_sectors=3 * n * n * 2 / 32,
        l2_sectors=tiles * per_tile,
        l1_sectors=tiles * per_tile,
        rounds=n / 32 / 2,
        dot={"fp16": 2.0 * n**3},
    )
    assert holds(work, recorded_us("matmul", "matmul_v2", n))
    assert work.longest[0] == "L2"
