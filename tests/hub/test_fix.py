"""The leader's fix in the middle of the day: a lesson is renewed where nobody has begun it."""

import json
import os
import sys
import time
from dataclasses import replace

import pytest

from course.lessons.folders import NOTEBOOKS
from course.lessons.learner_copies import copy_lessons
from hub import engine, fix, start
from hub.settings import Settings

LESSON = "00-your-first-kernel.ipynb"


@pytest.fixture
def room(tmp_path):
    """Two seats with yesterday's notebook 00; the second has begun it. A third has not come."""
    yesterday = tmp_path / "yesterday"
    yesterday.mkdir()
    for path in NOTEBOOKS.glob("0*.ipynb"):
        text = path.read_text()
        (yesterday / path.name).write_text(text.replace("Run a kernel", "Start a kernel"))
    settings = Settings(tmp_path / "room", seats=3, python=sys.executable, apart=False)
    start.make_folder(settings)
    for name in settings.names[:2]:
        work = settings.home(name) / "work"
        work.parent.mkdir(parents=True)
        copy_lessons(notebooks=yesterday, work=work)
    begun = settings.home("seat-02") / "work" / LESSON
    begun.write_text(begun.read_text().replace("Start a kernel", "My own notes"))
    return settings


def test_a_lab_that_saves_a_page_without_a_change_has_not_begun_it(room):
    path = room.home("seat-01") / "work" / LESSON
    saved = json.loads(path.read_text())
    saved["metadata"] |= {"widgets": {}, "language_info": {"version": "3.11.7"}}
    path.write_text(json.dumps(saved))
    assert fix.fix(room).renewed[LESSON] == ["seat-01"]


def test_a_lesson_in_which_an_answer_was_checked_is_begun_though_the_page_was_not_saved(room):
    work = room.home("seat-01") / "work"
    before = (work / LESSON).read_bytes()
    (work / ".progress.json").write_text('{"last-program": {"tries": 1, "verdict": "right"}}')
    assert "seat-01" in fix.fix(room).behind[LESSON]
    assert (work / LESSON).read_bytes() == before


def test_an_untouched_copy_is_renewed_and_a_begun_one_is_left_and_named(room):
    begun = (room.home("seat-02") / "work" / LESSON).read_bytes()
    fixed = fix.fix(room)
    assert LESSON in fixed.renewed and fixed.renewed[LESSON] == ["seat-01"]
    assert fixed.behind[LESSON] == ["seat-02"]
    assert fixed.problems == {}
    assert "Run a kernel" in (room.home("seat-01") / "work" / LESSON).read_text()
    assert (room.home("seat-02") / "work" / LESSON).read_bytes() == begun
    assert not room.home("seat-03").exists()
    text = str(fixed)
    assert f"{LESSON}: renewed in 1 seats" in text and "`course reset 00`" in text
    assert fix.fix(room).renewed == {}


def test_a_seat_whose_lessons_cannot_be_copied_is_named_and_the_others_are_fixed(room):
    work = room.home("seat-02") / "work"
    (work / LESSON).unlink()
    (work / LESSON).mkdir()
    fixed = fix.fix(room)
    assert list(fixed.problems) == ["seat-02"]
    assert fixed.renewed[LESSON] == ["seat-01"]


@pytest.mark.parametrize("name", ["work/.progress.json", f"work/{LESSON}", "kernels/x.py"])
def test_a_pipe_in_place_of_a_file_is_named_and_nobody_waits_for_it(room, monkeypatch, name):
    monkeypatch.setattr(fix, "COPY_S", 20)
    path = room.home("seat-02") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    fixed = fix.fix(room)
    assert fixed.problems == {"seat-02": f"{name} is no file: delete it"}
    assert fixed.renewed[LESSON] == ["seat-01"]


def test_a_command_that_prints_without_end_is_ended():
    begin = time.monotonic()
    assert engine.first_said(["yes"], 60) == "y\n" * (engine.MOST_SAID // 2)
    assert engine.first_said(["sleep", "60"], 0.1) == ""
    assert time.monotonic() - begin < 30


@pytest.fixture
def says(room, tmp_path):
    """Have every seat say this in place of what it did."""

    def say(script):
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        return fix.fix(replace(room, python=str(python)))

    return say


@pytest.mark.parametrize(
    "said", ["[]", "3", '{"renewed": 3}', '{"problem": ["x"]}', "{", "", r"\\377", "[" * 9000]
)
def test_a_seat_that_says_what_cannot_be_understood_is_a_problem_of_that_seat(says, said):
    fixed = says(f"printf '{said}\\n'")
    assert list(fixed.problems) == ["seat-01", "seat-02"]
    assert all("could not be copied" in problem for problem in fixed.problems.values())


def test_a_seat_that_does_not_answer_is_a_problem_of_that_seat(says, monkeypatch):
    monkeypatch.setattr(fix, "COPY_S", 0.2)
    fixed = says("exec sleep 60")
    assert list(fixed.problems) == ["seat-01", "seat-02"]
    assert "no answer" in fixed.problems["seat-01"]


def test_what_a_seat_says_cannot_steer_the_leaders_terminal(says):
    steer = "\x1b[2J\x07"
    said = json.dumps({"renewed": [steer], "problem": steer})
    text = str(says(f"cat <<'END'\n{said}\nEND"))
    assert "\x1b" not in text and "\x07" not in text
    assert r"\x1b[2J\x07" in text
    assert len(fix.printable("a" * 10**6)) < 1000


def test_the_board_learns_of_new_exercises(room):
    room.exercises_file.write_text("{}")
    fix.fix(room)
    known = json.loads(room.exercises_file.read_text())
    assert len(known) > 40 and known["first-kernel"]["mistakes"]
