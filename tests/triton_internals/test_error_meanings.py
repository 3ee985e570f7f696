"""The table of what errors mean: its patterns, its braces, its form."""

import re
import tomllib
from pathlib import Path
from string import Formatter

import pytest

from course.triton_internals import error_meanings
from course.triton_internals.error_meanings import FACTS
from course.triton_internals.kernel_place import Place

MEANINGS = tomllib.loads(Path(error_meanings.__file__).with_name("error_meanings.toml").read_text())
ALL = MEANINGS["meaning"]


@pytest.mark.parametrize("meaning", ALL, ids=[each["says"][:40] for each in ALL])
def test_a_meaning_is_one_clause_whose_braces_are_known(meaning):
    groups = re.compile(meaning["words"]).groups
    names = {name for _, name, *_ in Formatter().parse(meaning["says"]) if name}
    known = {f"w{number}" for number in range(1, groups + 1)} | set(FACTS)
    assert names <= known and set(meaning) <= {"words", "says", "at"}
    assert not meaning["says"].endswith(".") and ". " not in meaning["says"]


def test_each_brace_is_used_and_stays_empty_where_nothing_is_known():
    names = {name for each in ALL for _, name, *_ in Formatter().parse(each["says"]) if name}
    texts = {fact(Place()) or "" for fact in FACTS.values()}
    assert texts == {"", "…", "axes that meet must be equally long, or 1"}
    assert {*FACTS} == {name for name in names if not re.fullmatch(r"w\d", name)}


def test_no_meaning_hides_another():
    always = set()  # what is found whenever its words are
    for each in ALL:
        key = each.get("at", "kernel"), each["words"]
        assert key not in always, each["says"]
        if "{" not in each["says"]:
            always.add(key)
