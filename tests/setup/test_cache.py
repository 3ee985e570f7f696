"""The cache folder is where it was asked for, the reader's alone, and refused where it is not."""

import os
import stat
from pathlib import Path

import pytest

from course.cache import cache_folder, private_folder, refuse_shared
from course.errors import CourseError


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"COURSE_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"COURSE_CACHE": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/triton-course"),
        ({"XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/triton-course"),
    ],
)
def test_course_cache_comes_before_xdg_and_xdg_before_home(environ, folder):
    assert cache_folder(environ) == Path(folder)


def test_without_any_setting_it_is_in_the_users_own_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({}) == tmp_path / ".cache" / "triton-course"


def test_a_relative_folder_and_a_tilde_are_made_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/reader")
    assert cache_folder({"COURSE_CACHE": "here"}) == tmp_path / "here"
    assert cache_folder({"COURSE_CACHE": "~/there"}) == Path("/home/reader/there")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_folder_is_the_users_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        made = private_folder(tmp_path / "deep" / "cache")
    finally:
        os.umask(before)
    assert made == tmp_path / "deep" / "cache"
    assert stat.S_IMODE(made.stat().st_mode) == stat.S_IMODE(made.parent.stat().st_mode) == 0o700


def test_a_folder_of_ones_own_is_kept_as_it_is(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "kernel").write_text("compiled")
    assert private_folder(tmp_path) == tmp_path
    assert (tmp_path / "kernel").read_text() == "compiled"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write_is_refused_with_the_command_that_mends_it(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(CourseError) as refused:
        private_folder(tmp_path)
    assert "can be written by others" in str(refused.value)
    assert f"chmod 700 {tmp_path}" in str(refused.value)
    tmp_path.chmod(0o700)
    refuse_shared(tmp_path)


def test_a_folder_of_another_user_is_refused_and_one_of_ones_own_asked_for(monkeypatch, tmp_path):
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(
        CourseError, match=r"belongs to another user.+set COURSE_CACHE to a folder of your own\.$"
    ):
        private_folder(tmp_path)


def test_a_link_is_refused_only_where_others_can_write_its_folder(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "cache").symlink_to(tmp_path / "shared")
    with pytest.raises(CourseError, match="can be written by others"):
        private_folder(tmp_path / "cache")
    (tmp_path / "shared").chmod(0o700)
    assert private_folder(tmp_path / "cache") == tmp_path / "cache"


@pytest.mark.parametrize("way", ["folder", "folder below", "link", "link below", "link to a link"])
def test_a_folder_that_all_can_replace_is_refused(tmp_path, way):
    """Whoever can write the folder that it lies in, or that a link on the way lies in, can put
    another one there."""
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    for folder in (shared, mine, mine / "cache", shared / "folder"):
        folder.mkdir(mode=0o700)
    (shared / "link").symlink_to(mine / "cache")
    (mine / "link").symlink_to("../shared/link")
    chosen = {
        "folder": shared / "folder",
        "folder below": shared / "folder" / "a" / "b",
        "link": shared / "link",
        "link below": shared / "link" / "a" / "b",
        "link to a link": mine / "link",
    }[way]
    assert private_folder(chosen) == chosen
    shared.chmod(0o777)
    with pytest.raises(
        CourseError,
        match=(
            r"is reached through .*/shared/(folder|link), which every user .+ set COURSE_CACHE to"
        ),
    ):
        private_folder(chosen)
    shared.chmod(0o1777)  # as /tmp: each user's own stays
    assert private_folder(chosen) == chosen


def test_in_a_sticky_folder_what_belongs_to_another_user_is_refused(monkeypatch, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: only it can give a link to another user")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "shared" / "link").symlink_to(tmp_path / "cache")
    assert private_folder(tmp_path / "shared" / "link")
    os.chown(tmp_path / "shared" / "link", 12345, 12345, follow_symlinks=False)
    with pytest.raises(CourseError, match="which every user of this machine can replace"):
        private_folder(tmp_path / "shared" / "link")


@pytest.mark.parametrize("cache", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_says_why_and_what_to_set(tmp_path, cache):
    (tmp_path / "file").touch()
    with pytest.raises(
        CourseError,
        match=r"cannot be made \(.+\): set COURSE_CACHE to a folder that you can write\.$",
    ):
        private_folder(tmp_path / cache)


@pytest.mark.skipif(
    os.geteuid() == 0, reason="needs another user than root: permissions do not bind it"
)
def test_a_parent_that_cannot_be_written_says_why_and_what_to_set(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(
        CourseError, match=r"cannot be made \(Permission denied\): set COURSE_CACHE"
    ):
        private_folder(tmp_path / "cache")
