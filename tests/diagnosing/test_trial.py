"""The trial of docs/diagnose-trial.md: its first table is a record of the first asking; the second
says what `diagnose` names today."""

import importlib

import pytest
import torch

from course import diagnose

from . import trial_tables

ROWS = trial_tables.first_asking("k")
TODAY = trial_tables.today("k")


def test_the_table_has_every_kernel_and_its_times():
    trial_tables.assert_it_has_every_kernel_and_its_times(ROWS, "trial")


@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_it_names_today_is_in_the_second_table_with_its_estimate(name):
    trial = importlib.import_module(f"tests.diagnosing.trial.{name}")
    arguments, options, grid = trial.arguments(torch.device("cpu"), True)
    said = diagnose(trial.kernel, grid, *arguments, target="H200", **options)
    trial_tables.assert_the_row_of_today_is_what_it_names(TODAY[name], said)


def test_a_cause_that_is_the_first_one_still_is_as_right_as_it_was():
    trial_tables.assert_a_cause_that_is_the_first_one_still_is_as_right_as_it_was(ROWS, TODAY)
