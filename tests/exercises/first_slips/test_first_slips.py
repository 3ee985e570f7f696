"""Slips of beginners: what each is told names the line and leads to the mend."""

import re

import pytest

from course import MODE, CourseError, cost, lower, verify
from course.tracing.own_launches import OwnLaunchError
from course.triton_internals.launches_watched import launches_watched

from . import programs
from .table import REFERENCES, SLIPS, Slip, case_of

pytestmark = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: the interpreter tells most of it")
IDS = [f"{number}-{slip.kind}-{slip.program}" for number, slip in enumerate(SLIPS)]


@pytest.mark.parametrize("name", REFERENCES)
def test_the_programs_are_right(name):
    result = verify(getattr(programs, name), REFERENCES[name], [case_of(name)], block=32)
    assert result.right and not result.outcomes[0].note, result


def test_there_are_ten_of_each_kind_at_least():
    kinds = [slip.kind for slip in SLIPS]
    assert len(set(kinds)) == 10 and min(kinds.count(kind) for kind in kinds) >= 10


@pytest.mark.parametrize("slip", SLIPS, ids=IDS)
def test_what_is_told_leads_to_the_mend(slip, tmp_path):
    module = slip.module(tmp_path)
    function = getattr(module, slip.program)
    verified = verify(function, REFERENCES[slip.program], [slip.case], block=32)
    told = str(verified)
    if verified.right and not verified.outcomes[0].note:
        told = by_the_compiler(module, slip)
    missing = [words for words in slip.words if not re.search(words, told, re.IGNORECASE)]
    assert not missing, told
    if slip.line_number:
        assert re.search(rf"Line {slip.line_number} of \S*{slip.program}.py:", told), told
    problem = verified.outcomes[0].problem
    if problem and problem.kind == "raised" and slip.kind != "store":
        says_the_same_plainly(function, slip, problem.text)


def says_the_same_plainly(function, slip: Slip, sentence: str):
    """Where the kernel is launched by the cell itself, and its error means something."""
    with pytest.raises(Exception) as raised:
        function(*slip.case.arguments("cpu"))
    if isinstance(raised.value, OwnLaunchError):
        assert str(raised.value).split("\n")[0] in sentence


class _Last:
    """Keeps the launch that was called last."""

    def begins(self, launch):
        return True

    def ready(self, launch):
        self.launch = launch

    def ended(self, launch):
        pass


def last_launch(module, slip: Slip):
    """What the launcher hands to its kernel."""
    last = _Last()
    with launches_watched(last, run=False):
        getattr(module, slip.program)(*slip.case.arguments("cpu"))
    return last.launch


def by_the_compiler(module, slip: Slip) -> str:
    launch = last_launch(module, slip)
    with pytest.raises(CourseError) as refused:
        lower(getattr(module, f"{slip.program}_kernel"), *launch.args, **launch.kwargs)
    return str(refused.value)


@pytest.mark.parametrize("number", [0, 13, 19, 24, 33, 35, 42, 75])
def test_every_tool_says_the_same(number, tmp_path):
    slip = SLIPS[number]
    module = slip.module(tmp_path)
    function = getattr(module, slip.program)
    with pytest.raises(OwnLaunchError) as raised:
        function(*slip.case.arguments("cpu"))
    sentence = str(raised.value).split("\n")[0]
    assert sentence in by_the_compiler(module, slip)
    assert sentence in str(verify(function, REFERENCES[slip.program], [slip.case]))
    launch = last_launch(module, slip)
    kernel = getattr(module, f"{slip.program}_kernel")
    with pytest.raises(CourseError) as refused:
        cost(kernel, launch.sizes, *launch.args, **launch.kwargs)
    assert sentence in str(refused.value)
