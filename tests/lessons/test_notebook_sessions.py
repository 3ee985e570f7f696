"""The mends for nbval: a session that dies fails its cell at once, and sessions share no Triton cache."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.support.processes import PATIENCE_S, python_path

pytest.importorskip("nbval")
ROOT = Path(__file__).parents[2]


def run_notebook(folder, *cells):
    """pytest on a notebook of these cells, in a process of its own, as `make test` runs it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    nbformat.write(notebook, folder / "example.ipynb")
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "example.ipynb"],
        cwd=folder, env={**os.environ, "PYTHONPATH": python_path(), "REQUIRE": ""},
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip


def test_a_session_that_dies_fails_its_cell_before_its_time_limit(tmp_path):
    result = run_notebook(tmp_path, "1", "import os; os.kill(os.getpid(), 11)", "2")
    assert "session died while this cell ran" in result.stdout, result.stdout
    assert "1 passed" in result.stdout and "2 failed" in result.stdout


def test_a_failing_cell_fails(tmp_path):
    assert "1 failed" in run_notebook(tmp_path, "assert False").stdout


def test_each_notebook_has_an_empty_triton_cache_of_its_own(tmp_path):
    code = "import os; assert os.listdir(os.environ['TRITON_CACHE_DIR']) == []; print(os.environ['TRITON_CACHE_DIR'])"
    assert "1 passed" in run_notebook(tmp_path, code).stdout
