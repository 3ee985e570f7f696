"""The reader's folder of an installed course: what a newer course changes in it, and leaves."""

import json
import os
import time

import pytest

from course.errors import CourseError
from course.lessons import unpack as unpacking
from course.lessons.unpack import UNPACKED, unpack

GUIDE, KERNEL, DROPPED = "README.md", "kernels/add.py", "kernels/old.py"


@pytest.fixture
def folders(tmp_path):
    """The reader's folder, into which a course with three files was unpacked, and that course."""
    folder, source = tmp_path / "folder", tmp_path / "source"
    for name in (GUIDE, KERNEL, DROPPED):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(f"{name}, at first")
    assert unpack(folder, source) == []
    return folder, source


def test_a_file_that_the_course_has_dropped_goes_unless_the_reader_has_changed_it(folders):
    folder, source = folders
    (source / DROPPED).unlink()
    (source / KERNEL).unlink()
    (folder / KERNEL).write_text("mine")
    unpack(folder, source)
    assert not (folder / DROPPED).exists()
    assert (folder / KERNEL).read_text() == "mine"


def test_what_damaged_notes_name_outside_of_the_folder_stays(folders, tmp_path):
    folder, source = folders
    mine = tmp_path / "mine"
    mine.write_text("x")
    notes = json.loads((folder / UNPACKED).read_text())
    notes |= {"../mine": unpacking.hash_of(b"x"), "\0": "", "kernels": ""}
    (folder / UNPACKED).write_text(json.dumps(notes))
    unpack(folder, source)
    assert mine.read_text() == "x"


@pytest.mark.parametrize("damage", ["[" * 200_000, "[]", "{", ""])
def test_with_damaged_notes_every_changed_file_is_kept(folders, damage):
    folder, source = folders
    (folder / KERNEL).write_text("mine")
    (source / KERNEL).write_text("a better one")
    (folder / UNPACKED).write_text(damage)
    assert unpack(folder, source) == [KERNEL]
    assert (folder / KERNEL).read_text() == "mine"


def test_a_pipe_in_place_of_a_file_is_said_and_of_the_notes_too(folders):
    folder, source = folders
    (folder / GUIDE).unlink()
    os.mkfifo(folder / GUIDE)
    with pytest.raises(
        CourseError, match=rf"{GUIDE} could not be read .*: move away what is there"
    ):
        unpack(folder, source)
    (folder / GUIDE).unlink()
    (folder / UNPACKED).unlink()
    os.mkfifo(folder / UNPACKED)
    with pytest.raises(CourseError, match=r"\.unpacked\.json could not be written"):
        unpack(folder, source)


def test_what_a_kill_has_left_is_removed_at_the_next_start_and_what_is_being_written_is_not(
    folders,
):
    folder, source = folders
    left, being_written, mine = (
        folder / "kernels" / name
        for name in (f".course-{'a' * 16}", f".course-{'b' * 16}", ".course-of-mine")
    )
    for path in (left, being_written, mine):
        path.write_text("half a ker")
    an_hour_ago = time.time() - 3600
    for path in (left, mine):
        os.utime(path, (an_hour_ago, an_hour_ago))
    unpack(folder, source)
    assert [path.exists() for path in (left, being_written, mine)] == [False, True, True]


def test_a_change_of_a_moment_before_is_kept(folders, monkeypatch):
    folder, source = folders
    (source / KERNEL).write_text("a better one")
    replace = unpacking.replace_unchanged

    def saved_before(path, *contents):
        path.write_text("mine")
        return replace(path, *contents)

    monkeypatch.setattr(unpacking, "replace_unchanged", saved_before)
    assert unpack(folder, source) == [KERNEL]
    assert (folder / KERNEL).read_text() == "mine"
