"""An operator is registered in a process of its own, so the session outlives every answer."""

import os
from dataclasses import replace

import pytest

from course import check
from course.exercises import learner
from course.exercises.registry import find


def leaves(name, forward, backward):
    os._exit(3)


def exits(name, forward, backward):
    raise SystemExit


def never_ends(name, forward, backward):
    while True:
        pass


def fills(name, forward, backward):
    kept = []
    while True:
        kept.append(b"x" * 2**27)


def raises(name, forward, backward):
    print("so far")
    raise RuntimeError("no such place: 7")


def nothing(name, forward, backward):
    return None


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    limited = replace(find("register-operator"), timeout_s=2)
    monkeypatch.setattr("course.exercises.api.find", lambda _: limited)
    monkeypatch.setattr("course.exercises.judges.code.child_memory_bytes", lambda: 2**30)


@pytest.mark.parametrize(
    ("answer", "verdict", "says"),
    [
        (leaves, "crashed", "It ended early: it left with exit code 3"),
        (exits, "crashed", "It ended early: it left with exit code 0"),
        (never_ends, "stopped", "It was stopped after 2 s of computing: look for a loop"),
        (fills, "stopped", "It was stopped at 0.5 GiB of memory"),
        (nothing, "wrong", "It returned a NoneType: return what torch.library.triton_op gives"),
    ],
)
def test_each_way_to_end_has_a_verdict_and_leaves_the_session(answer, verdict, says):
    checked = check("register-operator", answer)
    assert (checked.verdict, says in checked.reason) == (verdict, True), checked
    assert ("register-operator" in learner.tried()) == (verdict in ("crashed", "wrong"))


def test_an_exception_is_wrong_and_its_kind_has_no_names_and_numbers():
    checked = check("register-operator", raises)
    assert (checked.verdict, checked.kind) == ("wrong", "raised RuntimeError no such place")
    assert "It printed: so far" in checked.notes


@pytest.mark.parametrize("answer", [3, print, lambda name: None])
def test_what_is_no_such_function_is_no_answer(answer):
    assert check("register-operator", answer).verdict == "no answer"
