"""The Makefile's targets for a GPU, as `make -n` shows them."""

import os
import re
from pathlib import Path

import pytest

from tests.support.processes import run

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.compiler  # make


@pytest.fixture(scope="module")
def commands():
    """The commands of `make TARGET …`, which are not run."""

    def commands(*words):
        environ = {**os.environ, "MAKEFLAGS": ""}
        return run("make", "-n", "--no-print-directory", *words, env=environ).stdout

    return commands


def test_a_gpu_runs_what_is_marked_side_by_side_and_then_what_needs_it_alone(commands):
    made = commands("test-gpu", "JOBS=16", "PART=tests/gpu notebooks/00*", "TEST=-x")
    first, second = made.split("-m pytest --going-on ")[1:]
    wanted = '-n 16 --dist loadgroup -m "(gpu or gpu_too) and not alone" tests/gpu notebooks/00* -x'
    assert wanted in first
    assert "-m alone tests/gpu notebooks/00* -x" in second


def test_nothing_that_a_gpu_does_not_collect_needs_one(commands):
    folders = set(re.findall(r"--ignore (\S+)", commands("test-gpu")))
    assert folders == {"tests/site", "tests/hub"}
    for file in (file for folder in folders for file in (ROOT / folder).rglob("*.py")):
        assert not re.search(r"mark\.(gpu|alone)", file.read_text()), file


def test_no_other_target_leaves_out_what_has_passed(commands):
    assert "--going-on" not in commands("test", "test-triton-3.8.0", "release-check")


def test_the_debts_to_a_gpu_are_its_tests_and_then_its_records(commands):
    made = commands("gpu-debts")
    assert 0 < made.index("--going-on") < made.index("-m tools.record\n")


def test_a_release_fails_where_a_record_is_outdated(commands):
    assert "-m tools.record --check\n" in commands("release-check")
