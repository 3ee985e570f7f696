"""The reader's copies in work/ are made once, and nothing that the reader wrote is ever lost."""

import hashlib
import json
import os
import subprocess
import sys

import nbformat
import pytest

from course import files
from course.errors import CourseError
from course.lessons import lab, learner_copies
from tests.support.disk import room_for
from tests.support.processes import python_path

FIRST, SECOND = "01-vector-add.ipynb", "02-softmax.ipynb"


@pytest.fixture
def folders(tmp_path):
    """notebooks/ with two lessons, and work/, which is not there yet."""
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    (notebooks / FIRST).write_text("the first lesson")
    (notebooks / SECOND).write_text("the second lesson")
    (notebooks / "notes.ipynb").write_text("not a lesson")
    return notebooks, tmp_path / "work"


def texts(work) -> dict[str, str]:
    return {path.name: path.read_text() for path in work.glob("*.ipynb")}


def test_every_lesson_is_copied_once(folders):
    assert learner_copies.copy_lessons(*folders).new == [FIRST, SECOND]
    assert texts(folders[1]) == {FIRST: "the first lesson", SECOND: "the second lesson"}
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()


def test_folders_around_the_copies_are_made(folders):
    notebooks, work = folders
    assert learner_copies.copy_lessons(notebooks, work / "in" / "deep").new == [FIRST, SECOND]


def test_an_untouched_copy_is_renewed_with_its_lesson(folders):
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (notebooks / FIRST).write_text("a better first lesson")
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied(renewed=[FIRST])
    assert (work / FIRST).read_text() == "a better first lesson"
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()


def test_a_copy_that_the_reader_changed_is_never_written_to(folders):
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()
    (work / FIRST).chmod(0o444)
    before = (work / FIRST).stat()
    for text in ("a better first lesson", "an even better first lesson"):
        (notebooks / FIRST).write_text(text)
        assert learner_copies.copy_lessons(*folders) == learner_copies.Copied(behind=[FIRST])
    after = (work / FIRST).stat()
    assert (work / FIRST).read_text() == "my solution"
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


STEPS = [
    (learner_copies, "replace_unchanged"),
    *((files, name) for name in ("_beside", "_taken_away", "_put", "_remove")),
]
"""What is called one after the other where a copy is renewed."""


@pytest.mark.parametrize(("module", "step"), STEPS, ids=[step for _, step in STEPS])
@pytest.mark.parametrize("is_new", [False, True], ids=["renewed", "new"])
def test_what_the_reader_saves_meanwhile_is_never_lost(folders, monkeypatch, module, step, is_new):
    """A lab writes beside the notebook, and moves that there."""
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (notebooks / FIRST).write_text("a better first lesson")
    if is_new:
        (work / FIRST).unlink()
    own = getattr(module, step)

    def saved_before(*arguments):
        if not (work / "saved").exists():
            (work / "saved").write_text("mine")
            (work / "beside").write_text("mine")
            (work / "beside").replace(work / FIRST)
        return own(*arguments)

    monkeypatch.setattr(module, step, saved_before)
    copied = learner_copies.copy_lessons(*folders)
    assert texts(work)[FIRST] == ("mine" if (work / "saved").exists() else "a better first lesson")
    assert sorted(texts(work)) == [FIRST, SECOND]
    if step != "_remove" and not (is_new and step == "_taken_away"):
        assert copied == learner_copies.Copied(behind=[FIRST])


@pytest.mark.parametrize("notes", ["deep", "pipe"])
def test_damaged_notes_of_origin_do_not_stop_the_lab(folders, notes):
    work = folders[1]
    learner_copies.copy_lessons(*folders)
    (work / learner_copies.ORIGINS).unlink()
    if notes == "deep":
        (work / learner_copies.ORIGINS).write_text("[" * 200_000)
        assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()
    else:
        os.mkfifo(work / learner_copies.ORIGINS)
        with pytest.raises(CourseError, match=r"\.origins\.json could not be written"):
            learner_copies.copy_lessons(*folders)


def test_a_pipe_in_a_lessons_place_is_said(folders):
    learner_copies.copy_lessons(*folders)
    (folders[1] / FIRST).unlink()
    os.mkfifo(folders[1] / FIRST)
    with pytest.raises(CourseError, match=rf"{FIRST} could not be read .*`course reset 01` puts"):
        learner_copies.copy_lessons(*folders)


def test_a_file_of_the_readers_own_under_a_lessons_name_is_kept(folders):
    folders[1].mkdir()
    (folders[1] / FIRST).write_text("mine before yours")
    copied = learner_copies.copy_lessons(*folders)
    assert (copied.new, copied.behind) == ([SECOND], [FIRST])
    assert (folders[1] / FIRST).read_text() == "mine before yours"


@pytest.mark.parametrize(
    "damage", [None, b"", b"{", b"[1, 2]", b"\xff\xfe", b'{"01-vector-add.ipynb": 7}']
)
def test_without_its_notes_of_origin_every_changed_copy_is_kept(folders, damage):
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    (notebooks / FIRST).write_text("a better first lesson")
    if damage is None:
        (work / learner_copies.ORIGINS).unlink()
    else:
        (work / learner_copies.ORIGINS).write_bytes(damage)
    assert FIRST in learner_copies.copy_lessons(*folders).behind
    assert texts(work) == {FIRST: "my solution", SECOND: "the second lesson"}
    json.loads((work / learner_copies.ORIGINS).read_text())


def test_without_its_notes_of_origin_a_copy_like_its_lesson_is_not_behind_and_is_renewed_later(
    folders,
):
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (work / learner_copies.ORIGINS).unlink()
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()
    (notebooks / FIRST).write_text("a better first lesson")
    assert learner_copies.copy_lessons(*folders).renewed == [FIRST]


def test_reset_gives_a_fresh_copy_and_keeps_every_old_one(folders):
    work = folders[1]
    learner_copies.copy_lessons(*folders)
    for k, number in ((1, "01"), (2, "1"), (3, "01")):
        (work / FIRST).write_text(f"attempt {k}")
        fresh, kept = learner_copies.reset(number, *folders)
        assert (fresh, kept) == (work / FIRST, work / f"01-vector-add.kept-{k}.ipynb")
        assert fresh.read_text() == "the first lesson"
    assert [(work / f"01-vector-add.kept-{k}.ipynb").read_text() for k in (1, 2, 3)] == [
        "attempt 1",
        "attempt 2",
        "attempt 3",
    ]
    assert (work / SECOND).read_text() == "the second lesson"


def test_reset_gives_the_newest_lesson_and_ends_being_behind(folders):
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    (notebooks / FIRST).write_text("a better first lesson")
    fresh, kept = learner_copies.reset("01", *folders)
    assert (fresh.read_text(), kept.read_text()) == ("a better first lesson", "my solution")
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()


def test_reset_of_a_lesson_never_copied_keeps_nothing(folders):
    fresh, kept = learner_copies.reset("02", *folders)
    assert kept is None
    assert fresh.read_text() == "the second lesson"


@pytest.mark.parametrize("number", ["07", "abc", "..", "", "-1", "*", "0[1]", "01-vector", "²"])
def test_reset_of_what_is_no_lesson_says_which_there_are_and_changes_nothing(folders, number):
    learner_copies.copy_lessons(*folders)
    before = texts(folders[1])
    with pytest.raises(CourseError, match=r"^There is no lesson .+: there is 01, 02\.$"):
        learner_copies.reset(number, *folders)
    assert texts(folders[1]) == before


# Copies hold no outputs


def notebook(source, output="2\n"):
    """A lesson of one cell, as it stands in notebooks/: run."""
    outputs = [nbformat.v4.new_output("stream", text=output)]
    cell = nbformat.v4.new_code_cell(source, outputs=outputs, execution_count=1, id="one")
    lesson = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# é", id="0"), cell])
    return nbformat.writes(lesson) + "\n"


def code_cell(path):
    return nbformat.read(path, as_version=4).cells[1]


def test_a_copy_has_neither_outputs_nor_execution_counts_and_is_else_its_lesson(folders):
    notebooks, work = folders
    (notebooks / FIRST).write_text(notebook("1 + 1"))
    learner_copies.copy_lessons(*folders)
    learner_copies.reset("01", *folders)
    for name in (FIRST, "01-vector-add.kept-1.ipynb"):
        cell = code_cell(work / name)
        assert (cell.source, cell.outputs, cell.execution_count) == ("1 + 1", [], None)
    lesson = nbformat.reads(notebook("1 + 1"), as_version=4)
    lesson.cells[1].outputs, lesson.cells[1].execution_count = [], None
    assert (work / FIRST).read_text() == nbformat.writes(lesson) + "\n"


def test_a_lesson_whose_outputs_alone_have_changed_is_no_newer_version(folders):
    notebooks, work = folders
    (notebooks / FIRST).write_text(notebook("1 + 1"))
    learner_copies.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    (notebooks / FIRST).write_text(notebook("1 + 1", output="two\n"))
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()


def copied_with_outputs(folders, text):
    """Leave work/ as earlier versions of the course did."""
    notebooks, work = folders
    work.mkdir()
    (notebooks / FIRST).write_text(text)
    (work / FIRST).write_text(text)
    origin = hashlib.sha256(text.encode()).hexdigest()
    (work / learner_copies.ORIGINS).write_text(json.dumps({FIRST: origin}))


@pytest.mark.parametrize("newer", ["1 + 1", "1 + 2"])
def test_an_untouched_copy_with_outputs_is_renewed(folders, newer):
    notebooks, work = folders
    copied_with_outputs(folders, notebook("1 + 1"))
    (notebooks / FIRST).write_text(notebook(newer))
    assert learner_copies.copy_lessons(*folders).renewed == [FIRST]
    assert (code_cell(work / FIRST).source, code_cell(work / FIRST).outputs) == (newer, [])
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()


def test_a_copy_with_outputs_that_the_reader_worked_in_is_kept(folders):
    notebooks, work = folders
    copied_with_outputs(folders, notebook("1 + 1"))
    mine = notebook("1 + 1  # mine")
    (work / FIRST).write_text(mine)
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied(new=[SECOND])
    (notebooks / FIRST).write_text(notebook("1 + 2"))
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied(behind=[FIRST])
    assert (work / FIRST).read_text() == mine


# A full disk, an interruption, and what else can be in the way


LONG = "a lesson that does not fit, " * 100


def test_on_a_full_disk_a_lesson_is_copied_whole_or_not_at_all_and_the_next_run_goes_on(folders):
    notebooks, work = folders
    (notebooks / SECOND).write_text(LONG)
    with (
        room_for(1000),
        pytest.raises(
            CourseError, match=rf"{SECOND} could not be written \(.+\): .*make room on the disk"
        ),
    ):
        learner_copies.copy_lessons(*folders)
    assert sorted(os.listdir(work)) == [learner_copies.ORIGINS, FIRST]
    (notebooks / FIRST).write_text(
        "a better first lesson"
    )  # its origin was noted when it was copied
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied(
        new=[SECOND], renewed=[FIRST]
    )
    assert texts(work) == {FIRST: "a better first lesson", SECOND: LONG}


def test_an_untouched_copy_is_still_there_when_a_full_disk_keeps_it_from_being_renewed(folders):
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (notebooks / FIRST).write_text(LONG)
    with room_for(1000), pytest.raises(CourseError, match="make room"):
        learner_copies.copy_lessons(*folders)
    assert (work / FIRST).read_text() == "the first lesson"
    assert learner_copies.copy_lessons(*folders).renewed == [FIRST]


KILLED = """
import resource, signal, sys
from pathlib import Path
from course.lessons import lab, learner_copies
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
learner_copies.copy_lessons(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_killed_while_it_copies_it_leaves_no_half_lesson(folders):
    """The system kills it within a write, after 1,000 bytes."""
    notebooks, work = folders
    (notebooks / SECOND).write_text(LONG)
    command = [sys.executable, "-c", KILLED, str(notebooks), str(work)]
    environ = {**os.environ, "PYTHONPATH": python_path(), "PYTHONDONTWRITEBYTECODE": "1"}
    assert subprocess.run(command, env=environ, timeout=120).returncode < 0
    assert texts(work) == {FIRST: "the first lesson"}
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied(new=[SECOND])


@pytest.mark.parametrize("kept", [0, 1, 10])
def test_half_a_copy_that_an_earlier_run_left_is_not_taken_for_the_readers_own(folders, kept):
    notebooks, work = folders
    work.mkdir()
    (work / FIRST).write_text((notebooks / FIRST).read_text()[:kept])
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied(
        new=[SECOND], renewed=[FIRST]
    )
    assert (work / FIRST).read_text() == "the first lesson"


def test_a_reset_on_a_full_disk_leaves_the_readers_copy_where_it_was(folders):
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    (notebooks / FIRST).write_text(LONG)
    before = sorted(os.listdir(work))
    with (
        room_for(1000),
        pytest.raises(CourseError, match=r"could not be written \(.+\): .*make room on the disk"),
    ):
        learner_copies.reset("01", *folders)
    assert sorted(os.listdir(work)) == before
    assert (work / FIRST).read_text() == "my solution"
    assert learner_copies.reset("01", *folders)[1].name.endswith(".kept-1.ipynb")


def in_place_of_a_lesson(work, what):
    work.mkdir()
    if what == "folder":
        (work / FIRST).mkdir()
        (work / FIRST / "mine").write_text("my notes")
    else:
        (work / FIRST).symlink_to({"dangling link": "nowhere/at/all", "loop": FIRST}[what])


@pytest.mark.parametrize("what", ["folder", "dangling link", "loop"])
def test_what_is_no_notebook_in_a_lessons_place_is_said_and_reset_moves_it_away(folders, what):
    work = folders[1]
    in_place_of_a_lesson(work, what)
    with pytest.raises(
        CourseError,
        match=rf"{FIRST} could not be read \(.+\): `course reset 01` puts a fresh copy there",
    ):
        learner_copies.copy_lessons(*folders)
    fresh, kept = learner_copies.reset("01", *folders)
    assert fresh.read_text() == "the first lesson"
    assert kept.is_symlink() or (kept / "mine").read_text() == "my notes"
    assert learner_copies.copy_lessons(*folders).new == [SECOND]


@pytest.mark.parametrize("what", ["file", "dangling link"])
@pytest.mark.parametrize(
    "command", [learner_copies.copy_lessons, lambda *folders: learner_copies.reset("01", *folders)]
)
def test_what_is_no_folder_in_place_of_work_is_said(folders, what, command):
    work = folders[1]
    work.write_text("my file") if what == "file" else work.symlink_to("nowhere")
    with pytest.raises(
        CourseError,
        match=r"work for your lessons could not be made \(File exists\): move away what is in its",
    ):
        command(*folders)


def test_a_folder_in_place_of_the_notes_of_origin_is_said(folders):
    (folders[1] / learner_copies.ORIGINS).mkdir(parents=True)
    with pytest.raises(
        CourseError,
        match=r"\.origins\.json could not be written .+; move away what is in its place",
    ):
        learner_copies.copy_lessons(*folders)


def test_where_every_lesson_is_there_nothing_is_written(folders):
    """So that the lab opens where work/ cannot be written."""
    work = folders[1]
    learner_copies.copy_lessons(*folders)
    before = {
        path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (work, *work.iterdir())
    }
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()
    assert {
        path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (work, *work.iterdir())
    } == before


def test_a_work_folder_that_cannot_be_written_is_said(folders):
    with pytest.raises(CourseError, match=r"could not be made \(.+\): "):
        learner_copies.copy_lessons(folders[0], type(folders[0])("/proc/work"))


def test_lessons_that_the_course_no_longer_has_leave_the_list_and_what_was_written_stays(folders):
    notebooks, work = folders
    learner_copies.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    (work / "mine.ipynb").write_text("a notebook of my own")
    for name in (FIRST, SECOND):
        (notebooks / name).unlink()
    (notebooks / "00-new.ipynb").write_text("a shorter lesson")
    copied = learner_copies.copy_lessons(*folders)
    assert (copied.new, copied.earlier) == (["00-new.ipynb"], [FIRST])
    assert (
        "in work/earlier/ you find what you wrote: 01-vector-add.ipynb." in lab.report(copied)[-1]
    )
    assert sorted(texts(work)) == ["00-new.ipynb", "mine.ipynb"]
    assert list(texts(work / "earlier").values()) == ["my solution"]
    assert learner_copies.copy_lessons(*folders) == learner_copies.Copied()
