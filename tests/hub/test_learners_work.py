"""What becomes of the work, and of what a seat leaves on the host, whatever its learner does."""

import os
import tarfile

import pytest

from course.errors import CourseError
from hub import learners_work, start
from hub.settings import Settings

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="gives files to other users: needs root")


@pytest.fixture
def room(tmp_path):
    settings = Settings(tmp_path / "room", seats=2)
    start.make_folder(settings)
    for name in settings.names:
        work = settings.home(name) / "work"
        work.mkdir(parents=True)
        (work / "note").write_text(name)
        for path in (work.parent, work, work / "note"):
            os.chown(path, settings.user(name), settings.user(name))
        work.parent.chmod(0o700)
    return settings


def test_each_learners_work_is_one_file_with_holes_and_links_as_they_are(room, tmp_path):
    work = room.home("seat-01") / "work"
    with (work / "large").open("wb") as file:
        file.truncate(2**42)
    (work / "link").symlink_to("/etc/shadow")
    files = learners_work.take_home(room, tmp_path / "out")
    assert [file.name for file in files] == ["seat-01.tar.gz", "seat-02.tar.gz"]
    assert all(file.stat().st_size < 2**20 and file.stat().st_mode & 0o77 == 0 for file in files)
    with tarfile.open(files[0]) as packed:
        assert packed.extractfile("seat-01/work/note").read() == b"seat-01"
        assert packed.getmember("seat-01/work/link").linkname == "/etc/shadow"
        assert packed.getmember("seat-01/work/large").size == 2**42


def test_the_work_is_read_with_the_seats_rights_so_that_no_link_leads_to_another_file(
    room, tmp_path
):
    # As if a link to it had taken a file's place at the moment when that was opened.
    hidden = room.home("seat-01") / "work" / "the host's"
    hidden.write_text("secret")
    hidden.chmod(0o600)
    with pytest.raises(CourseError, match="seat-01"):
        learners_work.take_home(room, tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "seat-01.tar.gz") as packed:
        assert packed.getnames() == ["seat-01/work", "seat-01/work/note"]


def test_a_seat_that_fills_the_queues_folder_has_its_files_removed_and_nobody_else(room):
    for number in range(start.MOST_TICKETS + 1):
        path = room.queue_folder / f"{number}.json"
        path.mkdir() if number == 7 else path.touch()
        os.chown(path, room.user("seat-01"), room.user("seat-01"))
    other = room.queue_folder / "other.json"
    other.touch()
    os.chown(other, room.user("seat-02"), room.user("seat-02"))
    assert start.sweep(room) == ["seat-01"]
    assert list(room.queue_folder.iterdir()) == [other]
    with other.open("wb") as file:
        file.truncate(2**30)
    assert start.sweep(room) == ["seat-02"]


def test_a_log_that_grows_without_end_takes_twice_its_limit_at_most(room):
    log = start.log_file(room)
    with log.open("a+") as file:
        for text in ("first", "second"):
            file.write(text)
            file.flush()
            start.turn_over(log)
        assert log.stat().st_size == 0
        file.write("third")
    assert log.read_text() == "third"
    assert log.with_suffix(".before.log").read_text() == "second"
