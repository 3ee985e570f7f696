"""A wrong answer that one small change makes right: check says where it is."""

import time
from dataclasses import replace

import pytest
import triton
import triton.language as tl

from course import check
from course.exercises.judges import code
from course.exercises.judges.code import check_code
from course.exercises.judges.one_change import change_candidates
from course.exercises.judges.worker import SEARCH_S
from course.exercises.registry import find
from course.isolate.function_source import Definition, Source
from tests.exercises.test_check import right_kernel

pytestmark = pytest.mark.gpu_too

FOUND = "With one small change it comes out right: look at"


@triton.jit
def copying_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def plus_two_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 + tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def one_too_many_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets <= n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def twice_wrong_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets > n
    tl.store(out_ptr + offsets, 2 + tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def endless_when_changed_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n
    i = 0
    while i < 3:
        i += 1
    tl.store(out_ptr + offsets, 2 + tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def other_number_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n
    tl.store(out_ptr + offsets, 7 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def test_it_says_what_to_look_at_and_in_which_line():
    text = str(check("if-becomes-mask", plus_two_kernel))
    line = plus_two_kernel.fn.__code__.co_firstlineno + 4
    place = f"look at 2 + tl.load(x_ptr + offsets, mask=mask) in line {line} of test_one_change.py."
    assert place in text


def test_what_is_found_takes_the_place_of_a_guess():
    text = str(check("if-becomes-mask", one_too_many_kernel))
    assert "reads outside" in text
    assert f"{FOUND} offsets <= n in line" in text
    without = str(check_code(find("if-becomes-mask"), one_too_many_kernel))
    assert text == without  # it is the same from run to run


def test_it_is_looked_for_in_the_function_that_the_exercise_asks_for():
    """Which the kernel that is given to check calls, in another cell."""
    definitions = [
        Definition(name, f"def {name}(x, y):\n    return x + y", file, 1)
        for name, file in (
            ("attend_tile", "<cell elsewhere, of attend_tile>"),
            ("tile_kernel", "<cell 1>"),
        )
    ]
    for whole, searched in ((definitions, "attend_tile"), (definitions[1:], "tile_kernel")):
        changes = change_candidates("one-matrix", Source((), (), tuple(whole)))
        assert {each.name for each, _ in changes} == {searched}


def test_two_slips_are_no_small_change():
    assert FOUND not in str(check("if-becomes-mask", twice_wrong_kernel))


def test_a_number_far_from_the_right_one_is_no_small_change():
    assert FOUND not in str(check("if-becomes-mask", other_number_kernel))


def test_a_change_that_makes_a_loop_endless_ends_and_the_next_is_tried():
    begun = time.monotonic()
    text = str(check("if-becomes-mask", endless_when_changed_kernel))
    assert f"{FOUND} 2 + tl.load" in text
    assert time.monotonic() - begun < 15 * SEARCH_S


@pytest.mark.parametrize("ending", ["crashed", "out of time", "out of memory"])
def test_a_search_that_ends_early_leaves_the_verdict_as_it_was(monkeypatch, ending):
    expected = str(check("if-becomes-mask", twice_wrong_kernel))
    own = code.InChild.ended

    def ended(self, *args, **kwargs):
        done = own(self, *args, **kwargs)
        return (
            replace(done, how=ending, value=None) if self.here.__name__ == "find_change" else done
        )

    monkeypatch.setattr(code.InChild, "ended", ended)
    assert str(check("if-becomes-mask", twice_wrong_kernel)) == expected
    assert FOUND not in str(check("if-becomes-mask", plus_two_kernel))


@pytest.mark.parametrize(
    ("answer", "verdict"), [(right_kernel, "right"), (copying_kernel, "wrong")]
)
def test_what_is_right_or_a_known_slip_is_not_searched(monkeypatch, answer, verdict):
    called, own = [], code.InChild.ended

    def ended(self, *args, **kwargs):
        called.append(self.here.__name__)
        return own(self, *args, **kwargs)

    monkeypatch.setattr(code.InChild, "ended", ended)
    assert check("if-becomes-mask", answer).verdict == verdict
    assert "run_answer" in called
    assert "find_change" not in called
