"""The second trial of docs/diagnose-trial.md: its kernels are right, its first table is a record of
what `diagnose` answered when it was first asked, the second says what it names today, and the third
what it names with times that a GPU has measured."""

import importlib

import pytest
import torch

from . import trial_tables
from .measured import Asked

ROWS = trial_tables.first_asking("m")
TODAY = trial_tables.today("m")
MEASURED = trial_tables.measured("m")
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
def test_what_it_names_today_is_in_the_tables_with_its_estimate_and_what_was_measured(name):
    trial = importlib.import_module(f"tests.diagnosing.trial2.{name}")
    arguments, options, grid = trial.arguments(torch.device("cpu"), True)
    asked = Asked(trial.kernel, grid, *arguments, **options)
    # A busy machine follows fewer programs in the same time, and these may be shorter or longer.
    within = 0.3 if asked.said.notes else 0.02
    trial_tables.assert_the_row_of_today_is_what_it_names(TODAY[name], asked.said, within)
    of_gpu = asked.measured(trial_tables.recorded(name, asked.lowered))
    trial_tables.assert_the_measured_row_is_what_it_names(MEASURED[name], of_gpu)


def test_the_page_counts_what_is_right_as_measured():
    trial_tables.assert_the_page_counts_what_is_right_as_measured(MEASURED)
    more = [
        *trial_tables.gained_more_than_measured("k", "trial"),
        *trial_tables.gained_more_than_measured("m", "trial2"),
    ]
    assert f"six twins gained over a twentieth more than the tables say: {_joined(more)}." in WORDS
    estimated = [name for name, row in MEASURED.items() if row[2] == "-"]
    assert f"No experiment stands behind the first cause of {_joined(estimated)}:" in WORDS


def test_the_page_tells_which_times_are_older():
    older = trial_tables.data("experiments.json")["measured on 2026-11-23 by fewer experiments"]
    assert f"the last eight, {older[0]} to {older[-1]}" in WORDS
    by_experiment = [name for name, row in MEASURED.items() if row[-1] == "yes" and row[2] != "-"]
    assert f"has found the right cause for {len(by_experiment)} of the 15" in WORDS
    also_older = [name for name in by_experiment if name in older]
    assert f"For {len(also_older)} of these {len(by_experiment)} the times are those of" in WORDS


def _joined(names):
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def test_a_cause_that_is_the_first_one_still_is_as_right_as_it_was():
    trial_tables.assert_a_cause_that_is_the_first_one_still_is_as_right_as_it_was(ROWS, TODAY)
