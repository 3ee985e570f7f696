"""The trial of docs/diagnose-trial.md: its first table is a record of the first asking; the second
says what `diagnose` names today."""

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
TODAY = {
    name: [cell.strip() for cell in cells.split("|")]
    for name, cells in re.findall(r"^\| (k\d\d) \|(.*)\|$", PAGE, re.MULTILINE)
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
def test_what_it_names_today_is_in_the_second_table_with_its_estimate(name):
    trial = importlib.import_module(f"tests.diagnosing.trial.{name}")
    arguments, options, grid = trial.arguments(torch.device("cpu"), True)
    said = diagnose(trial.kernel, grid, *arguments, target="H200", **options)
    us, estimated, first, gain, _ = TODAY[name]
    assert first == (said.ranked[0].finding.what if said.ranked else "none")
    assert us == ROWS[name][0]
    # Of a grid that is sampled as long as time allows, the sample decides the last digit.
    assert float(estimated.replace(",", "")) == pytest.approx(said.estimated_us, rel=0.02, abs=0.5)
    assert gain == "-" or float(gain) == pytest.approx(said.ranked[0].gain, rel=0.03, abs=0.05)


def test_a_cause_that_is_the_first_one_still_is_as_right_as_it_was():
    assert sorted(TODAY) == sorted(ROWS)
    for name, row in ROWS.items():
        if TODAY[name][2] == row[3]:
            assert TODAY[name][-1] == row[-1]
