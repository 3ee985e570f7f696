"""The trial of docs/diagnose-trial.md: its first causes are those that `diagnose` names today."""

import importlib
import json
import re
from pathlib import Path

import pytest
import torch

from course import diagnose

FOLDER = Path(__file__).parent / "trial"
PAGE = (FOLDER.parents[2] / "docs" / "diagnose-trial.md").read_text()
TIMES = json.loads((FOLDER / "times.json").read_text())
ROWS = {
    name: [cell.strip() for cell in cells.split("|")]
    for name, cells in re.findall(r"^\| \[(k\d\d)\][^|]*\|(.*)\|$", PAGE, re.MULTILINE)
}

pytestmark = pytest.mark.unless_unchanged(
    "the trial of diagnose", "course/diagnosing", "course/lowering", "course/tracing",
    "course/isolate", "course/gpus", "course/triton_internals", "tests/diagnosing/trial",
    "docs/diagnose-trial.md",
)  # fmt: skip


def test_the_table_has_every_kernel_and_its_times():
    assert sorted(ROWS) == sorted(TIMES) == sorted(file.stem for file in FOLDER.glob("k*.py"))
    for name, (us, a, b, _, _) in ROWS.items():
        measured = TIMES[name]
        gains = [measured["kernel_us"] / measured[twin] for twin in ("a_us", "b_us")]
        assert us == f"{measured['kernel_us']:,.0f}"
        for cell, gain in zip((a, b), gains, strict=True):
            assert abs(float(re.findall(r"[\d.]+", cell)[-1]) - gain) < 0.01 * gain + 0.006
            assert cell.startswith("**") == (gain == max(gains))
    right = sum(row[-1] == "yes" for row in ROWS.values())
    assert f"right for {right} of {len(ROWS)}, or {100 * right / len(ROWS):.0f} %" in PAGE


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_first_cause_is_the_one_in_the_table(name):
    trial = importlib.import_module(f"tests.diagnosing.trial.{name}")
    arguments, options, grid = trial.arguments(torch.device("cpu"), True)
    ranked = diagnose(trial.kernel, grid, *arguments, target="H200", **options).ranked
    first = ranked[0].finding.what if ranked else "none"
    assert first == ROWS[name][3]
