"""The mends for nbval: a session that dies fails its cell at once; none shares a Triton cache."""

import os
import re
import sys

import nbformat
import pytest

from tests.support.processes import ROOT, python_path, run

pytest.importorskip("nbval")
EMPTY_CACHE = "import os; assert os.listdir(os.environ['TRITON_CACHE_DIR']) == []"
NAMES_CACHE = "print(os.environ['TRITON_CACHE_DIR'])"
NOTEBOOKS = {
    "dies": ("1", "import os; os.kill(os.getpid(), 11)", "2"),
    "fails": ("assert False",),
    "cached": (EMPTY_CACHE, "open(os.environ['TRITON_CACHE_DIR'] + '/kept', 'w').close()"),
    "fresh": (EMPTY_CACHE, NAMES_CACHE),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What pytest says of these notebooks, in a process of its own, as `make test` runs it."""
    folder = tmp_path_factory.mktemp("notebooks")
    for name, cells in NOTEBOOKS.items():
        code = [nbformat.v4.new_code_cell(text) for text in cells]
        nbformat.write(nbformat.v4.new_notebook(cells=code), folder / f"{name}.ipynb")
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    options = ["-q", "-rA", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    files = [f"{name}.ipynb" for name in NOTEBOOKS]
    environ = {**os.environ, "PYTHONPATH": python_path(), "REQUIRE": ""}
    return run(sys.executable, "-m", "pytest", *options, *files, cwd=folder, env=environ).stdout


def outcomes(report, name):
    """The outcome of each of a notebook's cells, in order."""
    lines = re.findall(rf"^(PASSED|FAILED) {name}\.ipynb::\S*?Cell (\d+)", report, re.MULTILINE)
    return [outcome for outcome, _ in sorted(lines, key=lambda line: int(line[1]))]


def test_a_session_that_dies_fails_its_cell_before_its_time_limit(report):
    assert "session died while this cell ran" in report
    assert outcomes(report, "dies") == ["PASSED", "FAILED", "FAILED"]


def test_a_failing_cell_fails(report):
    assert outcomes(report, "fails") == ["FAILED"]


def test_each_notebook_has_an_empty_triton_cache_of_its_own(report):
    assert outcomes(report, "cached") == ["PASSED", "PASSED"]
    assert outcomes(report, "fresh") == ["PASSED", "PASSED"]
