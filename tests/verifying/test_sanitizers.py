"""What Triton's sanitizers said on a GPU, read without one; tests/gpu asks them."""

import json

import pytest

import course
from course import CourseError, verify
from course.isolate.function_source import source_of
from course.verifying import sanitizers
from course.verifying.inputs import Case, Input
from tests.support.processes import ROOT

RECORD = ROOT / "course/benching/recorded/observed/sanitizers.json"
REPORTS = json.loads(RECORD.read_text())["reports"]
CASES = [Case((Input((5,)),)), Case((Input((2**20,)),)), Case((Input((6,)),))]
"""The second is too large to be launched under a sanitizer."""
SAYS = "import sys\nprint('case 0')\nprint('case 1')\nsys.stderr.write({said!r})\nsys.exit(1)"


def double(x):
    return 2 * x


def in_record(name):
    """What the driver printed, of this file in place of the recorded one: `double` is in it."""
    line = double.__code__.co_firstlineno + 1
    said = REPORTS[name]["said"].split("\n")[0]
    return f"{__file__}:{line}:{said.split(':', 2)[2]}\n"


@pytest.mark.parametrize(
    ("name", "finds"),
    [
        ("early, consan", "Accessing buffer with pending access. Pending access type: async_copy"),
        ("shared, gsan", "Write after write race detected."),
        ("turned, iisan", "Tensor descriptor strides must be 16-byte aligned."),
    ],
)
def test_an_assertion_makes_its_case_wrong_and_names_the_line(name, finds, monkeypatch):
    script = SAYS.format(said=in_record(name)).replace("{", "{{").replace("}", "}}")
    monkeypatch.setattr(sanitizers, "BY_VARIABLE", script)
    monkeypatch.setattr(sanitizers, "BY_TOOL", script)
    monkeypatch.setattr(sanitizers, "check_sanitizers", lambda names: None)
    sanitizer = name.split(", ")[1]
    verified = verify(double, double, CASES, sanitizers=(sanitizer,))
    assert [each.verdict for each in verified.outcomes] == ["right", "right", "wrong"]
    assert finds in verified.sanitizers[0] and finds in str(verified)
    assert "of test_sanitizers.py:  return 2 * x" in str(verified)


def test_a_process_without_an_answer_makes_nothing_wrong(monkeypatch):
    monkeypatch.setattr(sanitizers, "check_sanitizers", lambda names: None)
    monkeypatch.setattr(sanitizers, "BY_VARIABLE", "raise OSError('no room')")
    verified = verify(double, double, CASES, sanitizers=("consan",))
    assert verified.right
    assert "consan has no answer. Its process failed: OSError: no room." in str(verified)


@pytest.mark.skipif(course.MODE.gpu, reason="needs CPU mode: a GPU does as it is asked")
@pytest.mark.parametrize("name", ["gsan", "iisan"])
def test_the_function_and_its_cases_arrive_in_the_process(name):
    """Without a GPU they come as far as the first tensor."""
    said = sanitizers.sanitized(name, source_of(double), CASES)
    assert said.problem is None and f"{name} has no answer. Its process failed: " in said.sentence
    assert any(word in said.sentence for word in ("NVIDIA", "CUDA", "active drivers")), (
        said.sentence
    )


def test_what_cannot_be_asked_is_refused_before_anything_runs():
    with pytest.raises(CourseError, match=r"knows the sanitizers consan, gsan, iisan; not fpsan"):
        verify(double, double, CASES, sanitizers=("fpsan",))
    if not course.MODE.gpu:
        with pytest.raises(CourseError, match=r"Sanitizers look at launches on a GPU: CPU mode"):
            verify(double, double, CASES, sanitizers=("gsan",))


def test_what_finds_nothing_is_said_with_the_number_of_cases(monkeypatch):
    monkeypatch.setattr(sanitizers, "check_sanitizers", lambda names: None)
    monkeypatch.setattr(sanitizers, "BY_VARIABLE", "print('case 0')\nprint('case 1')")
    assert "iisan found nothing in 2 cases." in str(
        verify(double, double, CASES, sanitizers=("iisan",))
    )
