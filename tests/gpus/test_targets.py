"""What a kernel can be compiled for, by the name that somebody types."""

import pytest

from course import CourseError
from course.gpus.limits import target_of
from course.gpus.peaks import GPUS, gpu_of


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_may_be_named_by_what_it_is_sold_as(name):
    assert target_of(name).name == GPUS[name].target
    assert target_of(name.lower()) == target_of(name)


def test_a_target_that_nobody_knows_is_refused_with_both_kinds_of_names():
    with pytest.raises(CourseError, match=r"no target 'H300': there is sm_70.*by its name.*H200"):
        target_of("H300")


def test_where_the_speed_counts_an_architecture_names_the_gpus_that_have_it():
    with pytest.raises(CourseError, match=r"^sm_90 is an architecture.*take H100 or H200\.$"):
        gpu_of("sm_90")
