"""A learner's history: kept whatever happens to its file, and never in the way of a verdict."""

import fcntl
import json
import os
import shutil
import stat

import pytest

from course import check, hint
from course.errors import CourseError
from course.exercises import learner
from course.exercises.progress import progress
from course.exercises.registry import TOPICS
from course.lessons.folders import ORIGINS
from tests.support.disk import room_for


def test_a_history_is_kept():
    check("count-bytes", 1.0)
    check("count-bytes", 268)
    check("count-bytes", 2.0)
    hint("count-bytes")
    (entry,) = learner.tried().values()
    assert (entry.tries, entry.verdict, entry.hints, bool(entry.first_right)) == (
        3,
        "wrong",
        1,
        True,
    )


def test_a_history_that_cannot_be_kept_is_said_and_costs_no_verdict(monkeypatch):
    monkeypatch.setenv("COURSE_DATA", "/proc/nowhere")
    checked = check("count-bytes", 268)
    assert checked.right
    assert "could not be kept" in str(checked)


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        "[" * 100_000,
        '{"if-becomes-mask": {"tries": "x", "verdict": 1, "hints": null, "first_right": 5}}',
        '{"if-becomes-mask": {"tries": 1.5}}',
        '{"if-becomes-mask": {"first_right": null}}',
        '{"if-becomes-mask": {"unknown": 1}}',
        '{"if-becomes-mask": []}',
    ],
)
def test_a_damaged_history_is_set_aside(damage):
    path = learner.record_file()
    path.parent.mkdir()
    path.write_text(damage)
    with pytest.raises(CourseError, match="is damaged"):
        learner.tried()
    assert check("count-bytes", 268).right
    assert path.with_suffix(".damaged.json").read_text() == damage
    assert list(learner.tried()) == ["count-bytes"]


@pytest.mark.parametrize("what", ["folder", "loop"])
def test_what_is_no_file_in_place_of_the_history_costs_no_verdict_and_is_said(what):
    path = learner.record_file()
    path.parent.mkdir()
    path.mkdir() if what == "folder" else path.symlink_to(path.name)
    checked = check("count-bytes", 268)
    assert checked.right
    assert "could not be kept" in str(checked)
    with pytest.raises(
        CourseError,
        match=r"could not be read from .*progress\.json \(.+\): move away what is there",
    ):
        learner.tried()


def test_a_full_disk_costs_no_verdict_and_leaves_the_history_as_it_was():
    check("count-bytes", 1.0)
    before = learner.record_file().read_bytes()
    with room_for(20):
        checked = check("count-bytes", 268)
    assert checked.right
    assert "Your progress was not kept: " in str(checked)
    assert "make room on the disk" in str(checked)
    assert learner.record_file().read_bytes() == before
    assert sorted(os.listdir(learner.record_file().parent)) == ["progress.json", "progress.lock"]


def test_a_history_that_another_process_holds_is_said_after_a_while(monkeypatch):
    check("count-bytes", 1.0)
    monkeypatch.setattr(learner, "LOCK_S", 0.1)
    with learner.record_file().with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        checked = check("count-bytes", 268)
    assert checked.right
    assert "another process has held" in str(checked)
    assert learner.tried()["count-bytes"].verdict == "wrong"
    assert check("count-bytes", 268).notes == []


def test_the_folder_of_the_history_is_the_learners_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        check("count-bytes", 268)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


# One history for each work folder


@pytest.fixture
def work_folders(tmp_path, monkeypatch):
    """Two work folders of one user, and a place that is none."""
    monkeypatch.delenv("COURSE_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(learner, "WORK", tmp_path / "one")
    for name in ("one", "two"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / ORIGINS).write_text("{}")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def test_two_work_folders_of_one_user_have_a_history_each(work_folders, monkeypatch):
    monkeypatch.chdir(work_folders / "two" / "deep")
    check("count-bytes", 268)
    monkeypatch.chdir(work_folders / "one")
    assert learner.tried() == {}
    check("count-bytes", 1.0)
    assert learner.tried()["count-bytes"].verdict == "wrong"
    monkeypatch.chdir(work_folders / "two")
    assert learner.tried()["count-bytes"].verdict == "right"
    assert not (work_folders / "home").exists()


def test_from_elsewhere_the_history_is_that_of_the_courses_own_work_folder(work_folders):
    check("count-bytes", 268)
    assert learner.record_file() == work_folders / "one" / ".progress.json"
    assert {row.exercise for row in progress().exercises if row.right} == {"count-bytes"}


@pytest.mark.parametrize("way", ["missing", "not writable"])
def test_without_a_work_folder_that_can_be_written_the_user_has_one_history(
    work_folders, way, monkeypatch
):
    if way == "missing":
        shutil.rmtree(work_folders / "one")
    else:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert check("count-bytes", 268).notes == []
    assert learner.record_file() == work_folders / "home" / "triton-course" / "progress.json"
    assert learner.tried()["count-bytes"].verdict == "right"


def test_a_history_that_the_user_had_goes_to_the_first_work_folder_alone(work_folders, monkeypatch):
    older = work_folders / "home" / "triton-course" / "progress.json"
    older.parent.mkdir(parents=True)
    older.write_text(
        '{"last-program": {"tries": 2, "verdict": "right", "first_right": "2026-01-01"}}'
    )
    assert learner.tried()["last-program"].tries == 2
    assert older.exists(), "to look at it takes nothing over"
    check("count-bytes", 268)
    assert sorted(learner.tried()) == ["count-bytes", "last-program"]
    monkeypatch.chdir(work_folders / "two")
    assert learner.tried() == {}
    assert not older.exists()
    assert older.with_suffix(".taken-over.json").exists()


def test_a_history_that_the_user_had_and_that_is_damaged_is_set_aside(work_folders):
    older = work_folders / "home" / "triton-course" / "progress.json"
    older.parent.mkdir(parents=True)
    older.write_text("{")
    assert check("count-bytes", 268).notes == []
    assert list(learner.tried()) == ["count-bytes"]
    assert older.with_suffix(".damaged.json").read_text() == "{"


def test_a_session_whose_folder_is_gone_keeps_its_history(work_folders):
    (work_folders / "elsewhere").rmdir()
    assert check("count-bytes", 268).notes == []
    assert learner.record_file() == work_folders / "one" / ".progress.json"


def test_a_data_folder_that_was_asked_for_comes_before_the_work_folder(work_folders, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(work_folders / "asked"))
    check("count-bytes", 268)
    assert learner.record_file() == work_folders / "asked" / "progress.json"
    assert not (work_folders / "one" / ".progress.json").exists()


def test_a_history_by_numbers_goes_on_under_the_names_that_exercises_have_now(work_folders):
    older = work_folders / "home" / "triton-course" / "progress.json"
    older.parent.mkdir(parents=True)
    older.write_text('{"01.5": {"tries": 3, "verdict": "right"}, "99.9": {"tries": 1}}')
    assert {name: each.tries for name, each in learner.tried().items()} == {
        "count-bytes": 3,
        "99.9": 1,
    }


def test_every_number_of_before_is_a_name_of_today():
    former = json.loads(learner.FORMER_NUMBERS.read_text())
    assert len(former) == 81 and set(former.values()) <= set(TOPICS)
