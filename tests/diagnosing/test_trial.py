"""The trial of docs/diagnose-trial.md: its first table is a record of the first asking; the second
says what `diagnose` names today, and the third what it names with times that a GPU has measured."""

import importlib

import pytest
import torch

from . import trial_tables
from .measured import Asked

ROWS = trial_tables.first_asking("k")
TODAY = trial_tables.today("k")
MEASURED = trial_tables.measured("k")


def test_the_table_has_every_kernel_and_its_times():
    trial_tables.assert_it_has_every_kernel_and_its_times(ROWS, "trial")


@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_it_names_today_is_in_the_tables_with_its_estimate_and_what_was_measured(name):
    trial = importlib.import_module(f"tests.diagnosing.trial.{name}")
    arguments, options, grid = trial.arguments(torch.device("cpu"), True)
    asked = Asked(trial.kernel, grid, *arguments, **options)
    trial_tables.assert_the_row_of_today_is_what_it_names(TODAY[name], asked.said)
    of_gpu = asked.measured(trial_tables.recorded(name, asked.lowered))
    trial_tables.assert_the_measured_row_is_what_it_names(MEASURED[name], of_gpu)


def test_the_page_counts_what_is_right_as_measured():
    trial_tables.assert_the_page_counts_what_is_right_as_measured(MEASURED)


def test_a_cause_that_is_the_first_one_still_is_as_right_as_it_was():
    trial_tables.assert_a_cause_that_is_the_first_one_still_is_as_right_as_it_was(ROWS, TODAY)
