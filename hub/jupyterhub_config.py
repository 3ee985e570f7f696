"""The hub's settings. `course workshop start` gives it to JupyterHub."""

import os
import sys
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer

from hub import ROOT, engine, one_account, tools
from hub.authenticator import CodeAuthenticator
from hub.settings import LEADER, MOST_SEATS, VARIABLE, read

settings = read(Path(os.environ[VARIABLE]))
c = get_config()  # type: ignore[name-defined]  # noqa: F821
MOST_BODY_BYTES = 10**6
WITH_THE_HUB = ["setpriv", "--pdeathsig", "TERM"]
"""Runs what must not outlive the hub, however that ends."""

# The hub holds each request whole before it looks at it, and so 100 MB from anybody.
limited = partialmethod(HTTPServer.initialize, max_body_size=MOST_BODY_BYTES)
setattr(HTTPServer, "initialize", limited)  # noqa: B010

c.JupyterHub.bind_url = settings.url
# Seats ask for it at this host's address in their network; the firewall keeps others from it.
here = "0.0.0.0" if settings.apart else "127.0.0.1"
c.JupyterHub.hub_bind_url = f"http://{here}:{settings.port + 1}"
c.JupyterHub.hub_connect_url = f"http://127.0.0.1:{settings.port + 1}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{settings.port + 2}"
c.ConfigurableHTTPProxy.command = [*WITH_THE_HUB, str(tools.PROXY)]
c.ConfigurableHTTPProxy.pid_file = str(settings.hub_folder / "proxy.pid")
c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = settings.certificate, settings.key
c.JupyterHub.db_url = f"sqlite:///{settings.hub_folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(settings.hub_folder / "cookie_secret")
c.JupyterHub.cleanup_servers = True  # nothing is left running when the leader ends the hub
# All come at nine. Whom a limit turns away must try again by hand, and to wait is less trouble.
c.JupyterHub.concurrent_spawn_limit = 0
c.JupyterHub.active_server_limit = settings.seats + 1
# The board asks for all users at once: one that it did not hear of would count as gone.
c.JupyterHub.api_page_default_limit = c.JupyterHub.api_page_max_limit = MOST_SEATS + 1
c.JupyterHub.template_paths = [str(ROOT / "hub" / "templates")]

c.JupyterHub.authenticator_class = CodeAuthenticator
c.Authenticator.allow_all = True  # everybody who knows a code

c.Spawner.default_url = "/lab/tree/work/00-your-first-kernel.ipynb"
c.Spawner.start_timeout = c.Spawner.http_timeout = 180  # forty may come at once
c.LocalProcessSpawner.interrupt_timeout = 1  # work is on the disk; what is asked for is the end
environment: dict[str, Any] = {
    "COURSE_SEATS": str(settings.seats),
    "OMP_NUM_THREADS": str(max(1, round(settings.cores))),
    **{name: os.environ[name] for name in ("COURSE_MODE",) if name in os.environ},
}


def before_start(spawner: Any) -> None:
    """Tell a seat's spawner what no template says: its network, and where the hub is in it."""
    name = spawner.user.name
    spawner.user_options = {}  # nothing is a learner's to choose, and a refused choice would stay
    spawner.network_name = settings.container(name)
    spawner.hub_connect_url = f"http://{settings.gateway(name)}:{settings.port + 1}"


if settings.apart:
    c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
    for name, value in engine.spawner_settings(settings).items():
        setattr(c.DockerSpawner, name, value)
    c.Spawner.pre_spawn_hook = before_start
    environment |= engine.ENVIRONMENT
else:
    c.JupyterHub.spawner_class = "simple"
    for name, value in one_account.spawner_settings(settings).items():
        setattr(c.Spawner, name, value)
    for name in one_account.environment(settings, LEADER):
        environment[name] = partial(one_account.variable, settings, name)
c.Spawner.environment = environment

culler = [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={settings.idle_s}"]
board = [sys.executable, "-m", "hub.board"]
c.JupyterHub.services = [
    {"name": "culler", "command": WITH_THE_HUB + culler},
    {
        "name": "board",
        "command": WITH_THE_HUB + board,
        "url": f"http://127.0.0.1:{settings.port + 3}",
        "environment": {VARIABLE: str(settings.folder), "PYTHONPATH": str(ROOT)},
        "oauth_no_confirm": True,
        "oauth_client_allowed_scopes": ["access:services!service=board"],
    },
]
c.JupyterHub.load_roles = [
    # A learner needs no tokens, and their notes would fill the hub's disk.
    {
        "name": "user",
        "scopes": ["access:servers!user", "servers!user", "read:users!user", "users:activity!user"],
    },
    {
        "name": "culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["culler"],
    },
    {
        "name": "board",
        "scopes": ["list:users", "read:servers", "delete:servers"],
        "services": ["board"],
    },
    # The leader sees the board, and no learner's server.
    {"name": "leader", "scopes": ["access:services!service=board"], "users": [LEADER]},
]
