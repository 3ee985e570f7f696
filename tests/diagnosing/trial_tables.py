"""The tables of docs/diagnose-trial.md, beside what was measured and answered."""

import json
import re
from pathlib import Path

import pytest

from course.diagnosing.experiments.clocks import Clocks
from course.diagnosing.experiments.result import Experiment, Experiments

FOLDER = Path(__file__).parent
PAGE = (FOLDER.parents[1] / "docs" / "diagnose-trial.md").read_text()


def first_asking(letter):
    """Cells of the table of the first asking, by kernel: us, twin A, twin B, cause, right; in the
    third trial also the cause with experiments, and right."""
    return _rows(rf"^\| \[({letter}\d\d)\][^|]*\|(.*)\|$")


def today(letter):
    """Cells of the table of today's answers, by kernel: us, estimated, cause, gain, right."""
    return _rows(rf"^\| ({letter}\d\d) \|(.*)\|$")


def measured(letter):
    """Cells of the table of what was measured, by kernel: us, cause, without it, gain, right."""
    return _rows(rf"^\| `({letter}\d\d)` \|(.*)\|$")


def recorded(name, lowered):
    """What experiments with a kernel have found on an H200."""
    own = data("experiments.json")["launches"][name]
    file = lowered.listing[0].file
    done = tuple(
        Experiment(kind, tuple((file, line) for line in lines), us, cure)
        for kind, lines, us, cure in own["done"]
    )
    fields = {field: own[field] for field in ("us", "spread", "empty_us")}
    return Experiments(
        **fields, done=done, dropped=tuple(own["dropped"]), clocks=Clocks(**own["clocks"])
    )


def data(*parts):
    return json.loads(FOLDER.joinpath(*parts).read_text())


def assert_it_has_every_kernel_and_its_times(rows, folder):
    times = data(folder, "times.json")
    assert (
        sorted(rows) == sorted(times) == sorted(f.stem for f in (FOLDER / folder).glob("?[0-9]*"))
    )
    assert_the_times_are_those_measured(rows, times)
    right = sum(row[-1] == "yes" for row in rows.values())
    assert f"right for {right} of {len(rows)}, or {100 * right / len(rows):.0f} %" in PAGE


def assert_the_times_are_those_measured(rows, times):
    for name, (us, a, b, *_) in rows.items():
        measured = times[name]
        gains = [measured["kernel_us"] / measured[twin] for twin in ("a_us", "b_us")]
        assert us == f"{measured['kernel_us']:,.0f}"
        for cell, gain in zip((a, b), gains, strict=True):
            assert abs(float(re.findall(r"[\d.]+", cell)[-1]) - gain) < 0.01 * gain + 0.006
            assert cell.startswith("**") == (gain == max(gains))


def _rows(pattern):
    found = re.findall(pattern, PAGE, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in found}


def assert_the_row_of_today_is_what_it_names(row, said, within=0.02):
    """within: the part by which estimates may differ."""
    _, estimated, first, gain, _ = row
    assert first == (said.findings[0].what if said.findings else "none")
    if said.estimated_us is None:
        assert estimated == gain == "-"
        return
    # Of a grid that is sampled as long as time allows, the sample decides the last digit.
    assert float(estimated.replace(",", "")) == pytest.approx(
        said.estimated_us, rel=within, abs=0.5
    )
    assert gain == "-" or float(gain) == pytest.approx(
        said.findings[0].gain, rel=within + 0.01, abs=0.05
    )


def assert_the_page_counts_what_is_right_as_measured(rows):
    right = sum(row[-1] == "yes" for row in rows.values())
    assert f"**The first cause is right for {right} of {len(rows)}**" in PAGE


def gained_more_than_measured(letter, folder):
    """The kernels with a right cause of which a twin gained over a twentieth more than measured."""
    times = data(folder, "times.json")
    return [
        name
        for name, (_, _, _, gain, right) in sorted(measured(letter).items())
        if right == "yes"
        and gain != "-"
        and times[name]["kernel_us"] / min(times[name].values()) > 1.05 * float(gain)
    ]


def assert_the_measured_row_is_what_it_names(row, said):
    us, first, without, gain, _ = row
    assert us == f"{said.measured_us:,.0f}"
    finding = said.findings[0]
    assert first == finding.what + (f"; tried: {finding.cure.cure}" if finding.cure else "")
    if finding.without is None:
        assert without == "-"
        return
    assert without == f"{finding.without.us:,.0f}"
    assert float(gain) == pytest.approx(finding.gain, rel=0.02, abs=0.05)


def assert_a_cause_that_is_the_first_one_still_is_as_right_as_it_was(rows, rows_today):
    assert sorted(rows_today) == sorted(rows)
    for name, row in rows.items():
        assert rows_today[name][0] == row[0]
        if rows_today[name][2] == row[3]:
            assert rows_today[name][-1] == row[-1]
