"""Answers that are numbers, letters and texts are judged where they are."""

import math

import pytest

from course import check
from course.exercises.kinds import ChoiceExercise, NamesExercise, NumberExercise, TextExercise


@pytest.mark.parametrize("answer", [10**400, -(10**400), 5e-324, math.inf, 0])
def test_a_number_of_any_size_is_just_wrong(answer):
    assert check("count-bytes", answer).verdict == "wrong"


def test_numbers_are_judged_with_their_unit():
    number = NumberExercise("1", right=50.0, unit="us", because="so", slips={25.0: "half"})
    assert number.judge(50.9) == ("right", "so", "")
    assert number.judge(51.1) == ("wrong", "It is too large. The unit is us.", "too large")
    assert number.judge(25) == ("wrong", "half", "slip 1")
    assert number.judge(0.05).kind == "power of ten"
    assert number.judge(math.nan).kind == "not positive"


def test_texts_and_choices_do_not_mind_spaces_and_capitals():
    text = TextExercise("1", accepts=("%p4",), because="so", slips={"zero": "no"})
    assert text.judge(" '%P4' ") == ("right", "so", "")
    assert text.judge("Zero") == ("wrong", "no", "slip 1")
    assert ChoiceExercise("1", right="a", why={"a": "yes", "b": "no"}).judge("(A)") == (
        "right",
        "yes",
        "",
    )


@pytest.mark.parametrize(
    ("exercise", "answer", "verdict", "says"),
    [
        ("count-sectors", "16 sectors", "right", ""),
        ("count-sectors", "16 Sectors per warp.", "right", ""),
        ("count-sectors", (16,), "right", ""),
        ("count-sectors", "16 bytes", "no answer", "in sectors, as 12.5; this is '16 bytes'."),
        ("count-sectors", "sixteen", "no answer", "in sectors, as 12.5; this is 'sixteen'."),
        ("elements-per-thread", "32", "right", ""),
        ("tiles-left", "1,056 tiles", "right", ""),
        ("count-bytes", "268.4 MB", "right", ""),
        ("count-bytes", "about 0.2684 GB", "right", ""),
        ("count-bytes", "268435456 bytes", "right", ""),
        ("count-bytes", "256 MiB", "right", ""),
        ("count-bytes", "268,4", "no answer", "in MB, as 12.5"),
        ("count-bytes", "268.4 KB", "wrong", "The digits are right and the power of ten is not"),
        ("count-bytes", "-268 MB", "wrong", "above zero"),
        ("least-time", "63.2 µs", "right", ""),
        ("least-time", "0.0632 ms", "right", ""),
        ("least-time", "63.2 ms", "wrong", "power of ten"),
        ("tiles-in-order", "28 tiles", "right", ""),
        ("stages-that-fit", (2, 4, 9), "right", ""),
        ("stages-that-fit", [2, 4, 8], "wrong", "It is not '2, 4, 8': look at number 3 of 3."),
        ("stages-that-fit", "3, 4, 8", "wrong", "look at number 1 and 3 of 3."),
        ("stages-that-fit", "2, 4", "wrong", "It is not '2, 4'."),
        ("descriptor-limits", "c: x[1:, :32]", "right", ""),
        ("descriptor-limits", "(C), the narrow one", "right", ""),
        ("descriptor-limits", ("b",), "wrong", ""),
        ("descriptor-limits", "a row of x", "no answer", "one of"),
        ("descriptor-limits", "", "no answer", "one of"),
    ],
)
def test_an_answer_is_read_with_its_unit_its_wording_and_a_comma_too_many(
    exercise, answer, verdict, says
):
    checked = check(exercise, answer)
    assert checked.verdict == verdict, checked
    assert says in str(checked)


NAMES = NamesExercise(
    "1",
    right=("ptx", "llir", "sass"),
    because="so",
    slips={("llir", "ptx", "sass"): "swapped"},
    synonyms={"llvm ir": "llir", "cubin": "sass"},
    of="stages",
)


@pytest.mark.parametrize(
    "answer",
    ["ptx, llir, sass", "PTX LLIR SASS", "PTX, LLVM IR and cubin.", ["ptx", "llir", "sass"]],
)
def test_names_are_known_by_other_names_and_in_any_writing(answer):
    assert NAMES.judge(answer) == ("right", "so", "")


@pytest.mark.parametrize(
    ("answer", "says", "kind"),
    [
        ("llir, ptx, sass", "swapped", "slip 1"),
        ("ptx, sass, llir", "1 of the 3 stand in the right place.", "order"),
        ("ptx, llir", "It has 2 names, and must have 3, one for each line, in order.", "2 names"),
        ("ptx, llir, sas", "'sas' is none of the stages: those are llir, ptx, sass.", "unknown"),
    ],
)
def test_wrong_names_are_told_what_is_wrong_with_them(answer, says, kind):
    assert NAMES.judge(answer) == ("wrong", says, kind)


def test_what_is_no_text_is_no_list_of_names():
    assert NAMES.judge(5)[0] == "no answer"
