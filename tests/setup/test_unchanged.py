"""What has not changed since it passed is left out, and only that."""

import json
from pathlib import Path

import pytest

from course import MODE
from tests.support import imports

pytestmark = pytest.mark.skipif(MODE.gpu, reason="in GPU mode everything runs")
ROOT = Path(__file__).parents[2]
CONFTEST = """
import os
from importlib.metadata import version
from pathlib import Path
import unchanged

unchanged.ROOT = Path(__file__).parent
unchanged.PASSED = unchanged.ROOT / "passed.json"
unchanged.ALWAYS = ()
unchanged.TRITON = os.environ.get("PINNED_TRITON", version("triton"))
pytest_plugins = ["unchanged"]
"""
TESTS = """
import pytest
from pathlib import Path

@pytest.mark.unless_unchanged("numbers", "data")
@pytest.mark.parametrize("number", [1, 2])
def test_number(number):
    assert number < int(Path(__file__).with_name("data").joinpath("most").read_text())

def test_other():
    pass
"""


ALWAYS = TESTS.replace(
    "def test_other",
    """@pytest.mark.unless_unchanged("numbers", "data")
@pytest.mark.always
def test_other""",
)


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "support")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_numbers=TESTS)
    (pytester.path / "data").mkdir()
    (pytester.path / "data" / "most").write_text("3")
    return pytester.path


@pytest.fixture
def run(project, pytester):
    """Run pytest with options; how many tests have passed, failed, and were skipped."""

    def run(*options):
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *options)
        return {
            name: number
            for name, number in result.parseoutcomes().items()
            if name in ("passed", "failed", "skipped")
        }

    return run


def test_it_runs_until_a_run_of_all_has_passed_and_again_when_a_file_changes(project, run):
    assert run() == run() == {"passed": 3}
    assert run("--all-groups") == {"passed": 3}
    assert run() == {"passed": 1, "skipped": 2}
    assert run("--all-groups") == {"passed": 3}
    (project / "data" / "most").write_text("4")
    assert run() == {"passed": 3}


def test_a_test_of_a_group_may_run_always_and_counts_for_its_group(project, run):
    (project / "test_numbers.py").write_text(ALWAYS)
    assert run("--all-groups") == {"passed": 3}
    assert run() == {"passed": 1, "skipped": 2}
    (project / "test_numbers.py").write_text(ALWAYS.replace("pass\n", "assert False\n"))
    assert run("--all-groups") == {"passed": 2, "failed": 1}
    assert json.loads((project / "passed.json").read_text()) == {}


def test_a_change_to_the_test_itself_counts(project, run):
    run("--all-groups")
    (project / "test_numbers.py").write_text(TESTS + "\n# more\n")
    assert run() == {"passed": 3}


def test_a_change_to_what_the_test_imports_counts_also_in_turn(project, run):
    (project / "test_numbers.py").write_text(f"import helper\n{TESTS}")
    (project / "helper.py").write_text("import helpers_helper\n")
    (project / "helpers_helper.py").write_text("")
    run("--all-groups")
    assert run() == {"passed": 1, "skipped": 2}
    (project / "helpers_helper.py").write_text("# more\n")
    imports._mentioned.cache_clear()
    assert run() == {"passed": 3}


def test_a_group_of_which_one_fails_is_not_noted_and_forgotten_if_it_was(project, run):
    run("--all-groups")
    (project / "data" / "most").write_text("2")
    assert run("--all-groups") == {"failed": 1, "passed": 2}
    assert json.loads((project / "passed.json").read_text()) == {}
    assert run() == {"failed": 1, "passed": 2}


def test_a_part_of_the_tests_is_not_noted_as_the_whole(project, pytester, capfd):
    pytester.runpytest_inprocess("-p", "no:xdist", "--all-groups", "-k", "number")
    assert "leave out -k and -m" in capfd.readouterr().err


def test_a_path_with_nothing_there_is_refused(project, pytester, capfd):
    (project / "data" / "most").unlink()
    pytester.runpytest_inprocess("-p", "no:xdist")
    assert "there is nothing at 'data'" in capfd.readouterr().err


def test_with_another_triton_than_the_pinned_one_everything_runs_and_nothing_is_noted(
    project, run, monkeypatch
):
    assert run("--all-groups") == {"passed": 3}
    noted = (project / "passed.json").read_text()
    monkeypatch.setenv("PINNED_TRITON", "3.0.0")
    assert run() == {"passed": 3}
    (project / "data" / "most").write_text("2")
    assert run("--all-groups") == {"passed": 2, "failed": 1}
    assert (project / "passed.json").read_text() == noted
