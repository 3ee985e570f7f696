"""pytest --going-on leaves out what has passed at the same tree, and only that."""

import json

import pytest

from tests.support import going_on

TESTS = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("number", [1, 2], ids=["1", "2@"])
def test_number(number):
    assert number < int(Path(__file__).with_name("most").read_text())

def test_other():
    pass
"""


QUICK = ("-p", "no:nbval", "-p", "no:playwright", "-p", "no:anyio")
"""For a process of xdist, which would take seconds to import these."""


@pytest.fixture
def run(pytester):
    """Run pytest with options; how many tests have passed and failed, and how many are left
    out."""
    (pytester.path / ".gitignore").write_text("/build/\n__pycache__/\n.pytest_cache/\nignored\n")
    pytester.makepyfile(test_numbers=TESTS)
    (pytester.path / "most").write_text("2")

    def run(*options):
        result = pytester.runpytest_inprocess(
            "-p", "tests.support.going_on", "-p", "no:cacheprovider", "--going-on", *options
        )
        found = {
            name: number
            for name, number in result.parseoutcomes().items()
            if name in ("passed", "failed")
        }
        left = [int(line.split()[0]) for line in result.outlines if "left out, which" in line]
        return found | ({"left out": left[0]} if left else {}), result.ret

    return run


def test_what_has_passed_is_left_out_and_what_has_failed_is_not(run):
    assert run() == ({"passed": 2, "failed": 1}, 1)
    assert run() == ({"failed": 1, "left out": 2}, 1)


def test_what_has_failed_can_be_read_where_the_run_is_cut_off(run, pytester):
    pytester.makepyfile(
        test_numbers="""
        import pytest

        def test_fails():
            assert 1 + 1 == 3

        def test_stops():
            pytest.exit("cut off")
        """
    )
    run()
    failed = (pytester.path / going_on.FAILED).read_text()
    assert failed.startswith("test_numbers.py::test_fails, call\n")
    assert "assert (1 + 1) == 3" in failed


def test_where_all_have_passed_nothing_runs_and_that_is_no_failure(run, pytester):
    (pytester.path / "most").write_text("3")
    assert run() == ({"passed": 3}, 0)
    assert run() == ({"left out": 3}, 0)


@pytest.mark.parametrize("name", ["most", "test_numbers.py", "a new file"])
def test_with_any_other_file_everything_runs_anew(run, pytester, name):
    run()
    path = pytester.path / name
    path.write_text(f"{path.read_text() if path.exists() else ''}\n")
    assert run()[0] == {"passed": 2, "failed": 1}


@pytest.mark.parametrize("name", ["ignored", "build/more", "course/benching/recorded/softmax.json"])
def test_what_git_ignores_and_what_was_recorded_are_no_such_files(run, pytester, name):
    run()
    path = pytester.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    assert run()[0] == {"failed": 1, "left out": 2}


def test_with_another_mode_everything_runs_anew(run, monkeypatch):
    run()
    monkeypatch.setattr(going_on.course, "MODE", "GPU mode: as if")
    assert run()[0] == {"passed": 2, "failed": 1}


def test_a_part_that_has_passed_is_no_more_than_a_part(run):
    assert run("-k", "other")[0] == {"passed": 1}
    assert run("-k", "other")[0] == {"left out": 1}
    assert run()[0] == {"passed": 1, "failed": 1, "left out": 1}


def test_a_test_that_was_cut_off_or_skipped_or_fails_at_its_end_has_not_passed(run, pytester):
    pytester.makepyfile(
        test_numbers="""
        import pytest

        @pytest.fixture
        def breaks():
            yield
            assert False

        def test_end(breaks):
            pass

        def test_skipped():
            pytest.skip("for want of a GPU")

        def test_passes():
            pass

        def test_stops():
            pytest.exit("cut off")
        """
    )
    run()
    noted = (pytester.path / going_on.NOTED).read_text().split("\n")[1:]
    assert noted == ["test_numbers.py::test_passes", ""]


def test_half_a_line_does_not_count(run, pytester):
    pytester.makepyfile(test_numbers="def test_a(): assert False\n\ndef test_ab(): pass\n")
    assert run()[0] == {"passed": 1, "failed": 1}
    noted = pytester.path / going_on.NOTED
    noted.write_text(noted.read_text().removesuffix("b\n"))
    assert run()[0] == {"passed": 1, "failed": 1}


def a_cell(source):
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [],
            "execution_count": None}  # fmt: skip


@pytest.fixture
def notebook(pytester):
    """Items that nbval would make of a notebook: one cell that passes, and one that may."""
    pytester.makeconftest(
        """
        import json
        import pytest

        class Cell(pytest.Item):
            def runtest(self):
                assert self.name != (self.path.parent / "failing").read_text()

        class Notebook(pytest.File):
            def collect(self):
                for name in json.loads(self.path.read_text()):
                    cell = Cell.from_parent(self, name=name)
                    cell.add_marker(pytest.mark.xdist_group(self.path.name))
                    yield cell

        def pytest_collect_file(file_path, parent):
            if file_path.suffix == ".ipynb":
                return Notebook.from_parent(parent, path=file_path)
        """
    )
    (pytester.path / ".gitignore").write_text("/build/\n__pycache__/\nfailing\n")
    (pytester.path / "lesson.ipynb").write_text(json.dumps(["first", "second", "third"]))
    return pytester.path


def test_a_notebook_is_left_out_as_a_whole_after_one_session_in_which_all_of_it_passed(
    run, notebook
):
    only = "lesson.ipynb"
    (notebook / "failing").write_text("second")
    assert run(only)[0] == {"passed": 2, "failed": 1}
    (notebook / "failing").write_text("third")
    assert run(only)[0] == {"passed": 2, "failed": 1}
    (notebook / "failing").write_text("")
    assert run(only)[0] == {"passed": 3}
    assert run(only)[0] == {"left out": 3}


def test_processes_of_xdist_are_told_what_has_passed_and_what_passes_in_them_is_noted(
    run, notebook
):
    (notebook / "failing").write_text("")
    side_by_side = ("-n", "1", "--dist", "loadgroup", *QUICK)
    tests = notebook / "test_numbers.py"
    tests.write_text(
        TESTS.replace("def test_other", '@pytest.mark.xdist_group("a")\ndef test_other')
    )
    assert run(*side_by_side) == ({"passed": 5, "failed": 1}, 1)
    assert run(*side_by_side) == ({"failed": 1, "left out": 5}, 1)
    (notebook / going_on.NOTED).open("a").write("test_numbers.py::test_number[2@]\n")
    assert run(*side_by_side) == ({"left out": 6}, 0)
