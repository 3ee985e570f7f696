"""What the lessons launch compiles for cards of 99 KiB of shared memory, and fits there."""

import pytest

from course import MODE
from course.gpus.limits import TARGETS
from course.lessons.order import lesson_sources
from course.lessons.without_solutions import solved
from tests.support.lesson_launches import compiled

pytestmark = pytest.mark.skipif(
    MODE.gpu, reason="needs CPU mode: compiling is the same in both modes"
)
SHARED_BYTES = 99 * 1024
"""Of sm_89, whose instructions are those of sm_80, and of sm_120."""
FIRST = [f"{number:02}" for number in range(11)]
LARGE = ["15", "16", "17", "18", "20", "22", "23"]
"""The others whose tiles take shared memory."""
FOR_HOPPER = ["gluon-copies", "gluon-partitions", "attention-in-gluon"]
ELSEWHERE = {"if_kernel", "triple_kernel", "half_kernel", "far_kernel", "slow_limit_kernel"}
"""What is launched in a process of its own or is not to be launched."""


@pytest.mark.parametrize(
    ("lesson", "target"),
    [*((lesson, "sm_80") for lesson in FIRST + LARGE), *((lesson, "sm_120") for lesson in FIRST)],
)
def test_what_a_lesson_launches_compiles_and_fits(lesson, target):
    found = compiled(lesson, target)
    assert found.shared and found.problems == []
    assert {name: size for name, size in found.shared.items() if size > SHARED_BYTES} == {}
    if lesson in FIRST:
        assert set(found.defined) - set(found.shared) <= ELSEWHERE


def test_the_cards_meant_have_99_kib():
    assert {TARGETS[name].shared_bytes for name in ("sm_86", "sm_89", "sm_120")} == {SHARED_BYTES}


def test_a_lesson_for_hopper_says_what_other_cards_do_instead():
    for source in lesson_sources():
        if source.stem[3:] in FOR_HOPPER:
            texts = [cell.source for cell in solved(source).cells if cell.cell_type == "markdown"]
            said = " ".join(text for text in texts if "**On other GPUs.**" in text)
            assert "sm_80" in said and ("sm_89" in said or "sm_120" in said), source
