"""The load run's own manners: what it refuses, where it asks, and that it leaves nothing behind."""

import asyncio
import sys
from dataclasses import replace

import pytest

from course.errors import CourseError
from hub import load, start
from hub.learner import Learner
from hub.settings import Settings


@pytest.fixture
def settings(tmp_path):
    settings = Settings(tmp_path / "room", seats=2, python=sys.executable, apart=False)
    start.make_folder(settings)
    return settings


@pytest.mark.parametrize(
    "address, url",
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("10.0.0.7", "http://10.0.0.7:8000"),
        ("::", "http://[::1]:8000"),
    ],
)
def test_the_room_is_asked_at_its_own_address(settings, address, url):
    assert replace(settings, address=address).own_url == url


@pytest.mark.parametrize("error", [CourseError("a cell did not end"), asyncio.CancelledError()])
def test_servers_are_ended_whatever_goes_wrong(settings, monkeypatch, error):
    ended = []

    async def goes_wrong(*_):
        raise error

    async def end_server(learner):
        ended.append((learner.url, learner.name))
        raise CourseError("it was never started")

    monkeypatch.setattr(load, "_morning", goes_wrong)
    monkeypatch.setattr(Learner, "end_server", end_server)
    with pytest.raises(type(error)):
        asyncio.run(load._load(replace(settings, address="10.0.0.7"), ["00"], {}))
    assert ended == [("http://10.0.0.7:8000", "seat-01"), ("http://10.0.0.7:8000", "seat-02")]


def test_a_server_that_could_not_be_ended_is_left_over(settings, monkeypatch):
    async def nothing(*_):
        return []

    async def end_server(learner):
        if learner.name == "seat-02":
            raise CourseError("502 Bad Gateway")

    monkeypatch.setattr(load, "_morning", nothing)
    monkeypatch.setattr(Learner, "end_server", end_server)
    outcome = asyncio.run(load._load(settings, ["00"], {}))
    assert outcome.left_over == ["seat-02: its server (502 Bad Gateway)"]
    assert not outcome.good
