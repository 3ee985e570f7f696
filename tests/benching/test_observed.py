"""What programs did on a GPU, as the first notebooks show it."""

import dataclasses

import pytest

from course import MODE, observed
from course.benching.observed import PROGRAMS, SHOWN, Observed, observe
from course.errors import CourseError

pytestmark = pytest.mark.gpu_too


def test_races_and_orders_of_programs_differ_from_the_interpreters():
    seen = observed()
    assert 0 < seen.race_total < PROGRAMS * 1024
    assert len(seen.first_programs) == SHOWN
    assert seen.first_programs != tuple(range(SHOWN))


def test_it_says_where_and_when():
    seen = dataclasses.replace(observed(), recorded=True)
    assert seen.race.startswith(f"Recorded on {seen.machine.gpu}, {seen.machine.date}: a total of")
    assert f"the first programs were [{seen.first_programs[0]}, " in seen.order


def test_json_keeps_everything():
    seen = observed()
    assert Observed.from_json(seen.to_json()) == dataclasses.replace(seen, recorded=True)


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: about refusing without a GPU")
def test_there_is_nothing_to_observe_without_a_gpu():
    with pytest.raises(CourseError, match="this is CPU mode"):
        observe()
