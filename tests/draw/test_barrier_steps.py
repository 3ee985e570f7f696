"""The picture of one mbarrier says what the simulated one does."""

import pytest

from course import draw
from course.draw.barrier_steps import EVENTS, states
from course.errors import CourseError


def test_a_copy_ends_a_phase_and_the_waits_change_places():
    rows = [row[1:] for row in states()]
    new, announced, half, full, again, twice = rows
    assert new == ("0", "1", "0", "waits", "goes on")
    assert announced == ("0", "0", "8,192", "waits", "goes on")
    assert half == ("0", "0", "4,096", "waits", "goes on")
    assert full == ("1", "1", "0", "goes on", "waits")
    assert again == ("1", "0", "8,192", "goes on", "waits")
    assert twice == new


@pytest.mark.parametrize("until", range(1, len(EVENTS) + 1))
def test_the_picture_shows_the_events_so_far(until, drawn_figure):
    picture = draw.mbarrier(until)
    events = [event for event, _ in EVENTS]
    words = [text.get_text() for text in drawn_figure().axes[0].texts]
    assert [each for each in words if each in events] == events[:until]
    assert picture.alt.count("after ") == until


@pytest.mark.parametrize("until", [0, 7, 1.5, None])
def test_another_number_of_events_is_refused(until):
    with pytest.raises(CourseError, match="must be a whole number of 1 to 6"):
        draw.mbarrier(until)
