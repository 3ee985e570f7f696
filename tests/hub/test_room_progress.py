"""What the leader's board counts, and what a seat's user can do to it by writing its file."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from course.exercises.answers import usual_mistake
from hub.room_progress import STUCK_MINUTES, STUCK_TRIES, Known, Stuck, read_history, standing

EXERCISES = {
    "last-program": Known("00.1", "First", True, ["a slip", "another"]),
    "if-becomes-mask": Known("00.2", "Second", False, []),
}


@pytest.fixture
def seat(tmp_path):
    """Write a seat's progress; its work folder is returned."""

    def write(name, content):
        work = tmp_path / name
        work.mkdir()
        text = content if isinstance(content, str) else json.dumps(content)
        (work / ".progress.json").write_text(text)
        return work

    return write


def test_the_room_is_counted_exercise_by_exercise(seat, tmp_path):
    solved = {"tries": 1, "verdict": "right", "first_right": "2026-11-22T10:00:00+00:00"}
    slipped = {"tries": 1, "verdict": "wrong", "hints": 2, "mistakes": {"a slip": 3}}
    works = {
        "seat-01": seat("one", {"last-program": solved, "if-becomes-mask": solved}),
        "seat-02": seat("two", {"last-program": slipped}),
        "seat-03": tmp_path / "has not come",
    }
    room = standing(works, EXERCISES)
    first, second = room.exercises
    assert (first.right, first.trying, first.hints) == (1, 1, 1)
    assert first.mistakes == {"a slip": 1}
    assert (second.right, second.trying) == (1, 0)
    assert room.right == {"seat-01": 1, "seat-02": 0, "seat-03": 0}  # core exercises alone
    assert (room.core, room.unreadable) == (1, [])


def test_a_seat_is_stuck_after_some_tries_without_a_right_answer(seat):
    entry = {"tries": STUCK_TRIES, "verdict": "race"}
    room = standing({"seat-01": seat("one", {"last-program": entry})}, EXERCISES)
    assert room.exercises[0].stuck == [Stuck("seat-01", STUCK_TRIES, 0, "race")]
    entry["first_right"] = "2026-11-22T10:00:00+00:00"
    room = standing({"seat-01": seat("two", {"last-program": entry})}, EXERCISES)
    assert room.exercises[0].stuck == []


def test_a_seat_is_stuck_after_some_minutes_with_one_try(seat):
    first = datetime.now(UTC) - timedelta(minutes=STUCK_MINUTES + 5)
    entry = {"tries": 1, "verdict": "wrong", "first_try": first.isoformat()}
    (stuck,) = (
        standing({"seat-01": seat("one", {"last-program": entry})}, EXERCISES).exercises[0].stuck
    )
    assert (stuck.tries, stuck.minutes) == (1, STUCK_MINUTES + 5)
    entry["first_try"] = datetime.now(UTC).isoformat()
    room = standing({"seat-01": seat("two", {"last-program": entry})}, EXERCISES)
    assert room.exercises[0].stuck == []


def test_core_exercises_of_the_plan_alone_are_counted_and_right_answers_have_their_times(seat):
    times = ["2026-11-22T10:00:00+00:00", "<b>never</b>"]
    entries = {"last-program": {"first_right": times[0]}, "later": {"first_right": times[1]}}
    known = {"last-program": EXERCISES["last-program"], "later": Known("05.1", "Later", True, [])}
    room = standing({"seat-01": seat("one", entries)}, known, ["00"])
    assert (room.core, room.right) == (1, {"seat-01": 1})
    assert room.times == times[:1]
    assert standing({}, known).core == 2


@pytest.mark.parametrize("kind", ["folder", "pipe", "deep", "huge"])
def test_whatever_lies_in_place_of_a_progress_file_is_damaged_and_the_board_goes_on(seat, kind):
    work = seat("one", "")
    path = work / ".progress.json"
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("[" * 4000 if kind == "deep" else "1" * 10**6 + "1")
    assert standing({"seat-01": work}, EXERCISES).unreadable == ["seat-01"]


def test_a_mistake_named_many_times_over_is_one_mistake(seat):
    name = " or ".join(["a slip"] * 300)
    entry = {"tries": 1, "mistakes": {name: 1, f"{name} or another": 1}}
    room = standing({"seat-01": seat("one", {"last-program": entry})}, EXERCISES)
    assert room.exercises[0].mistakes == {"a slip": 1, "another": 1}


def test_nothing_reaches_the_board_that_is_no_name_of_ours(seat):
    mistakes = {"my code": 1, "a slip or another": 1}
    entry = {"tries": STUCK_TRIES, "verdict": "<b>", "mistakes": mistakes}
    room = standing({"seat-01": seat("one", {"last-program": entry, "99.9": entry})}, EXERCISES)
    assert len(room.exercises) == 2
    assert room.exercises[0].stuck == [Stuck("seat-01", STUCK_TRIES, 0, "")]
    assert room.exercises[0].mistakes == {"a slip": 1, "another": 1}


def test_a_newer_history_is_read_as_far_as_it_is_known(seat):
    entry = {"tries": 1, "verdict": "wrong", "brought by a fix": "x"}
    room = standing({"seat-01": seat("one", {"last-program": entry})}, EXERCISES)
    assert room.unreadable == [] and room.exercises[0].trying == 1


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"last-program": {"tries": "x"}}', " " * 10**6 + "{}"]
)
def test_a_file_that_is_no_progress_is_named_and_costs_nobody_else(seat, content):
    room = standing({"seat-01": seat("one", content), "seat-02": seat("two", {})}, EXERCISES)
    assert room.unreadable == ["seat-01"]
    assert set(room.right) == {"seat-01", "seat-02"}


def test_links_and_pipes_are_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    assert read_history(tmp_path / "link") is None
    assert read_history(tmp_path / "pipe") is None
    assert read_history(tmp_path / "elsewhere") == {}


@pytest.mark.parametrize("linked", ["home", "home/work"])
def test_no_link_is_followed_in_place_of_a_folder(tmp_path, linked):
    other = tmp_path / "other" / "work"
    other.mkdir(parents=True)
    (other / ".progress.json").write_text('{"last-program": {"tries": 1}}')
    assert read_history(other / ".progress.json") != {}
    place = tmp_path / linked
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(other if place.name == "work" else other.parent)
    assert read_history(tmp_path / "home" / "work" / ".progress.json") is None


def test_reading_leaves_nothing_open(tmp_path):
    (tmp_path / "work").symlink_to(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for path in ("work/x", "missing/x", "x", "missing/missing/x"):
        read_history(tmp_path / path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_usual_mistake_is_known_by_the_kind_that_the_check_found():
    assert usual_mistake("first-kernel", "wrong in case 1") == "the store forgotten"
    assert usual_mistake("first-kernel", "wrong in case 2") == ""
    assert usual_mistake("first-kernel", "") == ""  # as a right answer's is


def test_usual_mistakes_that_a_check_cannot_tell_apart_are_all_named():
    named = usual_mistake("consumer-of-a-ring", "arrivals")
    assert named == "no arrival or two arrivals or always the first buffer's barrier"
