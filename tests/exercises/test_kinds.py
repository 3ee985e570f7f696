"""Answers that are numbers, letters and texts are judged where they are."""

import math

import pytest

from course import check
from course.exercises.kinds import Choice, Number, Text


@pytest.mark.parametrize("answer", [10**400, -(10**400), 5e-324, math.inf, 0])
def test_a_number_of_any_size_is_just_wrong(answer):
    assert check("01.5", answer).verdict == "wrong"


def test_numbers_are_judged_with_their_unit():
    number = Number("1", right=50.0, unit="us", because="so", slips={25.0: "half"})
    assert number.judge(50.9) == ("right", "so")
    assert number.judge(51.1) == ("wrong", "It is too large. The unit is us.")
    assert number.judge(25) == ("wrong", "half")
    assert number.judge(0.05)[1].startswith("The digits are right")
    assert number.judge(math.nan)[0] == "wrong"


def test_texts_and_choices_do_not_mind_spaces_and_capitals():
    text = Text("1", accepts=("%p4",), because="so", slips={"zero": "no"})
    assert text.judge(" '%P4' ") == ("right", "so")
    assert text.judge("Zero") == ("wrong", "no")
    assert Choice("1", right="a", why={"a": "yes", "b": "no"}).judge("(A)") == ("right", "yes")
