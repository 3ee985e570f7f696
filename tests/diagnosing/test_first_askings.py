"""The third and the fourth trial of docs/diagnose-trial.md: their kernels are right, and the tables
record what `diagnose` answered when it was first asked, without a GPU and with experiments."""

import importlib

import pytest
import torch

from course import diagnose

from . import trial_tables

WORDS = " ".join(trial_tables.PAGE.split())
TRIALS = {"trial3": "n", "trial4": "p"}
LEFT_OUT = {"n10", "p06", "p12"}
ASKED = [
    (trial, *way) for trial in TRIALS for way in (("without a GPU", 3), ("with experiments", 5))
]


def names(trial):
    return sorted(file.stem for file in (trial_tables.FOLDER / trial).glob("[np][0-9]*.py"))


def answers(trial):
    return trial_tables.data(trial, "first_answers.json")


@pytest.mark.parametrize("trial", TRIALS)
def test_the_table_has_the_first_twenty_kernels_with_a_faster_twin(trial):
    rows, times = trial_tables.first_asking(TRIALS[trial]), trial_tables.data(trial, "times.json")
    assert sorted(rows) == sorted(times)
    assert sorted(rows) == [name for name in names(trial) if name not in LEFT_OUT][:20]
    for each in times.values():
        assert each["kernel_us"] >= 1.2 * min(each["a_us"], each["b_us"])
    trial_tables.assert_the_times_are_those_measured(rows, times)


@pytest.mark.parametrize(("trial", "way", "place"), ASKED)
def test_the_table_says_what_was_answered_first(trial, way, place):
    rows, times = trial_tables.first_asking(TRIALS[trial]), trial_tables.data(trial, "times.json")
    given, right = answers(trial)[way], 0
    for name, row in rows.items():
        causes = given[name]["causes"]
        faster = "A" if times[name]["a_us"] < times[name]["b_us"] else "B"
        assert given[name]["right"] == (given[name]["points at"] == faster)
        assert causes or not given[name]["right"]
        right += given[name]["right"]
        said = causes[0]["what"] if causes else "none"
        assert said == (row[3] if row[place] == "the same" else row[place])
        assert row[place + 1] == ("yes" if given[name]["right"] else "no")
    assert f"it was right for {right} of {len(given)}, or {100 * right / len(given):.0f} %" in WORDS


@pytest.mark.parametrize("trial", TRIALS)
def test_the_experiments_of_each_kernel_are_kept(trial):
    took = {
        name: answer["experiments"]["seconds"]
        for name, answer in answers(trial)["with experiments"].items()
        if answer["experiments"]["done"]
    }
    assert [*took] == [*answers(trial)["with experiments"]]
    assert [name for name, seconds in took.items() if seconds >= 30] == ["p03"] * (
        trial == "trial4"
    )


@pytest.mark.parametrize("trial", TRIALS)
def test_every_kernel_that_was_missed_is_spoken_of(trial):
    of_gpu = answers(trial)["with experiments"]
    missed = [name for name, answer in of_gpu.items() if not answer["right"]]
    assert all(f"- **{name}** " in trial_tables.PAGE for name in missed)


@pytest.mark.parametrize(
    ("trial", "name", "cause", "estimated_us"),
    [
        ("trial3", "n01", "divide integers of 64 bits", 307),
        ("trial4", "p20", "divide integers of 64 bits", 341),
        ("trial4", "p16", "a loop waits for its 3 loads", 389),
    ],
)
def test_what_was_added_since_names_what_the_page_says(trial, name, cause, estimated_us):
    kernels = importlib.import_module(f"tests.diagnosing.{trial}.{name}")
    arguments, options, grid = kernels.arguments("cpu", True)
    said = diagnose(kernels.kernel, grid, *arguments, target="H200", **options)
    assert cause in said.findings[0].what
    assert said.estimated_us == pytest.approx(estimated_us, rel=0.02)
    named = WORDS.rpartition("are named rightly without a GPU now")[0].rpartition("So ")[2]
    assert name in named or answers(trial)["without a GPU"][name]["right"]
    if name != "p16":
        assert f"{estimated_us}" in WORDS.rpartition("A division of 64-bit integers")[2]


@pytest.mark.parametrize(
    ("trial", "name"), [(each, name) for each in TRIALS for name in names(each)]
)
def test_the_kernel_and_its_mended_twins_agree_with_the_reference(trial, name):
    kernels = importlib.import_module(f"tests.diagnosing.{trial}.{name}")
    device = torch.device("cpu")
    want = kernels.reference(kernels.arguments(device, False)[0])
    assert any(tensor.abs().max() > 0 for tensor in want)
    for launch in (kernels, kernels.mend_a, kernels.mend_b):
        arguments, options, grid = launch.arguments(device, False)
        launch.kernel[grid](*arguments, **options)
        results = [arguments[place] for place in launch.outputs]
        for result, expected in zip(results, want, strict=True):
            torch.testing.assert_close(result, expected, **kernels.TOL, check_dtype=False)
