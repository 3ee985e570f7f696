"""Each rule names its cause in a kernel that has it, first, and not in the twin that has not."""

import pytest

from course import diagnose
from tests.diagnosing import (
    kernels_dots,
    kernels_facts,
    kernels_grid,
    kernels_loops,
    kernels_registers,
    kernels_sectors,
    kernels_widths,
)

PAIRS = [
    *kernels_sectors.PAIRS,
    *kernels_widths.PAIRS,
    *kernels_registers.PAIRS,
    *kernels_loops.PAIRS,
    *kernels_dots.PAIRS,
    *kernels_grid.PAIRS,
]


def diagnosed(launch):
    return diagnose(launch.kernel, launch.grid, *launch.args, target="H200", **launch.options)


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
def test_a_cause_is_named_first_where_it_is_and_not_in_the_twin(pair):
    slow, mended = diagnosed(pair.slow), diagnosed(pair.mended)
    assert slow.causes[:1] == [pair.cause], str(slow)
    assert pair.cause not in mended.causes, str(mended)


@pytest.mark.parametrize(
    "number, blamed",
    [
        (0, "that n is divisible by 16"),
        (1, "that x_ptr is divisible by 16"),
        (2, "cannot see from"),
    ],
)
def test_the_argument_that_makes_loads_narrow_is_named_if_there_is_one(number, blamed):
    (finding,) = diagnosed(kernels_widths.PAIRS[number].slow).findings
    assert blamed in finding.why


FACTS = kernels_facts.PAIRS


@pytest.mark.parametrize("pair", FACTS, ids=[pair.name for pair in FACTS])
def test_a_fact_is_told_where_it_holds_and_not_of_the_twin(pair):
    slow, mended = diagnosed(pair.slow), diagnosed(pair.mended)
    assert any(pair.cause in fact for fact in slow.facts), str(slow)
    assert not any(pair.cause in fact for fact in mended.facts), str(mended)
