"""The files of kernels/ as programs: what they print, and how they end."""

import os
import re
import sys

import pytest
import torch

from course.benching.benchmarks import operation
from kernels import program
from tests.support.processes import run

NAMES = [
    "attention", "bias_gelu", "cross_entropy", "matmul", "rms_norm", "softmax", "swiglu",
    "transpose", "vector_add",
]  # fmt: skip
ALL_IN_ONE_PROCESS = """
import runpy, sys
for name in sys.argv[1:]:
    sys.argv = [f"{name}.py"]
    try:
        runpy.run_module(f"kernels.{name}", run_name="__main__")
    except SystemExit as end:
        print("ended", name, end.code)
"""
SUMS = {
    "small": (7,), "large": (2**20,), "inputs": lambda n: (torch.randn(n), torch.randn(n)),
    "reference": torch.add,
}  # fmt: skip


def ladder(name):
    return operation("flash_attention" if name == "attention" else name).ladder


def rows(printed):
    """Version -> what stands behind it, of the tables printed."""
    return dict(re.findall(r"^(\w+) +(right|WRONG|fails: .*)(?:, .*)?$", printed, re.MULTILINE))


def test_each_program_runs_its_whole_ladder_by_the_interpreter():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    ended = run(sys.executable, "-c", ALL_IN_ONE_PROCESS, *NAMES, env=environment)
    for name in NAMES:
        assert f"ended {name} 0" in ended.stdout, ended.stdout + ended.stderr
    found = rows(ended.stdout)
    assert {version for name in NAMES for version in ladder(name)} <= found.keys()
    assert {*found.values()} == {"right"}


def test_without_a_gpu_a_program_says_so_and_begins_again_in_the_interpreter():
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    environment.pop("TRITON_INTERPRET", None)
    ended = run(sys.executable, "-m", "kernels.vector_add", "add", env=environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("No GPU here: Triton's interpreter runs each version")
    assert rows(ended.stdout) == {"add": "right"}


@pytest.fixture
def called(monkeypatch, capsys):
    """Returns a function that calls the program with a command line, and gives its exit status and
    what it printed."""

    def call(*line, versions=(torch.add,)):
        monkeypatch.setattr(sys, "argv", ["/there/vector_add.py", *line])
        with pytest.raises(SystemExit) as end:
            program.main("The ladder.", versions, **SUMS)
        return end.value.code, "".join(capsys.readouterr())

    return call


def test_what_is_no_version_and_no_option_is_a_sentence(called):
    code, printed = called("add_v9")
    assert code == 2 and "there is no version 'add_v9': there is add" in printed
    code, printed = called("--fast")
    assert code == 2 and "unrecognized arguments: --fast" in printed
    assert "usage: python -m kernels.vector_add [-h] [version ...]" in printed


def test_help_shows_the_ladder(called):
    code, printed = called("--help")
    assert code == 0 and "The ladder." in printed


def test_a_wrong_version_is_called_so_and_the_others_still_run(called):
    def off(x, y):
        return x + y + 1e-5

    def undefined(x, y):
        return x * float("nan")

    def lacking(x, y):
        raise RuntimeError("no room\nat all")

    code, printed = called(versions=(off, undefined, lacking, torch.add))
    assert code == 1
    expected = {"off": "WRONG", "undefined": "WRONG", "add": "right"}
    assert rows(printed) == {**expected, "lacking": "fails: RuntimeError: no room"}


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.parametrize("name", NAMES)
def test_on_a_gpu_each_version_and_its_peers_are_timed(name):
    ended = run(sys.executable, "-m", f"kernels.{name}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    timed = re.findall(r"^(\w+) .*?\d+\.\d+ +\d+%$", ended.stdout, re.MULTILINE)
    assert {*ladder(name), "torch", "copy"} <= {*timed}
