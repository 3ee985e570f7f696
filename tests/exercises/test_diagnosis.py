"""An answer that is a cause and a cure: each part is judged, the cause first."""

import re

import pytest

from course import check
from course.exercises.answers import changed
from tests.exercises.test_exercises import CELLS
from tests.exercises.test_exercises import define as define

ROWS = "slow-rows-and-factors"
UNSOLVED = {"    row = number // n_cols\n    scale = tl.load(scale_ptr + row, mask=mask)\n"
            "    x = tl.load(x_ptr + number, mask=mask)\n"
            "    tl.store(out_ptr + number, x * scale, mask=mask)\n": ""}  # fmt: skip


@pytest.mark.parametrize("answer", ["c", 3, ("c",), ("c", None, None)])
def test_anything_but_a_pair_is_no_answer(answer):
    checked = check(ROWS, answer)
    assert checked.verdict == "no answer" and "answer = cause, fixed" in str(checked)


def test_a_letter_that_is_none_is_no_answer():
    assert check(ROWS, ("z", None)).verdict == "no answer"


def test_a_wrong_cause_is_wrong_without_any_code():
    checked = check(ROWS, ("a", None))
    assert checked.verdict == "wrong" and "The cause: 256 programs" in str(checked)


def test_the_right_cause_without_code_leaves_the_code_to_do(define):
    assert check(ROWS, ("c", None)).verdict == "to do"
    checked = check("slow-rows-and-factors", define(changed(CELLS[ROWS][0], UNSOLVED), "answer"))
    assert checked.verdict == "to do" and "Now write code" in str(checked)


def test_code_without_a_cause_leaves_the_cause_to_do(define):
    checked = check(
        "slow-rows-and-factors", define(changed(CELLS[ROWS][0], {'cause = "c"': ""}), "answer")
    )
    assert checked.verdict == "to do" and "Name the cause as well" in str(checked)


def test_what_is_stepped_through_is_the_answer_that_the_lesson_gives(define):
    wrong = {"x * scale": "x + scale"}
    checked = check("slow-rows-and-factors", define(changed(CELLS[ROWS][0], wrong), "answer"))
    assert f'check("{ROWS}", answer).replay()' in str(checked)
    assert re.search(r"Your cause is right: .*\n +Your code is not right yet:\n", str(checked))
    assert checked.replay().recording.kernel == "scale_kernel"
