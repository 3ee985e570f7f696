"""The third trial of docs/diagnose-trial.md: its kernels are right, and its table is a record of
what `diagnose` answered when it was first asked, without a GPU and with experiments on one."""

import importlib

import pytest
import torch

from . import trial_tables

ROWS = trial_tables.first_asking("n")
ANSWERS = trial_tables.data("trial3", "first_answers.json")
TIMES = trial_tables.data("trial3", "times.json")
WORDS = " ".join(trial_tables.PAGE.split())
NAMES = sorted(file.stem for file in (trial_tables.FOLDER / "trial3").glob("n[0-9]*.py"))


def test_the_table_has_the_first_twenty_kernels_with_a_faster_twin():
    assert len(ROWS) == len(TIMES) == 20
    assert sorted(ROWS) == sorted(TIMES) == [name for name in NAMES if name != "n10"][:20]
    for times in TIMES.values():
        assert times["kernel_us"] >= 1.2 * min(times["a_us"], times["b_us"])
    trial_tables.assert_the_times_are_those_measured(ROWS, TIMES)


@pytest.mark.parametrize(("way", "place"), [("without a GPU", 3), ("with experiments", 5)])
def test_the_table_says_what_was_answered_first(way, place):
    said, right = {}, 0
    for name, answer in ANSWERS[way].items():
        causes = answer["causes"]
        said[name] = causes[0]["what"] if causes else "none"
        faster = "A" if TIMES[name]["a_us"] < TIMES[name]["b_us"] else "B"
        assert answer["right"] == (answer["points at"] == faster)
        assert causes or not answer["right"]
        right += answer["right"]
        cell = ROWS[name][place]
        assert said[name] == (ROWS[name][3] if cell == "the same" else cell)
        assert ROWS[name][place + 1] == ("yes" if answer["right"] else "no")
    assert f"it was right for {right} of 20, or {5 * right} %" in WORDS


def test_the_experiments_of_each_kernel_are_kept():
    for answer in ANSWERS["with experiments"].values():
        assert answer["experiments"]["done"]
        assert answer["experiments"]["seconds"] < 30


def test_every_kernel_that_was_missed_on_the_gpu_is_spoken_of():
    missed = [name for name, answer in ANSWERS["with experiments"].items() if not answer["right"]]
    assert all(f"- **{name}** " in trial_tables.PAGE for name in missed)


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_and_its_mended_twins_agree_with_the_reference(name):
    trial = importlib.import_module(f"tests.diagnosing.trial3.{name}")
    device = torch.device("cpu")
    want = trial.reference(trial.arguments(device, False)[0])
    assert any(tensor.abs().max() > 0 for tensor in want)
    for launch in (trial, trial.mend_a, trial.mend_b):
        arguments, options, grid = launch.arguments(device, False)
        launch.kernel[grid](*arguments, **options)
        results = [arguments[place] for place in launch.outputs]
        for result, expected in zip(results, want, strict=True):
            torch.testing.assert_close(result, expected, **trial.TOL, check_dtype=False)
