"""The table of what errors mean: its patterns, its braces, its form."""

import re
from string import Formatter

import pytest

from course.triton_internals.error_meanings import FACTS, _meanings
from course.triton_internals.kernel_place import Place

ALL = _meanings()


@pytest.mark.parametrize(("at", "words", "says"), ALL, ids=[says[:40] for *_, says in ALL])
def test_a_meaning_is_one_clause_whose_braces_are_known(at, words, says):
    groups = re.compile(words).groups
    names = {name for _, name, *_ in Formatter().parse(says) if name}
    known = {f"w{number}" for number in range(1, groups + 1)} | set(FACTS)
    assert names <= known and at in ("kernel", "launch", "both")
    assert not says.endswith(".") and ". " not in says


def test_each_brace_is_used_and_stays_empty_where_nothing_is_known():
    names = {name for *_, says in ALL for _, name, *_ in Formatter().parse(says) if name}
    texts = {fact(Place()) or "" for fact in FACTS.values()}
    assert texts == {"", "…", "axes that meet must be equally long, or 1"}
    assert {*FACTS} == {name for name in names if not re.fullmatch(r"w\d", name)}


def test_no_meaning_hides_another():
    always = set()  # what is found whenever its words are
    for at, words, says in ALL:
        assert (at, words) not in always, says
        if "{" not in says:
            always.add((at, words))
