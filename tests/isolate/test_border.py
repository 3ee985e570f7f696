"""A function of records runs in a child, and what it takes and returns are those records."""

import math
import os
import re

import pytest

from course.errors import CourseError
from course.isolate import ChildError, UnreadableError
from tests.support import border_tasks as tasks
from tests.support.border_tasks import Circle, Point, Square


def test_records_cross_in_both_directions():
    assert tasks.moved(Point(1.5, "a"), by=2) == Point(3.5, "a", Point(1.5, "a"))
    assert tasks.moved(Point(1.0)) == Point(2.0, "", Point(1.0))


def test_a_record_of_a_union_stays_what_it_is():
    assert tasks.areas([Square(2.0), Circle(1.0)]) == (4.0, math.inf)


def test_numbers_that_json_lacks_and_bytes_cross():
    assert math.isnan(tasks.moved(Point(math.nan)).x)
    assert tasks.bytes_of(b"\x00\xff") == b"\xff\x00"


def test_an_error_for_a_person_is_raised_where_the_function_was_called():
    with pytest.raises(tasks.TooLargeError, match=r"^5 is too large: take 3\.$") as raised:
        tasks.refuse(5)
    assert (raised.value.size, raised.value.kind) == (5, "too large")
    ended = tasks.refuse.ended(5)
    assert (ended.how, ended.value, str(ended.error)) == ("failed", None, "5 is too large: take 3.")


def test_arguments_may_be_named_in_any_order():
    moved = Point(3.0, "", Point(1.0))
    assert tasks.moved(by=2.0, point=Point(1.0)) == moved
    assert tasks.moved.ended(by=2.0, point=Point(1.0)).value == moved


def test_an_error_that_nobody_expected_is_a_sentence():
    with pytest.raises(ChildError, match="failed: ZeroDivisionError: ") as raised:
        tasks.divide(0)
    assert isinstance(raised.value, CourseError)
    assert raised.value.ended.how == "failed"


def test_a_value_of_another_type_than_declared_is_a_failure():
    ended = tasks.a_text.ended()
    assert (ended.how, ended.value) == ("failed", None)
    assert isinstance(ended.error, UnreadableError)
    with pytest.raises(UnreadableError, match="Expected `int`, got `str`"):
        tasks.a_text()


def test_a_child_that_is_stopped_is_a_sentence():
    with pytest.raises(
        ChildError, match=re.escape("The process for 'hang' was stopped after 1 s of computing.")
    ):
        tasks.hang()


def test_it_runs_elsewhere_and_here_only_when_told():
    assert tasks.own_pid() != os.getpid()
    assert tasks.own_pid.here() == os.getpid()


def test_a_child_of_the_kind_runs_it_itself():
    outer, inner = tasks.pids()
    assert outer == inner != os.getpid()


def test_what_it_prepares_is_done_once_in_the_worker():
    tasks.moved(Point(1.0))
    tasks.moved(Point(1.0))
    pids = tasks.preparers()
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_arguments_that_do_not_fit_are_refused_before_a_child_runs():
    with pytest.raises(TypeError, match="missing a required argument"):
        tasks.moved()


def test_an_argument_that_cannot_cross_is_refused():
    with pytest.raises(TypeError, match="object"):
        tasks.moved(object())
