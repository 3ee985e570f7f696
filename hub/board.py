"""The leader's board: what the room has solved, where it is stuck, who uses the GPU.

A service of the hub, for the leader alone. It reads what the seats' checks have written down;
nothing of a learner's code is among that, and nothing leaves the host.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import msgspec
from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from jupyterhub.utils import url_path_join
from tornado import escape, httpclient, ioloop, web

from course.gpus.turn import queue
from course.workshop.room import Known, standing

from . import cgroups, gpu
from .settings import LEADER, VARIABLE, Settings, read

HERE = Path(__file__).parent
POLICY = "default-src 'self'; frame-ancestors 'none'"
ORPHANS_MS = 30_000


class Handler(HubOAuthenticated, web.RequestHandler):
    """Answers the leader alone, whatever else the hub would let in."""

    @property
    def settings_(self) -> Settings:
        settings: Settings = self.application.settings["workshop"]
        return settings

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
        if not pid.isdigit() or not gpu.end(self.settings_, seat, int(pid)):
            raise web.HTTPError(400, "There is no such process of that seat.")
        self.write("{}")


async def look(settings: Settings) -> dict[str, Any]:
    """All that the board shows."""
    serving = await seats_that_serve()
    works = {name: settings.home(name) / "work" for name in settings.names}
    groups = cgroups.Groups(settings.room)
    exercises = msgspec.json.decode(settings.exercises_file.read_bytes(), type=dict[str, Known])
    uses = await ioloop.IOLoop.current().run_in_executor(None, gpu.uses, settings, serving)
    tickets = [vars(ticket) | {"path": ""} for ticket in queue(settings.queue_folder)]
    return {
        "room": asdict(standing(works, exercises)),
        "serving": sorted(serving),
        "queue": tickets,
        "gpu": [vars(use) for use in uses],
        "short_of_memory": {
            name: killed for name in sorted(serving) if (killed := groups.killed(name))
        },
    }


async def seats_that_serve() -> set[str]:
    """The seats whose server runs, as the hub has it."""
    request = httpclient.HTTPRequest(
        url_path_join(os.environ["JUPYTERHUB_API_URL"], "users"),
        headers={"Authorization": f"token {os.environ['JUPYTERHUB_API_TOKEN']}"},
    )
    answer = await httpclient.AsyncHTTPClient().fetch(request)
    return {user["name"] for user in json.loads(answer.body) if user.get("servers")}


async def end_orphans(settings: Settings) -> None:
    serving = await seats_that_serve()
    # NVIDIA's tool may take seconds, in which the board must answer.
    await ioloop.IOLoop.current().run_in_executor(None, gpu.end_orphans, settings, serving)


def main() -> None:
    settings = read(Path(os.environ[VARIABLE]))
    prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    routes = [
        (prefix, Page),
        (url_path_join(prefix, "oauth_callback"), HubOAuthCallbackHandler),
        (url_path_join(prefix, "data"), Data),
        (url_path_join(prefix, "end"), End),
        # The page's script and style, which tell nothing of the room.
        (url_path_join(prefix, r"(board\.js|board\.css)"), web.StaticFileHandler, {"path": HERE}),
    ]
    application = web.Application(
        routes, cookie_secret=os.urandom(32), xsrf_cookies=True, workshop=settings
    )
    url = urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    application.listen(url.port or settings.port + 3, "127.0.0.1")
    ioloop.PeriodicCallback(lambda: end_orphans(settings), ORPHANS_MS).start()
    ioloop.IOLoop.current().start()


if __name__ == "__main__":
    main()
