"""The hub's settings. `course workshop start` gives it to JupyterHub."""

import os
import sys
from pathlib import Path

from hub import ROOT, tools
from hub.authenticator import CodeAuthenticator
from hub.settings import LEADER, MOST_SEATS, VARIABLE, read
from hub.spawner import SeatSpawner

settings = read(Path(os.environ[VARIABLE]))
c = get_config()  # type: ignore[name-defined]  # noqa: F821

c.JupyterHub.bind_url = settings.url
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{settings.port + 1}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{settings.port + 2}"
c.ConfigurableHTTPProxy.command = [str(tools.PROXY)]
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
c.Application.log_level = "WARN"

c.JupyterHub.authenticator_class = CodeAuthenticator
c.Authenticator.allow_all = True  # everybody who knows a code

c.JupyterHub.spawner_class = SeatSpawner
c.Spawner.default_url = "/lab/tree/work/00-your-first-kernel.ipynb"
c.Spawner.notebook_dir = str(settings.folder / "seats" / "{username}")
c.Spawner.start_timeout = 180  # forty may come at once
c.Spawner.http_timeout = 180
c.Spawner.interrupt_timeout = 3  # work is on the disk; what is asked for is the end
c.Spawner.env_keep = ["PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "COURSE_MODE"]
c.Spawner.args = [
    "--KernelManager.transport=ipc",
    "--KernelSpecManager.ensure_native_kernel=False",
    "--LabApp.extension_manager=readonly",
    f"--LabApp.app_settings_dir={ROOT / 'course' / 'lessons' / 'lab_settings'}",
    *(["--allow-root"] if not settings.apart and os.getuid() == 0 else []),
]

culler = [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={settings.idle_s}"]
board = [sys.executable, "-m", "hub.board"]
c.JupyterHub.services = [
    {"name": "culler", "command": culler},
    {
        "name": "board",
        "command": board,
        "url": f"http://127.0.0.1:{settings.port + 3}",
        "environment": {VARIABLE: str(settings.folder), "PYTHONPATH": str(ROOT)},
        "oauth_no_confirm": True,
        "oauth_client_allowed_scopes": ["access:services!service=board"],
    },
]
c.JupyterHub.load_roles = [
    {
        "name": "culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["culler"],
    },
    {"name": "board", "scopes": ["list:users", "read:servers"], "services": ["board"]},
    # The leader sees the board, and no learner's server.
    {"name": "leader", "scopes": ["access:services!service=board"], "users": [LEADER]},
]
