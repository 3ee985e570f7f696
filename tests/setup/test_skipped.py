"""What the last lines of a run say: what was skipped for what the machine lacks, and CPU time."""

import subprocess

import pytest

from course.lessons.order import lesson_sources
from tests.support.notebook_sessions import COMPILING
from tests.support.processes import computed_s


@pytest.fixture
def run(pytester):
    """Run a text of tests; its outcomes, and its lines."""

    def run(text):
        pytester.makepyfile("import pytest\n" + text)
        return pytester.runpytest_inprocess("-p", "no:xdist", "-p", "tests.support.skipped")

    return run


def test_what_was_lacking_is_counted_by_what_it_is(run):
    ran = run(
        """
@pytest.mark.skipif(True, reason="needs root: only it may")
def test_one(): pass
def test_two(): pytest.skip("needs root: only it has other users")
def test_three(): pytest.importorskip("no_such_module", reason="needs no_such_module")
"""
    )
    ran.assert_outcomes(skipped=3)
    ran.stdout.fnmatch_lines(["2 skipped: needs root", "1 skipped: needs no_such_module"])


@pytest.mark.parametrize(
    "text",
    [
        '@pytest.mark.skip(reason="takes long")\ndef test_one(): pass',
        'def test_one(): pytest.skip("it passed yesterday")',
        'pytest.skip("the whole file", allow_module_level=True)',
    ],
)
def test_a_skip_for_any_other_reason_fails(run, text):
    ran = run(text)
    assert ran.ret != 0
    outcomes = ran.parseoutcomes()
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 1 and "skipped" not in outcomes
    ran.stdout.fnmatch_lines(["*is said as*needs*"])


def test_lessons_that_compile_c_are_those_whose_notebooks_need_a_compiler():
    compiling = {each.stem[3:] for each in lesson_sources() if "aot.build(" in each.read_text()}
    assert compiling == set(COMPILING)


def test_the_time_of_a_process_that_has_just_ended_is_left_out(monkeypatch):
    psutil = pytest.importorskip("psutil")
    ended = subprocess.Popen(["sleep", "60"])
    gone = psutil.Process(ended.pid)
    ended.kill()
    ended.wait()
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [gone])
    assert computed_s() > 0
