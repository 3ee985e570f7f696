"""A report holds times, tries and verdicts, and nothing that says who somebody is or what they
wrote."""

import getpass
import json
from datetime import UTC, datetime

import pytest

from course import check, hint
from course.exercises import learner, report


@pytest.fixture
def clock(monkeypatch):
    """The hour at which a learner checks; a test moves it on."""

    class Clock(datetime):
        hour_min = (9, 0)

        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 5, 4, *cls.hour_min, tzinfo=UTC)

    monkeypatch.setattr(learner, "datetime", Clock)
    return Clock


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_times_count_from_the_first_try_of_any_exercise(clock):
    check("least-time", 1.0)
    clock.hour_min = (9, 12)
    check("count-bytes", 2.0)
    clock.hour_min = (9, 30)
    check("count-bytes", 268)
    check("count-bytes", 3.0)
    hint("last-program")
    rows = {row.exercise: row for row in report.report().exercises}
    assert set(rows) == {"last-program", "count-bytes", "least-time"}
    tried = rows["count-bytes"]
    assert (tried.first_try_min, tried.right_min, tried.tries) == (12.0, 30.0, 3)
    assert (rows["least-time"].first_try_min, rows["least-time"].right_min) == (0.0, None)
    assert (
        rows["last-program"].tries,
        rows["last-program"].hints,
        rows["last-program"].first_try_min,
    ) == (0, 1, None)


def test_what_is_written_is_what_is_shown_and_no_name_answer_or_time_of_day(tmp_path, monkeypatch):
    monkeypatch.setattr(learner, "work_folder", lambda: None)
    check("count-bytes", 7654.25)
    check("if-becomes-mask", "a text that somebody wrote")
    mine = report.report("seat 7")
    file = report.write(mine)
    assert file == tmp_path / "report.json"
    text = file.read_text()
    assert set(json.loads(text)) == {"seat", "mode", "exercises"}
    assert json.loads(text)["seat"] == "seat 7"
    assert "count-bytes" in str(mine) and "wrong" in str(mine)
    today = datetime.now(UTC).date().isoformat()
    for private in ("7654", "somebody", today, str(tmp_path), f'"{getpass.getuser()}"'):
        assert private not in text


def test_a_history_from_before_first_tries_were_kept_has_a_report(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    older = {"tries": 2, "verdict": "right", "first_right": "2026-01-01T10:00:00+00:00"}
    (tmp_path / "data" / "progress.json").write_text(json.dumps({"last-program": older}))
    (row,) = report.report().exercises
    assert (row.first_try_min, row.right_min, row.tries) == (None, 0.0, 2)
    check("last-program", "a")
    (row,) = report.report().exercises
    assert row.first_try_min is None


def test_nothing_done_is_an_empty_report():
    assert report.report().exercises == []
