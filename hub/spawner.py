"""Starts a seat's server: as the seat's own user, within its limits, in its own folder."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner

from . import ROOT, cgroups, seat_user, tools
from .settings import VARIABLE, read

SETTINGS = read(Path(os.environ[VARIABLE]))
GROUPS = cgroups.Groups(SETTINGS.room)


class SeatSpawner(LocalProcessSpawner):
    """One server per seat. When it has ended, nothing of the seat is left running."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What is left of a server that has ended is ended by the seat's user and group, which the
        # next server has too: so that one starts before or after, and never meanwhile.
        self._turn = asyncio.Lock()

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        course = Path(SETTINGS.python).parent
        env |= seat_user.environment(SETTINGS, self.user.name)
        env["PATH"] = f"{course}{os.pathsep}{env.get('PATH', os.defpath)}"
        env["PYTHONPATH"] = str(ROOT)
        env["JUPYTER_PATH"] = f"{SETTINGS.jupyter_folder}{os.pathsep}{course.parent}/share/jupyter"
        # Sockets of sessions lie here, where no other seat can open them. Their paths may be 107
        # bytes long at most.
        env["JUPYTER_RUNTIME_DIR"] = str(SETTINGS.home(self.user.name) / ".run")
        return env

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        user, home = SETTINGS.user(name), SETTINGS.home(name)

        def prepare() -> None:
            if not GROUPS.why_not:
                GROUPS.join(name)
            seat_user.become(user, home)

        return prepare

    async def start(self) -> tuple[str, int]:
        async with self._turn:
            return await self._start()

    async def _start(self) -> tuple[str, int]:
        seat_user.make_home(SETTINGS, self.user.name)
        if not GROUPS.why_not:
            GROUPS.create(self.user.name, SETTINGS.memory_bytes, SETTINGS.cores)
        # -P: a learner's own json.py in the folder must not be taken for Python's.
        server = [str(tools.PYTHON), "-P", "-m", "jupyterhub.singleuser"]
        self.cmd = [SETTINGS.python, "-P", "-m", "hub.open_seat", *server]
        address: tuple[str, int] = await super().start()
        return address

    async def stop(self, now: bool = False) -> None:
        await super().stop(now=now)
        async with self._turn:
            await self._end_all()

    async def poll(self) -> int | None:
        async with self._turn:
            status: int | None = await super().poll()
            if status is not None:
                await self._end_all()
            return status

    async def _end_all(self) -> None:
        """Sessions and what they started are processes of their own, and go with their server."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, seat_user.end_all, SETTINGS, self.user.name)
        if not GROUPS.why_not:
            await loop.run_in_executor(None, GROUPS.remove, self.user.name)
