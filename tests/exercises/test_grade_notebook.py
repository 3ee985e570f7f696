"""`course check` runs notebooks and says what their checks gave; `course progress` sums it up."""

import getpass
import json
import os
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from course import check
from course.cli import app
from course.errors import CourseError
from course.exercises import grade_notebook as grading
from course.exercises import learner
from course.exercises.progress import progress
from course.exercises.result import MIME
from course.lessons.statements import statements
from tests.support.disk import room_for

KERNEL = """
from course import check
import triton, triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

check("if-becomes-mask", kernel)
"""


def test_a_notebook_is_run_and_neither_it_nor_the_progress_changes(tmp_path, monkeypatch):
    """It checks a right answer, an unsolved one and a wrong one; a cell fails in between."""
    cells = [KERNEL, "1 / 0", 'check("count-bytes", None)', 'check("least-time", 1)']
    path = notebook(tmp_path / "mine.ipynb", *cells)
    before = Path(path).read_bytes()
    graded = grading.grade(path)
    assert Path(path).read_bytes() == before
    assert learner.tried() == {}

    monkeypatch.setattr(grading, "grade", lambda lesson: graded)
    result = CliRunner().invoke(app, ["check", path])
    assert result.exit_code == 1
    for text in (
        f"{path}:",
        "✔ if-becomes-mask: right.",
        "○ count-bytes: to do.",
        "✘ least-time: wrong.",
    ):
        assert text in result.stdout

    content = checked(CliRunner().invoke(app, ["check", "--json", path]))
    verdicts = verdicts_in(content[path])
    assert verdicts[:3] == [
        ("if-becomes-mask", "right"),
        ("count-bytes", "to do"),
        ("least-time", "wrong"),
    ]
    of_its_notebooks = {("last-program", "missing"), ("what-takes-time", "missing")}
    assert of_its_notebooks <= set(verdicts[3:])
    assert all(verdict == "missing" for _, verdict in verdicts[3:])


def checked(result):
    """What `course check --json` says of each notebook: a line for each."""
    lines = map(json.loads, result.stdout.splitlines())
    return {line["notebook"]: line["checks"] for line in lines}


def test_a_notebook_that_ends_the_command_takes_no_other_with_it(monkeypatch, capfd):
    def grade(lesson):
        if lesson == "kills":
            shown.append(capfd.readouterr().out)
            raise KeyboardInterrupt
        return lesson, [
            grading.NotebookCheck("if-becomes-mask", "right", "if-becomes-mask: right.")
        ]

    shown = []
    monkeypatch.setattr(grading, "grade", grade)
    with pytest.raises(SystemExit):
        app(["check", "--json", "one", "two", "kills"])
    lines = [json.loads(line) for line in shown[0].splitlines()]
    assert [line["notebook"] for line in lines] == ["one", "two"]


def verdicts_in(content):
    """From the command's JSON."""
    return [(row["exercise"], row["verdict"]) for row in content]


def verdicts_of(rows):
    return [(row.exercise, row.verdict) for row in rows]


def notebook(path, *cells):
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), path
    )
    return str(path)


def shows(**content):
    """A cell that shows what a check shows, and takes no second for it."""
    return f"from IPython.display import display\ndisplay({{{MIME!r}: {content}}}, raw=True)"


CORE = [statement.name for statement in statements(lesson="00").values() if statement.core]
RIGHT = [shows(exercise=name, verdict="right", text=f"{name}: right.") for name in CORE]
MISSING = [(name, "missing") for name in CORE]


def test_one_bad_notebook_loses_nobodys_results(tmp_path):
    names = ("a", "no notebook", "exits", "shows something else", "z")
    paths = {name: str(tmp_path / f"00-{name}.ipynb") for name in names}
    for name in ("a", "z"):
        notebook(paths[name], *RIGHT)
    (tmp_path / "00-no notebook.ipynb").write_text("{")
    notebook(paths["exits"], RIGHT[0], "import os; os._exit(1)", *RIGHT[1:])
    notebook(paths["shows something else"], RIGHT[0], shows(other="keys"), *RIGHT[1:])
    result = CliRunner().invoke(app, ["check", "--json", "77", *paths.values()])
    assert result.exit_code == 1
    content = checked(result)
    assert list(content) == ["77", *paths.values()]
    right = [(name, "right") for name in CORE]
    error = ("", "error")
    assert verdicts_in(content["77"]) == [error]
    assert verdicts_in(content[paths["a"]]) == verdicts_in(content[paths["z"]]) == right
    assert verdicts_in(content[paths["no notebook"]]) == [error]
    assert verdicts_in(content[paths["exits"]]) == [right[0], *MISSING[1:], error]
    assert verdicts_in(content[paths["shows something else"]]) == [*right, error]
    for name, says in (
        ("no notebook", "is no notebook"),
        ("exits", "ended the session"),
        ("shows something else", "take out the"),
    ):
        assert says in content[paths[name]][-1]["text"]


def test_a_notebook_that_does_not_end_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "CELL_TIMEOUT_S", 2)
    rows = grading.grade_notebook(
        Path(notebook(tmp_path / "00-endless.ipynb", "while True:\n    pass"))
    )
    assert verdicts_of(rows) == [*MISSING, ("", "error")]
    assert "did not end within 2 s" in rows[-1].text


def test_a_session_that_cannot_start_is_one_error(tmp_path):
    path = notebook(tmp_path / "00-mine.ipynb", *RIGHT)
    with room_for(0):
        rows = grading.grade_notebook(Path(path))
    assert verdicts_of(rows) == [*MISSING, ("", "error")]
    assert rows[-1].text.startswith(f"The session for {path} could not be run (")


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
    path = Path(notebook(tmp_path / "00-mine.ipynb", *RIGHT))
    content = nbformat.read(path, as_version=4)
    content.cells[0].metadata["tags"] = ["skip-execution"]
    shown = {MIME: {"exercise": CORE[0], "verdict": "right", "text": f"{CORE[0]}: right."}}
    content.cells[0].outputs = [nbformat.v4.new_output("display_data", data=shown)]
    nbformat.write(content, path)
    verdicts = verdicts_of(grading.grade_notebook(path))
    assert verdicts == [*((name, "right") for name in CORE[1:]), MISSING[0]]


def test_what_would_steer_a_terminal_is_written_out(tmp_path):
    path = notebook(
        tmp_path / "mine.ipynb",
        shows(
            exercise="last-program",
            verdict="right",
            text="last-program: \x1b[2J\x9b\u202eright.\nYes.\tYes.",
        ),
    )
    shown = CliRunner().invoke(app, ["check", path]).stdout
    assert "last-program: \\x1b[2J\\x9b\\u202eright.\nYes.\tYes." in shown


def test_no_notebook_is_an_error(tmp_path):
    with pytest.raises(CourseError, match="There is no notebook"):
        grading.notebook_of(str(tmp_path / "none.ipynb"))
    with pytest.raises(CourseError, match="There is no lesson '77'"):
        grading.notebook_of("77", tmp_path)


def test_progress_is_a_table_and_json():
    check("count-bytes", 268)
    text = CliRunner().invoke(app, ["progress"]).stdout
    assert "  02: 1 of 4 core exercises right" in text
    content = json.loads(CliRunner().invoke(app, ["progress", "--json"]).stdout)
    (solved,) = [each for each in content["exercises"] if each["right"]]
    assert solved["exercise"] == "count-bytes"
    assert content["learner"]


def test_a_user_without_a_name_has_progress_too(monkeypatch):
    def unknown():
        raise KeyError("getpwuid(): uid not content: 1234")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert progress().learner == str(os.getuid())
