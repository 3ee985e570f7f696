"""Files are written whole or not at all, and an error says what to do."""

import errno
import os
import stat
from pathlib import Path

import pytest

from course.display.picture import Picture
from course.display.widget import write_page
from course.errors import CourseError
from course.files import advice, scratch, write_together, write_whole
from tests.support.disk import room_for

LONG = "a long text, " * 1000


def tree(folder) -> dict[str, str]:
    """Every file below a folder, hidden ones too."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def writes_a_picture(path):
    Picture(LONG.encode(), "a picture", 100).save(path)


@pytest.mark.parametrize("write", [write_whole, write_page, lambda path, _: writes_a_picture(path)])
def test_where_there_is_no_room_the_old_file_stays_and_the_error_says_what_to_do(tmp_path, write):
    path = tmp_path / "file"
    path.write_text("the old one")
    with room_for(5000), pytest.raises(CourseError) as refused:
        write(path, LONG)
    assert str(refused.value).startswith(f"{path} could not be written (")
    assert str(refused.value).endswith(
        "): nothing was changed; make room on the disk and try again."
    )
    assert tree(tmp_path) == {"file": "the old one"}
    write(path, LONG)
    assert tree(tmp_path) == {"file": LONG}


@pytest.mark.parametrize("room", [0, 1, 500, 5000])
def test_of_several_files_all_are_written_or_none_and_folders_made_for_them_are_removed(
    tmp_path, room
):
    (tmp_path / "one").write_text("the old one")
    files = {
        tmp_path / "one": "the new one",
        tmp_path / "two": "two",
        tmp_path / "a" / "b" / "three": LONG,
    }
    with room_for(room), pytest.raises(CourseError, match="nothing was changed"):
        write_together(files)
    assert tree(tmp_path) == {"one": "the old one"}
    assert not (tmp_path / "a").exists()
    write_together(files)
    assert tree(tmp_path) == {"one": "the new one", "two": "two", "a/b/three": LONG}


@pytest.mark.parametrize("error", [OSError(errno.EIO, os.strerror(errno.EIO)), KeyboardInterrupt()])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_an_error_or_interrupt_while_files_are_moved_takes_back_those_before_it(
    tmp_path, monkeypatch, error, fails_at
):
    files = {tmp_path / name: f"new {name}" for name in ("one", "two", "three")}
    (tmp_path / "one").write_text("old one")
    plain, count = Path.replace, iter(range(1, 10))

    def replaced(self, target):
        if next(count) == fails_at:
            raise error
        return plain(self, target)

    monkeypatch.setattr(Path, "replace", replaced)
    with pytest.raises(CourseError if isinstance(error, OSError) else KeyboardInterrupt):
        write_together(files)
    assert tree(tmp_path) == {"one": "old one"}


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("elsewhere/file")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "file").read_text() == "text"


def test_a_device_and_a_folder_are_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (Path("/dev/null"), tmp_path / "link", tmp_path):
        with pytest.raises(
            CourseError, match=r"could not be written \(a folder or a device is there\)"
        ):
            write_whole(path, "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "make room on the disk"),
        (errno.EROFS, "use a folder that you can write to"),
        (errno.ENOTDIR, "move away what is in its place"),
        (errno.EIO, "try again"),
    ],
)
def test_the_advice_goes_by_what_went_wrong(number, says):
    assert advice(OSError(number, os.strerror(number))).startswith(says)


def test_a_temporary_folder_without_room_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    says = rf"The temporary folder {tmp_path} .+ or set TMPDIR to another"
    with room_for(100), pytest.raises(CourseError, match=says), scratch() as folder:
        (folder / "file").write_text(LONG)
    assert os.listdir(tmp_path) == []
