"""The rehearsal is green here, and red with a sentence for each fault that is planted."""

import ast
import builtins
import os
import subprocess
import symtable

import pytest

from course.errors import CourseError
from course.lessons.statements import statements
from hub import rehearse
from hub.answers import IMPORTS, Answers, all_answers, lesson_answers
from hub.session import Session


def outcomes(*acts, seats=1, answers=()):
    """Whether these acts were all green, and what each said."""
    told = []
    green = rehearse.rehearse(seats, told.append, acts, list(answers))
    assert green == all(outcome.green for outcome in told)
    return told


def question(right, wrong):
    return Answers("which-stage", "10", "", right, wrong, "a wrong letter", "wrong", is_code=False)


@pytest.fixture(scope="module")
def letter():
    """The right answer to a question on stages, and a wrong one: judged in no time."""
    answers = all_answers()["which-stage"]
    return question(answers.right, answers.wrong)


def test_every_lesson_has_a_right_and_a_wrong_answer_to_rehearse():
    answers = lesson_answers()
    with_exercises = {each.number[:2] for each in statements().values()}
    assert [each.lesson for each in answers] == sorted(with_exercises)
    assert all(each.is_code for each in answers[:4])
    assert all(each.wrong_verdict != "right" for each in answers)


def test_a_lesson_whose_answers_are_told_apart_is_green_and_gives_times(letter):
    lesson, times = outcomes(rehearse.lessons, rehearse.times, answers=[letter])
    assert lesson.green and "right and wrong told apart" in lesson.says
    assert times.green and "2 answers" in times.says


def test_a_lesson_whose_right_answer_is_not_accepted_is_red(letter):
    (lesson,) = outcomes(rehearse.lessons, answers=[question(letter.wrong, letter.wrong)])
    assert not lesson.green
    assert "which-stage: the right answer gave 'wrong' and not 'right'" in lesson.says


def test_a_wrong_answer_that_passes_is_red(letter):
    (lesson,) = outcomes(rehearse.lessons, answers=[question(letter.right, letter.right)])
    assert "a wrong answer (a wrong letter) gave 'right' and not 'wrong'" in lesson.says
    assert not lesson.green


def test_a_session_knows_every_name_that_a_right_answer_uses():
    missing = {}
    for name, answers in all_answers().items():
        if unknown := names_without_a_meaning(IMPORTS + answers.before, answers.right):
            missing[name] = unknown
    assert missing == {}


def names_without_a_meaning(before, answer):
    """The names that an answer reads, in a function or outside, and that nothing defines."""
    read = {each.id for each in ast.walk(ast.parse(answer)) if isinstance(each, ast.Name)}
    code = f"{before}\n{answer}"
    tables, defined = [symtable.symtable(code, "cell", "exec")], set(dir(builtins))
    while tables:
        table = tables.pop()
        tables += table.get_children()
        defined |= {each.get_name() for each in table.get_symbols() if defines(each)}
    return sorted(read - defined)


def defines(symbol):
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_parameter()


def test_the_plans_lessons_alone_are_rehearsed_and_their_minutes_are_said():
    assert [each.lesson for each in lesson_answers(["01", "09"])] == ["01", "09"]
    everything = lesson_answers()
    assert rehearse.minutes(everything) > rehearse.minutes(everything[:2]) >= 3


def test_what_does_not_fit_into_memory_is_red_and_says_how_many_seats_do():
    (memory,) = outcomes(rehearse.memory, seats=10**5)
    assert not memory.green and "take a host with more memory, or" in memory.helps


def test_a_start_that_would_be_refused_is_red_with_its_sentence(monkeypatch):
    def refuse(*_):
        raise CourseError("There is no image")

    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(rehearse.start, "prepare", refuse)
    monkeypatch.setattr(rehearse.start, "make_folder", lambda settings: None)
    (seat,) = outcomes(rehearse.seat)
    assert not seat.green and "There is no image" in seat.says


@pytest.mark.container
def test_a_seat_as_start_makes_it_answers_a_check():
    (seat,) = outcomes(rehearse.seat)
    assert seat.green, seat.says


def test_too_little_disk_for_the_seats_is_red_and_says_where_to_make_room():
    (disk,) = outcomes(rehearse.disk, seats=10**7)
    assert not disk.green and disk.helps.startswith("make room in /")
    assert outcomes(rehearse.disk)[0].green


def test_sessions_take_turns_and_one_that_is_killed_lets_the_next_one_on():
    assert outcomes(rehearse.gpu_queue)[0].green


def test_sessions_that_do_not_take_turns_are_red(monkeypatch):
    monkeypatch.setattr(rehearse, "MEASURES", "print('measures', flush=True)")
    (queue,) = outcomes(rehearse.gpu_queue)
    assert not queue.green and "chmod 1777" in queue.helps


def test_a_session_that_never_begins_to_measure_is_red(monkeypatch):
    monkeypatch.setattr(rehearse, "MEASURES", "import time; time.sleep(600)")
    monkeypatch.setattr(rehearse, "PATIENT_S", 0.5)
    assert not outcomes(rehearse.gpu_queue)[0].green


def test_a_queue_that_cannot_be_used_is_red(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_GPU_QUEUE", str(tmp_path / "file"))
    (queue,) = outcomes(rehearse.gpu_queue)
    assert not queue.green


def test_a_check_that_needs_the_network_is_red(monkeypatch):
    if subprocess.run([*rehearse.OFFLINE, "true"], capture_output=True).returncode:
        pytest.skip("needs a namespace: this user may not cut a process off from the network")
    monkeypatch.setattr(rehearse, "IMPORTS", "")
    asks = "import socket, types\ndef check():\n    socket.create_connection(('127.0.0.1', 9))\n"
    (offline,) = outcomes(rehearse.offline, answers=[question(asks + "check()", "")])
    assert not offline.green and "Network is unreachable" in offline.says


@pytest.mark.parametrize(
    "error, words",
    [
        (RuntimeError("no kernel"), "no kernel"),
        (subprocess.TimeoutExpired("check", 300), "timed out after 300 seconds"),
    ],
)
def test_an_act_that_cannot_be_done_is_red_and_the_rest_goes_on(error, words):
    def broken(stage):
        raise error
        yield

    told = outcomes(broken, rehearse.disk)
    assert [outcome.green for outcome in told] == [False, True]
    assert words in told[0].says


class Chatters:
    """In place of a session's client and manager: a cell that prints without end."""

    def execute(self, cell):
        return "this cell"

    def get_iopub_msg(self, timeout):
        content = {"text": "on and on "}
        return {"parent_header": {"msg_id": "this cell"}, "msg_type": "stream", "content": content}

    def is_alive(self):
        return True


def test_a_cell_that_prints_without_end_is_given_up_at_its_limit():
    running = Session.__new__(Session)
    running.client = running.manager = Chatters()
    ran = running.run("while True: print('on and on')", limit_s=0.2)
    assert not ran.ended and "on and on" in ran.text
