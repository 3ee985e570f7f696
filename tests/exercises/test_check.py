"""check: what a learner gets for answers of every form, from a script, a notebook and the command line."""

import contextlib
import fcntl
import getpass
import json
import math
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import nbformat
import psutil
import pytest
import torch
import triton
import triton.language as tl
from typer.testing import CliRunner

from course import MODE, check, hint
from course.cli import app
from course.errors import CourseError
from course.exercises import grade_notebook as grading
from course.exercises import learner
from course.exercises.kinds import Choice, Number, Text
from course.exercises.registry import find
from course.exercises.result import MIME
from course.isolate.ended import Ended
from course.isolate.pool import stop_workers
from tests.support.disk import room_for
from tests.support.processes import computed_s, python_path


@pytest.fixture(autouse=True)
def a_new_learner(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "data"))


cpu_mode = pytest.mark.skipif(MODE.gpu, reason="on a GPU more can be told")


@triton.jit
def right_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def far_kernel(x_ptr, out_ptr, n):
    tl.store(out_ptr, tl.load(x_ptr + 1_000_000_000_000))


@triton.jit
def other_kernel(x_ptr, n):
    pass


def hanging(x, a, b):
    while True:
        pass


def greedy(x, a, b):
    return torch.ones(30 * 2**30 // 4) + x.sum()


def crashing(x, a, b):
    import ctypes

    ctypes.string_at(0)


def leaving(x, a, b):
    sys.exit(3)


def leaving_well(x, a, b):
    sys.exit()


def waiting(x, a, b):
    open(f"{os.environ['COURSE_DATA']}/pid-{os.getpid()}", "w").close()
    while True:
        pass


def held_up(x, a, b):
    if "HELD_UP" not in os.environ:
        os.environ["HELD_UP"] = "once"
        time.sleep(4)
    out = torch.empty_like(x)
    line_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), out, a, b, x.numel())
    return out


def growing(x, a, b):
    taken = [bytearray(b"x") * 2**26 for _ in range(12)]
    return x + len(taken)


def killing(x, a, b):
    os.kill(os.getppid(), 9)


def forking(x, a, b):
    if "FORKED" not in os.environ:
        os.environ["FORKED"] = "once"
        os.fork()
    return x


def forging(x, a, b):
    for fd in range(3, 100):
        with contextlib.suppress(OSError):
            os.write(fd, b'{"how": "finished", "code": 0, "value": [["right", ""], ""]}\n')
    return x


def patching(x, a, b):
    msgspec.msgpack.encode = lambda *_: b"\x90"  # an empty list
    return x


def shouting(x, a, b):
    raise ValueError("\x1b[2J" + "y" * 10**5)


async def another_form(x, a, b):
    pass


def looking(x, a, b):
    out = torch.zeros_like(x)
    line_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), out, a, b, x.numel())
    if out[0].item() == 0:
        raise ValueError("nothing there")
    return out


@triton.jit
def line_kernel(x_ptr, out_ptr, a, b, n):
    offsets = tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)
    mask = offsets < n
    tl.store(out_ptr + offsets, a * tl.load(x_ptr + offsets, mask=mask) + b, mask=mask)


def noisy(x, a, b):
    print("I was here")
    return x


def racing(x, a, b):
    out = torch.empty_like(x)
    racing_kernel[(2,)](out)
    return out


@triton.jit
def racing_kernel(out_ptr):
    tl.store(out_ptr + tl.arange(0, 1024), tl.program_id(axis=0).to(tl.float32))


def test_a_right_answer_says_what_was_tried():
    where = "on this GPU" if MODE.gpu else "and it compiles for sm_90"
    assert str(check("00.2", right_kernel)) == f"00.2: right, in 8 cases, {where}."


def test_a_warm_check_takes_a_fraction_of_the_first():
    stop_workers()
    start = computed_s()
    check("00.2", right_kernel)
    cold = computed_s()
    check("00.2", right_kernel)
    assert computed_s() - cold < (cold - start) / 8  # 0.3 s of 7 s


@pytest.mark.parametrize(
    ("exercise", "answer", "says"),
    [
        ("00.2", right_kernel.fn, "It must be a kernel, a function under @triton.jit; this is a plain function."),
        ("00.2", torch.zeros(3), "It must be a kernel, a function under @triton.jit; this is a Tensor"),
        ("00.2", other_kernel, "other_kernel takes (x_ptr, n), and the exercise gives it (x_ptr, out_ptr, n)."),
        ("01.2", right_kernel, "It must be a launcher, a plain function that launches a kernel and returns a tensor; this is"),
        ("01.2", lambda x, a, b: x, "<lambda> is a lambda"),
        ("01.5", torch.zeros(1), "It must be a number, in MB; this is a Tensor."),
        ("01.5", "268", "It must be a number, in MB; this is a str."),
        ("01.5", True, "It must be a number, in MB; this is a bool."),
        ("00.1", 2, "It must be one of 'a', 'b', 'c', 'd'."),
        ("01.2", another_form, "is no plain `def`"),
        ("01.8", 64, "It must be a text, in quotes; this is a int."),
    ],
)  # fmt: skip
def test_what_is_no_answer_gets_a_sentence_and_is_no_try(exercise, answer, says):
    checked = check(exercise, answer)
    assert checked.verdict == "no answer"
    assert says in str(checked)
    assert learner.tried() == {}


@pytest.mark.parametrize("answer", [None, ...])
def test_nothing_is_to_do(answer):
    assert str(check("01.5", answer)) == "01.5: to do."


@pytest.mark.parametrize(
    ("exercise", "answer", "verdict", "says"),
    [
        ("00.2", far_kernel, "reads outside", "none of the kernel's arguments"),
        ("01.2", crashing, "crashed", "It was killed by SIGSEGV. Your session is untouched."),
        ("01.2", leaving, "crashed", "It ended early: it left with exit code 3"),
        ("01.2", leaving_well, "crashed", "It ended early: it left with exit code 0"),
        ("01.2", killing, "crashed", "It ended early: "),
        ("01.2", forging, "wrong", "expected"),
        ("01.2", patching, "crashed", "What came back from its process is no verdict"),
        ("01.2", shouting, "wrong", "y" * 200 + " …"),
        ("01.2", forking, "wrong", "expected"),
        ("01.2", noisy, "wrong", "It printed: I was here"),
        ("01.2", racing, "race", "wrote different values to [0] of its output"),
    ],
)
def test_what_breaks_there_does_not_break_here(exercise, answer, verdict, says):
    checked = check(exercise, answer)
    assert checked.verdict == verdict, checked
    assert says in str(checked)


@pytest.fixture
def quick(monkeypatch):
    """Exercises whose answers may compute for a second."""
    monkeypatch.setattr(
        "course.exercises.api.find", lambda number: replace(find(number), timeout_s=1)
    )


def test_an_endless_answer_is_stopped_and_is_no_try_and_leaves_no_process(quick):
    check("00.2", right_kernel)  # the workers are there
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    said = "look for a loop without end or for very many programs, or check it again if this machine is busy."
    assert (
        str(check("01.2", hanging))
        == f"01.2: stopped.\n    It was stopped after 1 s of computing: {said}"
    )
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    assert "01.2" not in learner.tried()


def test_an_answer_may_compute_for_ten_seconds():
    assert find("01.2").timeout_s == 10


def test_a_right_answer_is_right_however_long_it_takes_by_the_clock(monkeypatch):
    """As on a machine that does something else meanwhile."""
    monkeypatch.setattr(
        "course.exercises.api.find", lambda number: replace(find(number), timeout_s=3)
    )
    assert check("01.2", held_up).right


def test_of_an_answer_that_is_stopped_by_the_clock_nothing_is_said(monkeypatch):
    starved = Ended(
        "out of time",
        -9,
        "",
        "",
        60,
        stopped="after 60 s, in which it computed for 0.8 s",
        starved=True,
    )
    monkeypatch.setattr("course.exercises.check_code._in_child", lambda *_: starved)
    checked = check("01.2", noisy)
    assert checked.verdict == "stopped"
    assert (
        "after 60 s, in which it computed for 0.8 s, so nothing is known of your answer: check it again"
        in str(checked)
    )
    assert learner.tried() == {}


def test_thirty_gigabytes_are_refused_or_stopped():
    checked = check("01.2", greedy)
    assert checked.verdict == "stopped"
    assert "look for a tensor that is larger than it must be" in str(checked)
    assert learner.tried() == {}


def test_an_answer_has_its_memory_once_and_not_in_each_child(monkeypatch):
    monkeypatch.setattr("course.exercises.check_code.child_memory_bytes", lambda: 2**30)
    assert "It was stopped at 0.5 GiB of memory" in str(check("01.2", growing))  # it takes 0.75


def test_an_interrupted_check_waits_for_neither_child(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "course.exercises.api.find", lambda number: replace(find(number), timeout_s=20)
    )
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # in the background it may be ignored
    data = tmp_path / "data"
    data.mkdir()

    def interrupt():
        while len(list(data.glob("pid-*"))) < 2:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        check("00.2", right_kernel)  # the workers are there
        start = computed_s()
        with pytest.raises(KeyboardInterrupt):
            check("01.2", waiting)
        assert computed_s() - start < 10  # the other child would have computed for longer
    finally:
        signal.signal(signal.SIGINT, before)
    pids = [int(path.name.removeprefix("pid-")) for path in data.glob("pid-*")]
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_history_is_kept():
    check("01.5", 1.0)
    check("01.5", 268)
    check("01.5", 2.0)
    hint("01.5")
    (entry,) = learner.tried().values()
    assert (entry.tries, entry.verdict, entry.hints, bool(entry.first_right)) == (
        3,
        "wrong",
        1,
        True,
    )


def test_a_history_that_cannot_be_kept_is_said_and_costs_no_verdict(monkeypatch):
    monkeypatch.setenv("COURSE_DATA", "/proc/nowhere")
    checked = check("01.5", 268)
    assert checked.right
    assert "could not be kept" in str(checked)


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        "[" * 100_000,
        '{"00.2": {"tries": "x", "verdict": 1, "hints": null, "first_right": 5}}',
        '{"00.2": {"tries": 1.5}}',
        '{"00.2": {"first_right": null}}',
        '{"00.2": {"unknown": 1}}',
        '{"00.2": []}',
    ],
)
def test_a_damaged_history_is_set_aside(damage):
    path = learner.record_file()
    path.parent.mkdir()
    path.write_text(damage)
    with pytest.raises(CourseError, match="is damaged"):
        learner.tried()
    assert check("01.5", 268).right
    assert path.with_suffix(".damaged.json").read_text() == damage
    assert list(learner.tried()) == ["01.5"]


@pytest.mark.parametrize("what", ["folder", "loop"])
def test_what_is_no_file_in_place_of_the_history_costs_no_verdict_and_is_said(what):
    path = learner.record_file()
    path.parent.mkdir()
    path.mkdir() if what == "folder" else path.symlink_to(path.name)
    checked = check("01.5", 268)
    assert checked.right
    assert "could not be kept" in str(checked)
    with pytest.raises(
        CourseError,
        match=r"could not be read from .*progress\.json \(.+\): move away what is there",
    ):
        learner.tried()


def test_a_full_disk_costs_no_verdict_and_leaves_the_history_as_it_was():
    check("01.5", 1.0)
    before = learner.record_file().read_bytes()
    with room_for(20):
        checked = check("01.5", 268)
    assert checked.right
    assert "Your progress was not kept: " in str(checked)
    assert "make room on the disk" in str(checked)
    assert learner.record_file().read_bytes() == before
    assert sorted(os.listdir(learner.record_file().parent)) == ["progress.json", "progress.lock"]


def test_a_history_that_another_process_holds_is_said_after_a_while(monkeypatch):
    check("01.5", 1.0)
    monkeypatch.setattr(learner, "LOCK_S", 0.1)
    with learner.record_file().with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        checked = check("01.5", 268)
    assert checked.right
    assert "another process has held" in str(checked)
    assert learner.tried()["01.5"].verdict == "wrong"
    assert check("01.5", 268).notes == []


def test_the_folder_of_the_history_is_the_learners_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        check("01.5", 268)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_hints_come_one_after_the_other_and_then_all(capsys, monkeypatch):
    monkeypatch.setattr("course.exercises.api._shown_hints", {})
    for _ in range(3):
        hint("01.6")
    first, second, *again = capsys.readouterr().out.splitlines()
    assert first.startswith("01.6, hint 1 of 2: Three vectors")
    assert again == [first, second]


def test_a_hint_to_nothing_is_refused():
    with pytest.raises(CourseError, match=r"There is no exercise '77\.7'"):
        hint("77.7")


@pytest.mark.parametrize("answer", [10**400, -(10**400), 5e-324, math.inf, 0])
def test_a_number_of_any_size_is_just_wrong(answer):
    assert check("01.5", answer).verdict == "wrong"


@pytest.mark.parametrize("written", ["1.5", " 01.5 ", 1.5])
def test_an_exercise_may_be_written_without_its_zero(written):
    assert check(written, 268).exercise == "01.5"


@cpu_mode
def test_an_answer_that_looks_at_its_output_is_not_said_to_compile():
    checked = check("01.2", looking)
    assert checked.verdict == "right"
    assert "whether it compiles could not be told (ValueError: nothing there)" in str(checked)


def test_numbers_are_judged_with_their_unit():
    number = Number("1", right=50.0, unit="us", because="so", slips=((25.0, "half"),))
    assert number.judge(50.9) == ("right", "so")
    assert number.judge(51.1) == ("wrong", "It is too large. The unit is us.")
    assert number.judge(25) == ("wrong", "half")
    assert number.judge(0.05)[1].startswith("The digits are right")
    assert number.judge(math.nan)[0] == "wrong"


def test_texts_and_choices_do_not_mind_spaces_and_capitals():
    text = Text("1", accepts=("%p4",), because="so", slips={"zero": "no"})
    assert text.judge(" '%P4' ") == ("right", "so")
    assert text.judge("Zero") == ("wrong", "no")
    assert Choice("1", right="a", why={"a": "yes", "b": "no"}).judge("(A)") == ("right", "yes")


SCRIPT = """
from course import check
import triton, triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    {line}
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

print(check("00.2", kernel))
"""


def test_a_line_that_does_not_compile_is_shown_with_its_number(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT.format(line="mask = {offsets} < n"))
    environ = {**os.environ, "PYTHONPATH": python_path(), "COURSE_DATA": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "mine.py"], capture_output=True, text=True, env=environ, cwd=tmp_path
    )
    assert "00.2: does not compile.\n    Line 8 of mine.py:  mask = {offsets} < n\n" in ended.stdout


@cpu_mode
def test_a_script_without_a_main_guard_may_check(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT.format(line="mask = offsets < n and offsets > -1"))
    environ = {**os.environ, "PYTHONPATH": python_path(), "COURSE_DATA": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "mine.py"], capture_output=True, text=True, env=environ, cwd=tmp_path
    )
    assert ended.stdout.startswith(
        "00.2: wrong.\n    It raised ValueError: A block of 8 lanes is neither true nor false"
    )
    assert ended.stderr == ""


@pytest.fixture
def lesson(tmp_path):
    """A notebook that checks a right answer, an unsolved one and a wrong one; a cell fails in between."""
    kernel = (
        SCRIPT.format(line="mask = offsets < n")
        .replace("print(check(", "check(")
        .replace("kernel))", "kernel)")
    )
    cells = [kernel, "1 / 0", 'check("01.5", None)', 'check("01.6", 1)']
    path = tmp_path / "mine.ipynb"
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), path
    )
    return path


def test_the_command_checks_a_notebook_and_changes_neither_it_nor_the_progress(lesson):
    before = lesson.read_bytes()
    result = CliRunner().invoke(app, ["check", str(lesson)])
    assert result.exit_code == 1
    assert "00.2: right, in 8 cases" in result.stdout
    assert "01.5: to do." in result.stdout
    assert "01.6: wrong." in result.stdout
    assert lesson.read_bytes() == before
    assert learner.tried() == {}


def test_the_command_gives_json(lesson):
    result = CliRunner().invoke(app, ["check", "--json", str(lesson)])
    verdicts = verdicts_of(json.loads(result.stdout)[str(lesson)])
    assert verdicts[:3] == [("00.2", "right"), ("01.5", "to do"), ("01.6", "wrong")]
    assert {("00.1", "missing"), ("01.1", "missing")} < set(verdicts[3:])
    assert all(verdict == "missing" for _, verdict in verdicts[3:])


def verdicts_of(rows):
    return [(row["exercise"], row["verdict"]) for row in rows]


def notebook(path, *cells):
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), path
    )
    return str(path)


def shows(**content):
    """A cell that shows what a check shows, and takes no second for it."""
    return f"from IPython.display import display\ndisplay({{{MIME!r}: {content}}}, raw=True)"


RIGHT = [shows(exercise=name, verdict="right", text=f"{name}: right.") for name in ("00.1", "00.2")]


def test_one_bad_notebook_loses_nobodys_results(tmp_path):
    names = ("a", "no notebook", "exits", "shows something else", "z")
    paths = {name: str(tmp_path / f"00-{name}.ipynb") for name in names}
    for name in ("a", "z"):
        notebook(paths[name], *RIGHT)
    (tmp_path / "00-no notebook.ipynb").write_text("{")
    notebook(paths["exits"], RIGHT[0], "import os; os._exit(1)", RIGHT[1])
    notebook(paths["shows something else"], RIGHT[0], shows(other="keys"), RIGHT[1])
    result = CliRunner().invoke(app, ["check", "--json", "77", *paths.values()])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert list(found) == ["77", *paths.values()]
    both = [("00.1", "right"), ("00.2", "right")]
    error = ("", "error")
    assert verdicts_of(found["77"]) == [error]
    assert verdicts_of(found[paths["a"]]) == verdicts_of(found[paths["z"]]) == both
    assert verdicts_of(found[paths["no notebook"]]) == [error]
    assert verdicts_of(found[paths["exits"]]) == [("00.1", "right"), ("00.2", "missing"), error]
    assert verdicts_of(found[paths["shows something else"]]) == [*both, error]
    for name, says in (
        ("no notebook", "is no notebook"),
        ("exits", "ended the session"),
        ("shows something else", "take out the"),
    ):
        assert says in found[paths[name]][-1]["text"]


def test_a_notebook_that_does_not_end_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "CELL_TIMEOUT_S", 2)
    rows = grading.check_notebook(
        Path(notebook(tmp_path / "00-endless.ipynb", "while True:\n    pass"))
    )
    assert verdicts_of(rows) == [("00.1", "missing"), ("00.2", "missing"), ("", "error")]
    assert "did not end within 2 s" in rows[-1]["text"]


def test_a_session_that_cannot_start_is_one_error(tmp_path):
    path = notebook(tmp_path / "00-mine.ipynb", *RIGHT)
    with room_for(0):
        rows = grading.check_notebook(Path(path))
    assert verdicts_of(rows) == [("00.1", "missing"), ("00.2", "missing"), ("", "error")]
    assert rows[-1]["text"].startswith(f"The session for {path} could not be run (")


@pytest.mark.parametrize(
    ("name", "cells", "code"),
    [("00-mine", RIGHT, 0), ("mine", RIGHT[1:], 1), ("00-mine", [], 1), ("mine", ["1"], 1)],
)
def test_the_command_ends_well_only_where_every_core_exercise_is_right(tmp_path, name, cells, code):
    assert (
        CliRunner().invoke(app, ["check", notebook(tmp_path / f"{name}.ipynb", *cells)]).exit_code
        == code
    )


def test_what_an_earlier_run_left_in_a_cell_that_does_not_run_is_no_result(tmp_path):
    path = Path(notebook(tmp_path / "00-mine.ipynb", RIGHT[0], RIGHT[1]))
    content = nbformat.read(path, as_version=4)
    content.cells[1].metadata["tags"] = ["skip-execution"]
    shown = {MIME: {"exercise": "00.2", "verdict": "right", "text": "00.2: right."}}
    content.cells[1].outputs = [nbformat.v4.new_output("display_data", data=shown)]
    nbformat.write(content, path)
    assert verdicts_of(grading.check_notebook(path)) == [("00.1", "right"), ("00.2", "missing")]


def test_what_would_steer_a_terminal_is_written_out(tmp_path):
    path = notebook(
        tmp_path / "mine.ipynb",
        shows(exercise="00.1", verdict="right", text="00.1: \x1b[2J\x9b\u202eright.\nYes.\tYes."),
    )
    shown = CliRunner().invoke(app, ["check", path]).stdout
    assert "00.1: \\x1b[2J\\x9b\\u202eright.\nYes.\tYes." in shown


def test_no_notebook_is_an_error(tmp_path):
    with pytest.raises(CourseError, match="There is no notebook"):
        grading.notebook_of(str(tmp_path / "none.ipynb"))
    with pytest.raises(CourseError, match="There is no lesson '77'"):
        grading.notebook_of("77", tmp_path)


def test_progress_is_a_table_and_json():
    check("01.5", 268)
    text = CliRunner().invoke(app, ["progress"]).stdout
    assert "Lesson 01: 1 of 6 core exercises right" in text
    found = json.loads(CliRunner().invoke(app, ["progress", "--json"]).stdout)
    (solved,) = [each for each in found["exercises"] if each["right"]]
    assert solved["exercise"] == "01.5"
    assert found["learner"]


def test_a_user_without_a_name_has_progress_too(monkeypatch):
    def unknown():
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert grading.progress()["learner"] == str(os.getuid())
