"""The second trial of docs/diagnose-trial.md: its kernels are right, its first table is a record of
what `diagnose` answered when it was first asked, and the second says what it names today."""

import importlib

import pytest
import torch

from course import diagnose

from . import trial_tables

ROWS = trial_tables.first_asking("m")
TODAY = trial_tables.today("m")
ANSWERS = trial_tables.data("trial2", "first_answers.json")["answers"]
WORDS = " ".join(trial_tables.PAGE.split())


def test_the_table_has_every_kernel_and_its_times():
    trial_tables.assert_it_has_every_kernel_and_its_times(ROWS, "trial2")


def test_the_table_says_what_was_answered_first():
    assert sorted(ROWS) == sorted(ANSWERS)
    for name, (*_, cause, right) in ROWS.items():
        causes = ANSWERS[name]["causes"]
        assert cause == (causes[0]["what"] if causes else "none")
        assert right == ("yes" if ANSWERS[name]["right"] else "no")
    assert not any(answer["right"] for answer in ANSWERS.values() if not answer["causes"])


@pytest.mark.parametrize("which", ["kernel", "mend_a", "mend_b"])
@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_kernel_and_its_mended_twins_agree_with_the_reference(name, which):
    trial = importlib.import_module(f"tests.diagnosing.trial2.{name}")
    launch = trial if which == "kernel" else getattr(trial, which)
    device = torch.device("cpu")
    want = trial.reference(trial.arguments(device, False)[0])
    arguments, options, grid = launch.arguments(device, False)
    launch.kernel[grid](*arguments, **options)
    results = [arguments[place] for place in launch.outputs]
    assert any(tensor.abs().max() > 0 for tensor in want)
    if hasattr(trial, "close"):
        assert trial.close(results, want)
        return
    for result, expected in zip(results, want, strict=True):
        torch.testing.assert_close(
            result, expected, **trial.TOL, check_dtype=not result.is_floating_point()
        )


def test_the_page_counts_the_answers_right():
    times = trial_tables.data("trial2", "times.json")
    named = [answer for answer in ANSWERS.values() if answer["causes"]]
    right = [answer for answer in named if answer["right"]]
    assert f"named a cause for {len(named)} of the 15, and was right for {len(right)}" in WORDS
    missed = [name for name, answer in ANSWERS.items() if not answer["right"]]
    parts = [
        ANSWERS[name]["estimated_us"] / times[name]["kernel_us"]
        for name in missed
        if ANSWERS[name]["estimated_us"]
    ]
    assert (len(missed), len(parts), max(parts) < 1) == (9, 8, True)
    assert sum(part < 0.5 for part in parts) == 5
    assert "Eight of the nine have an estimate. It is below what was measured in all eight" in WORDS
    assert all(f"- **{name}** " in trial_tables.PAGE for name in missed)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_it_names_today_is_in_the_last_table_with_its_estimate(name):
    trial = importlib.import_module(f"tests.diagnosing.trial2.{name}")
    arguments, options, grid = trial.arguments(torch.device("cpu"), True)
    said = diagnose(trial.kernel, grid, *arguments, target="H200", **options)
    # A busy machine follows fewer programs in the same time, and these may be shorter or longer.
    within = 0.3 if said.notes else 0.02
    trial_tables.assert_the_row_of_today_is_what_it_names(TODAY[name], said, within)


def test_a_cause_that_is_the_first_one_still_is_as_right_as_it_was():
    trial_tables.assert_a_cause_that_is_the_first_one_still_is_as_right_as_it_was(ROWS, TODAY)
