"""The leader's board: what the room has solved, where it is stuck, who uses the GPU.

A service of the hub, for the leader alone. It reads what the seats' checks have written down;
nothing of a learner's code is among that, and nothing leaves the host.
"""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import msgspec
from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from jupyterhub.utils import url_path_join
from tornado import escape, httpclient, ioloop, web

from course.gpus.turn import queue

from . import engine, gpu
from .codes import new_code
from .room_progress import Known, standing
from .settings import LEADER, VARIABLE, Settings, read

HERE = Path(__file__).parent
HUB_S = 60
POLICY = "default-src 'self'; frame-ancestors 'none'"


class Handler(HubOAuthenticated, web.RequestHandler):
    """Answers the leader alone, whatever else the hub would let in."""

    @property
    def settings_(self) -> Settings:
        settings: Settings = self.application.settings["workshop"]
        return settings

    def seat(self) -> str:
        """The seat that a button is about."""
        seat = self.get_body_argument("seat")
        if seat not in self.settings_.names:
            raise web.HTTPError(400, "There is no such seat.")
        return seat

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> None:
        user = self.get_current_user()
        if user and user["name"] != LEADER:
            raise web.HTTPError(403, "The board is the leader's.")


class Page(Handler):
    @web.authenticated
    def get(self) -> None:
        page = (HERE / "board.html").read_text(encoding="utf-8")
        # The page sends it back with each request: no other page can.
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.write(page.replace("TOKEN", escape.xhtml_escape(self.xsrf_token)))


class Data(Handler):
    @web.authenticated
    async def get(self) -> None:
        self.set_header("Content-Type", "application/json")
        self.write(json.dumps(await look(self.settings_)))


class End(Handler):
    """The button: end a seat's process on the GPU."""

    @web.authenticated
    def post(self) -> None:
        seat, pid = self.get_body_argument("seat"), self.get_body_argument("pid")
        containers = engine.running(self.settings_)
        if not pid.isdigit() or not gpu.end(containers, seat, int(pid)):
            raise web.HTTPError(400, "There is no such process of that seat.")
        self.write("{}")


class Turn(Handler):
    """The button: take a ticket out of the GPU's queue, whoever holds it."""

    @web.authenticated
    def post(self) -> None:
        name = self.get_body_argument("ticket")
        if Path(name).name != name or not name.endswith(".json"):
            raise web.HTTPError(400, "That is no ticket.")
        path = self.settings_.queue_folder / name
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        self.write("{}")


class Restart(Handler):
    """The button: end a seat's server; its learner starts it again by reloading the page."""

    @web.authenticated
    async def post(self) -> None:
        await _ask_hub(f"users/{self.seat()}/server", method="DELETE")
        self.write("{}")


class Unlock(Handler):
    """The button: a new code for a seat whose code is lost, or known to somebody else."""

    @web.authenticated
    def post(self) -> None:
        seat = self.seat()
        self.write({"says": f"The code of {seat} is now {new_code(self.settings_, seat)}"})


async def look(settings: Settings) -> dict[str, Any]:
    """All that the board shows."""
    serving = await seats_that_serve() - {LEADER}
    works = {name: settings.home(name) / "work" for name in settings.names}
    exercises = msgspec.json.decode(settings.exercises_file.read_bytes(), type=dict[str, Known])
    plan = settings.lessons.split(",") if settings.lessons else []
    containers, uses = await _aside(_look_at_host, settings)
    tickets = [
        {**vars(ticket), "path": ticket.path.name, "who": settings.owner(ticket.path) or ticket.who}
        for ticket in queue(settings.queue_folder)
    ]
    return {
        "room": asdict(standing(works, exercises, plan)),
        "plan": plan,
        "serving": sorted(serving),
        "queue": tickets,
        "gpu": [vars(use) for use in uses],
        "short_of_memory": {name: each.killed for name, each in containers.items() if each.killed},
    }


def _look_at_host(settings: Settings) -> tuple[dict[str, engine.Running], list[gpu.Use]]:
    """What the engine and NVIDIA's tool say, which may take seconds."""
    if not settings.apart:
        return {}, []
    containers = engine.running(settings)
    return containers, gpu.uses(containers)


async def seats_that_serve() -> set[str]:
    """The seats whose server runs, as the hub has it."""
    users = json.loads(await _ask_hub("users"))
    return {user["name"] for user in users if user.get("servers")}


async def _ask_hub(path: str, method: str = "GET") -> bytes:
    request = httpclient.HTTPRequest(
        url_path_join(os.environ["JUPYTERHUB_API_URL"], path),
        headers={"Authorization": f"token {os.environ['JUPYTERHUB_API_TOKEN']}"},
        method=method,
        request_timeout=HUB_S,
    )
    answer = await httpclient.AsyncHTTPClient().fetch(request)
    return bytes(answer.body)


async def _aside(look: Callable[..., Any], *arguments: Any) -> Any:
    """Call what takes its time where the board goes on answering."""
    return await ioloop.IOLoop.current().run_in_executor(None, look, *arguments)


BUTTONS = {"end": End, "turn": Turn, "restart": Restart, "unlock": Unlock}


def main() -> None:
    settings = read(Path(os.environ[VARIABLE]))
    prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    routes = [
        (prefix, Page),
        (url_path_join(prefix, "oauth_callback"), HubOAuthCallbackHandler),
        (url_path_join(prefix, "data"), Data),
        *((url_path_join(prefix, name), handler) for name, handler in BUTTONS.items()),
        # The page's script and style, which tell nothing of the room.
        (url_path_join(prefix, r"(board\.js|board\.css)"), web.StaticFileHandler, {"path": HERE}),
    ]
    application = web.Application(
        routes, cookie_secret=os.urandom(32), xsrf_cookies=True, workshop=settings
    )
    url = urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    application.listen(url.port or settings.port + 3, "127.0.0.1")
    ioloop.IOLoop.current().start()


if __name__ == "__main__":
    main()
