"""A verdict in a notebook: a sign and a color, and the words of the plain text."""

import re
from typing import get_args

import pytest

from course.exercises.result import MIME, NO_TRY, Checked, Verdict


def shown(verdict, reason=""):
    return Checked("scale-and-shift", verdict, reason)._repr_mimebundle_()


def color(bundle):
    return re.search(r"solid (#\w{6})", bundle["text/html"])[1]


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_a_verdict_has_a_sign_and_a_color_and_neither_stands_alone(verdict):
    bundle = shown(verdict)
    sign = "✔" if verdict == "right" else "○" if verdict in NO_TRY else "✘"
    assert bundle["text/plain"] == f"{sign} scale-and-shift: {verdict}."
    assert f"{sign} scale-and-shift: {verdict}." in bundle["text/html"]
    assert bundle[MIME]["text"] == f"scale-and-shift: {verdict}."


def test_right_wrong_and_undecided_differ_in_color():
    assert len({color(shown(verdict)) for verdict in ("right", "wrong", "to do")}) == 3
    assert color(shown("race")) == color(shown("wrong"))


def test_what_a_reason_quotes_is_no_markup():
    bundle = shown("wrong", "it returned '<img src=x onerror=alert(1)>'")
    assert "<img" not in bundle["text/html"]
    assert "&lt;img src=x" in bundle["text/html"]
