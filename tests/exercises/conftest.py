"""Each test's learner is new."""

import pytest


@pytest.fixture(autouse=True)
def a_new_learner(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "data"))
