"""A page judges numbers, letters and texts as `check` does, in the same words."""

import pytest

from course.exercises.answers import mistakes, others
from course.exercises.kinds import values
from course.exercises.registry import exercises
from docs.site import ROOT
from docs.site.questions import questions

ASKED = questions(ROOT / "course" / "exercises" / "lessons")
KINDS = (
    *(values.NumberExercise, values.ChoiceExercise),
    *(values.TextExercise, values.NamesExercise),
)
FROM_A_RECORD = {"twice-as-fast"}


def test_every_question_is_there_but_those_whose_answer_comes_of_a_record():
    named = {name for name, each in exercises().items() if isinstance(each, KINDS)}
    assert named - FROM_A_RECORD == ASKED.keys()


def answers(name):
    """What people type: right ones, the usual mistakes, the known slips, and nonsense."""
    asked = ASKED[name]
    right = asked.get("right", asked.get("accepts", [""])[0])
    typed = [right, *(each.answer for each in others(name))]
    typed += [each.answer for each in mistakes(name)]
    typed += [slip for slip, _ in asked.get("slips", [])] + [*asked.get("why", ())]
    typed += ["nonsense", "a, b", "1,056", "12.5 parsecs", "about 3e4", "-1", ".5", "0"]
    texts = [", ".join(each) if isinstance(each, (tuple, list)) else each for each in typed]
    return [each if isinstance(each, str) else repr(float(each)) for each in texts]


@pytest.mark.browser
def test_the_page_and_the_check_say_the_same(open_page):
    page = open_page("lessons/02-three-in-one.html")
    page.wait_for_function("window.courseQuestions")
    judged = 0
    for name, asked in ASKED.items():
        for typed in answers(name):
            said = page.evaluate("([q, typed]) => courseQuestions.judge(q, typed)", [asked, typed])
            wanted = exercises()[name].judge(typed)
            assert said == [wanted.verdict, wanted.reason], (name, typed)
            judged += 1
    assert judged > 200
