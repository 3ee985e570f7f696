"""Where an installed course's `import kernels` looks."""

import pytest

from course import places


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """An installed course, and a reader's folder with kernels/."""
    (tmp_path / "content").mkdir()
    monkeypatch.setattr(places, "PACKED", tmp_path / "content")
    (tmp_path / "mine" / "kernels").mkdir(parents=True)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "mine"))
    return tmp_path


def test_in_the_readers_folder_it_comes_first_and_once(packed, monkeypatch):
    mine = str(packed / "mine")
    monkeypatch.chdir(mine)
    path = ["/elsewhere", mine]
    for _ in range(2):
        places.lets_import_kernels(path)
        assert path == [mine, "/elsewhere"]


def test_elsewhere_the_courses_own_comes_last_and_once(packed, monkeypatch):
    monkeypatch.chdir(packed)
    path = ["/elsewhere"]
    for _ in range(2):
        places.lets_import_kernels(path)
        assert path == ["/elsewhere", str(packed / "content")]
