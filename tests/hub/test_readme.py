"""What hub/README.md says of the load run is what was recorded."""

import json
import re
import statistics

from hub import ROOT

README = (ROOT / "hub" / "README.md").read_text()
LOAD = json.loads((ROOT / "hub" / "recorded" / "load.json").read_text())
SEATS = LOAD["seats"]


def test_the_times_and_the_memory_are_those_of_the_recorded_run():
    answers = [seconds for seat in SEATS for seconds in seat["answers_s"]]
    servers = [seat["server_s"] for seat in SEATS]
    peaks = [seat["peak_bytes"] / 1e9 for seat in SEATS]
    for said in (
        f"{statistics.median(servers):.0f} s, at worst {max(servers):.0f} s",
        f"{len(answers)} answers",
        f"median {statistics.median(answers):.1f} s, worst {max(answers):.1f} s",
        f"median {statistics.median(peaks):.2f} GB, the largest {max(peaks):.2f} GB",
    ):
        assert said in README, said
    (stopped,) = re.findall(r"stopped after (\d+) s", SEATS[0]["misbehaved"])
    assert f"stopped after | {stopped} s" in README
    assert peaks.index(max(peaks)) == 1 and "30 GB" in SEATS[1]["misbehaved"]


def test_nothing_reached_another_seat_and_what_failed_is_said():
    assert len(SEATS) == LOAD["learners"] == 6 and "had six learners" in README
    assert f"the notebooks {' and '.join(LOAD['lessons'])}" in README
    assert LOAD["reached_another"] == LOAD["left_over"] == []
    assert [seat["wrong_verdicts"] for seat in SEATS] == [[]] * len(SEATS)
    assert [seat["errors"] for seat in SEATS] == [[]] * len(SEATS)
    assert "no cell failed" in README


def test_the_first_notebooks_went_through_the_smallest_seat():
    one = json.loads((ROOT / "hub" / "recorded" / "one_seat.json").read_text())
    (seat,) = one["seats"]
    assert one["lessons"] == [f"{number:02}" for number in range(7)]
    assert seat["killed"] == 0 and seat["errors"] == seat["wrong_verdicts"] == []
    assert f"{seat['peak_bytes'] / 1e9:.2f} GB at its peak" in README
    assert seat["peak_bytes"] < 3 * 2**30
