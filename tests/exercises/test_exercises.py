"""Each exercise is proved twice: its solution and other right answers pass; its stub and mistakes fail, each for its reason."""

import importlib
import itertools
import re
import types

import pytest

from course import check
from course.errors import CourseError
from course.exercises.answers import Mistake, Other, changed
from course.exercises.kinds import Code
from course.exercises.registry import exercises
from course.lessons.source import EXERCISE, lesson_sources, solved, stub
from course.lessons.statements import statements
from tests.support import wrong_answers

PRELUDE = (
    "from course import DEVICE\nimport torch\nimport triton\nimport triton.language as tl\n\n\n"
)


def cells():
    """For each exercise its solved cell, and the name that its check is given."""
    found = {}
    for source in lesson_sources():
        lesson = solved(source).cells
        for cell, after in itertools.pairwise(lesson):
            if match := EXERCISE.match(cell.source.split("\n")[0]):
                found[match[1]] = (
                    cell.source,
                    re.fullmatch(r'check\("[\d.]+", (\w+)\)', after.source)[1],
                )
    return found


CELLS = cells()
WHOLE = ("05.1", "05.3")
"""Exercises whose statements promise sizes that 8 divides."""


def data_of(exercise):
    return importlib.import_module(f"course.exercises.answers.lesson_{exercise[:2]}")


def planted(kind):
    pairs = [
        (exercise, each)
        for exercise in exercises()
        for each in getattr(data_of(exercise), kind).get(exercise, [])
    ]
    return [pytest.param(exercise, each, id=f"{exercise} {each.name}") for exercise, each in pairs]


@pytest.fixture
def define(tmp_path):
    """Run a cell's text as a script of its own, and return what its check would be given."""

    def define(text, name):
        path = tmp_path / "answer.py"
        path.write_text(PRELUDE + text + "\n")
        script = types.ModuleType("a_script")
        exec(compile(path.read_text(), str(path), "exec"), vars(script))
        return vars(script)[name]

    return define


def answer_of(exercise, planted, define):
    if not isinstance(planted.answer, dict):
        return planted.answer
    text, name = CELLS[exercise]
    return define(changed(text, planted.answer), name)


def test_exercises_and_lessons_name_the_same_ones_in_the_same_order():
    assert list(exercises()) == list(statements()) == list(CELLS)


@pytest.mark.parametrize("exercise", exercises())
def test_the_solution_is_right(exercise, define):
    checked = check(exercise, define(*CELLS[exercise]))
    assert checked.verdict == "right", checked


@pytest.mark.parametrize("exercise", exercises())
def test_the_stub_is_to_do(exercise, define):
    text, name = CELLS[exercise]
    assert check(exercise, define(stub(text), name)).verdict == "to do"


@pytest.mark.parametrize(("exercise", "mistake"), planted("MISTAKES"))
def test_a_mistake_is_caught_for_what_it_is(exercise, mistake: Mistake, define):
    checked = check(exercise, answer_of(exercise, mistake, define))
    assert checked.verdict == mistake.verdict, checked
    assert mistake.says in str(checked)


@pytest.mark.parametrize(("exercise", "other"), planted("OTHERS"))
def test_a_right_answer_of_another_kind_is_accepted(exercise, other: Other, define):
    checked = check(exercise, answer_of(exercise, other, define))
    assert checked.verdict == "right", checked


@pytest.mark.parametrize("exercise", exercises())
def test_every_exercise_has_three_mistakes_and_two_other_answers(exercise):
    assert len(data_of(exercise).MISTAKES[exercise]) >= 3
    assert len(data_of(exercise).OTHERS[exercise]) >= 2


@pytest.mark.parametrize(
    "exercise",
    [each for each in exercises().values() if isinstance(each, Code)],
    ids=lambda each: each.id,
)
def test_the_first_case_leaves_a_part_of_a_block(exercise):
    """Where a mask is forgotten, the first thing that people read should be about it."""
    if exercise.id not in WHOLE:
        assert any(size % 8 for each in exercise.cases[0].inputs for size in each.shape)


def test_an_unknown_exercise_is_named_with_those_there_are():
    with pytest.raises(CourseError, match=r"There is no exercise '00.9': there is 00.1, 00.2."):
        check("00.9", 1)


def test_a_grid_of_fixed_size_is_stepped_through_where_it_is_too_short():
    checked = check("01.2", wrong_answers.fixed_grid)
    assert "At [32,768]" in str(checked) and "The case: 32,769 float32" in str(checked)
    assert checked.replay().content["grid"] == [32, 1, 1]


def test_a_false_promise_is_stepped_through_up_to_it():
    shown = check("03.3", wrong_answers.false_promise_kernel).replay()
    assert shown.opened == (1, 0, 0)
    assert shown.content["failure"]["text"].startswith(
        "Program 1 promises by tl.multiple_of that 1,004"
    )
    assert "start" not in shown.steps[-1]["sets"]
