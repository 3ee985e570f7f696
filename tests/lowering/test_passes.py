"""The IR before and after each pass."""

import pytest

from course import lower
from course.errors import CourseError
from course.lowering.passes import without_locations
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD, MATMUL


def test_the_pass_that_chose_the_layout_of_the_loads(add):
    coalesce = add.passes["tritongpu-coalesce"]
    assert coalesce.changed
    assert "sizePerThread = [4]" not in coalesce.before
    assert "sizePerThread = [4]" in coalesce.after
    assert "+#blocked1 = #ttg.blocked<{sizePerThread = [4]" in coalesce.diff()
    first_three = ["inline", "convert-triton-to-tritongpu", "tritongpu-coalesce"]
    assert [each.name for each in add.passes.changed][:3] == first_three
    assert "loc(" not in coalesce.before + coalesce.after
    assert "tritongpu-coalesce" in add.passes.diff(*first_three[1:])
    with pytest.raises(CourseError, match="No pass is called 'nonsense'"):
        add.passes["nonsense"]


def test_the_last_state_of_the_ttgir_passes_is_the_stage(add):
    assert without_locations(add.ttgir) in [each.before for each in add.passes]


def test_what_a_pass_prints_of_its_own_is_no_state_of_the_ir():
    """From Triton 3.8 on the dump holds the pipeliner's own steps."""
    passes = lower(kernels.matmul_kernel, *MATMUL, target="sm_90").passes
    assert all(each.before.count("module attributes") <= 1 for each in passes)


def test_passes_on_amd():
    lowered = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="gfx942")
    assert lowered.passes["tritongpu-coalesce"].changed
