"""The reader's copies in work/ are made once, and nothing that the reader wrote is ever lost."""

import json

import pytest

from course.errors import CourseError
from course.teaching import workspace

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
    assert workspace.copy_lessons(*folders).new == [FIRST, SECOND]
    assert texts(folders[1]) == {FIRST: "the first lesson", SECOND: "the second lesson"}
    assert workspace.copy_lessons(*folders) == workspace.Copied()


def test_an_untouched_copy_is_renewed_with_its_lesson(folders):
    notebooks, work = folders
    workspace.copy_lessons(*folders)
    (notebooks / FIRST).write_text("a better first lesson")
    assert workspace.copy_lessons(*folders) == workspace.Copied(renewed=[FIRST])
    assert (work / FIRST).read_text() == "a better first lesson"
    assert workspace.copy_lessons(*folders) == workspace.Copied()


def test_a_copy_that_the_reader_changed_is_never_written_to(folders):
    notebooks, work = folders
    workspace.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    assert workspace.copy_lessons(*folders) == workspace.Copied()
    (work / FIRST).chmod(0o444)
    before = (work / FIRST).stat()
    for text in ("a better first lesson", "an even better first lesson"):
        (notebooks / FIRST).write_text(text)
        assert workspace.copy_lessons(*folders) == workspace.Copied(behind=[FIRST])
    after = (work / FIRST).stat()
    assert (work / FIRST).read_text() == "my solution"
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_file_of_the_readers_own_under_a_lessons_name_is_kept(folders):
    folders[1].mkdir()
    (folders[1] / FIRST).write_text("mine before yours")
    copied = workspace.copy_lessons(*folders)
    assert (copied.new, copied.behind) == ([SECOND], [FIRST])
    assert (folders[1] / FIRST).read_text() == "mine before yours"


@pytest.mark.parametrize("damage", [None, b"", b"{", b"[1, 2]", b"\xff\xfe", b'{"01-vector-add.ipynb": 7}'])
def test_without_its_notes_of_origin_every_changed_copy_is_kept(folders, damage):
    notebooks, work = folders
    workspace.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    (notebooks / FIRST).write_text("a better first lesson")
    if damage is None:
        (work / workspace.ORIGINS).unlink()
    else:
        (work / workspace.ORIGINS).write_bytes(damage)
    assert FIRST in workspace.copy_lessons(*folders).behind
    assert texts(work) == {FIRST: "my solution", SECOND: "the second lesson"}
    json.loads((work / workspace.ORIGINS).read_text())


def test_without_its_notes_of_origin_a_copy_like_its_lesson_is_not_behind_and_is_renewed_later(folders):
    notebooks, work = folders
    workspace.copy_lessons(*folders)
    (work / workspace.ORIGINS).unlink()
    assert workspace.copy_lessons(*folders) == workspace.Copied()
    (notebooks / FIRST).write_text("a better first lesson")
    assert workspace.copy_lessons(*folders).renewed == [FIRST]


def test_reset_gives_a_fresh_copy_and_keeps_every_old_one(folders):
    work = folders[1]
    workspace.copy_lessons(*folders)
    for k, number in ((1, "01"), (2, "1"), (3, "01")):
        (work / FIRST).write_text(f"attempt {k}")
        fresh, kept = workspace.reset(number, *folders)
        assert (fresh, kept) == (work / FIRST, work / f"01-vector-add.kept-{k}.ipynb")
        assert fresh.read_text() == "the first lesson"
    assert [(work / f"01-vector-add.kept-{k}.ipynb").read_text() for k in (1, 2, 3)] == ["attempt 1", "attempt 2", "attempt 3"]
    assert (work / SECOND).read_text() == "the second lesson"


def test_reset_gives_the_newest_lesson_and_ends_being_behind(folders):
    notebooks, work = folders
    workspace.copy_lessons(*folders)
    (work / FIRST).write_text("my solution")
    (notebooks / FIRST).write_text("a better first lesson")
    fresh, kept = workspace.reset("01", *folders)
    assert (fresh.read_text(), kept.read_text()) == ("a better first lesson", "my solution")
    assert workspace.copy_lessons(*folders) == workspace.Copied()


def test_reset_of_a_lesson_never_copied_keeps_nothing(folders):
    fresh, kept = workspace.reset("02", *folders)
    assert kept is None
    assert fresh.read_text() == "the second lesson"


@pytest.mark.parametrize("number", ["07", "abc", "..", "", "-1", "*", "0[1]", "01-vector", "²"])
def test_reset_of_what_is_no_lesson_says_which_there_are_and_changes_nothing(folders, number):
    workspace.copy_lessons(*folders)
    before = texts(folders[1])
    with pytest.raises(CourseError, match=r"^There is no lesson .+: there is 01, 02\.$"):
        workspace.reset(number, *folders)
    assert texts(folders[1]) == before
