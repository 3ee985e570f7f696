"""The spawner and the board, with a stand-in for the parts of JupyterHub that they build on."""

import asyncio
import importlib
import sys
import threading
from types import ModuleType

import pytest

from hub import gpu, seat_user, start
from hub.settings import VARIABLE, Settings


class Local:
    """A spawner whose server is a flag."""

    def __init__(self):
        self.running, self.launched = False, asyncio.Event()
        self.launched.set()

    async def start(self):
        await self.launched.wait()
        self.running = True
        return "127.0.0.1", 8001

    async def poll(self):
        return None if self.running else 0

    async def stop(self, now=False):
        self.running = False


class User:
    name = "seat-01"


STAND_INS = {
    "jupyterhub": {},
    "jupyterhub.spawner": {"LocalProcessSpawner": Local},
    "jupyterhub.services": {},
    "jupyterhub.services.auth": {
        "HubOAuthenticated": type("Authenticated", (), {}),
        "HubOAuthCallbackHandler": object,
    },
    "jupyterhub.utils": {"url_path_join": "/".join},
}


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Import a module of the hub's in a room of one seat that runs as this user."""
    settings = Settings(tmp_path / "room", seats=1, python=sys.executable, apart=False)
    start.prepare(settings)
    monkeypatch.setenv(VARIABLE, str(settings.folder))
    for name, content in STAND_INS.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)

    def bring(name):
        monkeypatch.delitem(sys.modules, f"hub.{name}", raising=False)
        module = importlib.import_module(f"hub.{name}")
        monkeypatch.delitem(sys.modules, module.__name__)  # with the stand-ins it goes again
        return module

    return bring


@pytest.fixture
def spawner(imported, monkeypatch):
    """Make a spawner of a host without control groups, in a loop that runs."""
    module = imported("spawner")
    monkeypatch.setattr(module.GROUPS, "why_not", "none here")

    def make():
        made = module.SeatSpawner()
        made.user = User
        return made

    return make


class Ending:
    """In place of `seat_user.end_all`: takes until it is let go."""

    def __init__(self, monkeypatch):
        self.calls, self.begun, self.may_end = 0, threading.Event(), threading.Event()
        monkeypatch.setattr(seat_user, "end_all", self)

    def __call__(self, settings, name):
        self.calls += 1
        self.begun.set()
        assert self.may_end.wait(60)


def test_a_server_does_not_start_while_what_is_left_of_the_last_one_is_ended(spawner, monkeypatch):
    ending = Ending(monkeypatch)

    async def room():
        seat = spawner()
        polled = asyncio.create_task(seat.poll())
        await asyncio.to_thread(ending.begun.wait, 60)
        started = asyncio.create_task(seat.start())
        for _ in range(20):
            await asyncio.sleep(0)
        while_ending = seat.running
        ending.may_end.set()
        await asyncio.gather(polled, started)
        return while_ending, seat.running

    assert asyncio.run(room()) == (False, True)


def test_a_look_at_a_server_that_is_starting_ends_nothing(spawner, monkeypatch):
    ending = Ending(monkeypatch)
    ending.may_end.set()

    async def room():
        seat = spawner()
        seat.launched.clear()
        started = asyncio.create_task(seat.start())
        await asyncio.sleep(0)
        polled = asyncio.create_task(seat.poll())
        for _ in range(20):
            await asyncio.sleep(0)
        seat.launched.set()
        await started
        return await polled

    assert asyncio.run(room()) is None
    assert ending.calls == 0


def test_what_is_left_of_a_server_is_ended_with_it(spawner, monkeypatch):
    ending = Ending(monkeypatch)
    ending.may_end.set()

    async def room():
        seat = spawner()
        await seat.start()
        await seat.stop()

    asyncio.run(room())
    assert ending.calls == 1


def test_the_board_answers_while_processes_without_a_server_are_looked_for(imported, monkeypatch):
    board, threads = imported("board"), []

    async def serving():
        return {"seat-01"}

    def look(settings, serve):
        threads.append((threading.current_thread(), serve))

    monkeypatch.setattr(board, "seats_that_serve", serving)
    monkeypatch.setattr(gpu, "end_orphans", look)
    asyncio.run(board.end_orphans(None))
    ((thread, serve),) = threads
    assert thread is not threading.main_thread() and serve == {"seat-01"}
