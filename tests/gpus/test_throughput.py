"""Results of an instruction in a clock of one multiprocessor."""

import pytest

from course.gpus.limits import target_of
from course.gpus.peaks import gpu_of
from course.gpus.throughput import FLOAT64, WIDE_CONVERSION, results_a_clock


@pytest.mark.parametrize("name", ["T4", "A100", "RTX 4090", "H200"])
def test_conversions_of_64_bits_are_slow_where_float64_is(name):
    gpu = gpu_of(name)
    conversions, float64 = (
        results_a_clock(unit, gpu, target_of(gpu.target)) for unit in (WIDE_CONVERSION, FLOAT64)
    )
    assert (conversions == 2) == (float64 < 3)
