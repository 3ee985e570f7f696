"""The page of recorded speeds has every record, in numbers that are the record's."""

import xml.etree.ElementTree as ET

import pytest

from course.benching.result import FOLDER, names, recorded
from docs.site import speeds


def test_every_record_stands_there_with_plot_table_and_source():
    page = speeds.page(FOLDER)
    for name in names():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert str(recorded(name).machine) in section
        assert "<svg" in section


@pytest.mark.parametrize("name", ["softmax", "matmul", "softmax_depths"])
def test_the_table_has_the_numbers_of_the_record(name):
    record = recorded(name)
    *_, last = record.series
    timing = record.of(last)[-1]
    (row,) = [
        line for line in speeds.table(record).split("\n") if line.startswith(f"| {timing.x:,} |")
    ]
    assert row.split("|")[-2].split()[0] == f"{timing.speed:.{2 if record.unit == 'TB/s' else 0}f}"


@pytest.mark.parametrize("name", names())
def test_a_plot_is_well_formed_says_what_it_shows_and_stays_inside(name):
    record = recorded(name)
    root = ET.fromstring(speeds.plot(record))
    assert all(series in root.attrib["aria-label"] for series in record.series)
    axes = speeds.Axes(record)
    for timing in record.timings:
        assert speeds.LEFT <= axes.x(timing.x) <= speeds.WIDTH - speeds.RIGHT
        assert speeds.TOP <= axes.y(timing.speed) <= speeds.HEIGHT - speeds.BOTTOM


@pytest.mark.parametrize(("most", "step"), [(4.8, 1), (700, 200), (0.3, 0.05), (60, 10)])
def test_a_grid_has_at_most_six_round_levels(most, step):
    assert speeds._step(most) == pytest.approx(step)


def test_sizes_are_said_as_people_say_them():
    assert [speeds._short(x) for x in (1000, 1024, 1 << 26)] == ["1,000", "1 Ki", "64 Mi"]


def test_the_readme_s_plot_is_the_record_s():
    drawn = speeds.standalone(recorded("swiglu"))
    assert (speeds.ROOT / "docs" / "swiglu.svg").read_text() == drawn
    ET.fromstring(drawn)
