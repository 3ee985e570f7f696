"""What serves a room, apart from the course's environment: build/hub.

The hub and the learners' servers are the set `hub` of uv.lock; the proxy is installed by npm,
from hub/proxy/package-lock.json. Once they are there, nothing is asked of the network.
"""

import shutil
import subprocess

from course.environments import Environment, Stop
from course.errors import CourseError

from . import BUILD, ROOT

ENVIRONMENT = Environment(("hub",))
VENV = ENVIRONMENT.folder
PYTHON = ENVIRONMENT.python
PROXY_FOLDER = BUILD / "proxy"
PROXY = PROXY_FOLDER / "node_modules" / ".bin" / "configurable-http-proxy"
PROXY_LOCK = ROOT / "hub" / "proxy" / "package-lock.json"
PROXY_MADE = PROXY_FOLDER / "made-from.json"
OLDEST_NODE = 18
INSTALL_S = 600


def missing() -> str:
    """What this host lacks of what the tools need, in a sentence; empty if nothing."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return (
                f"There is no {program} on PATH, which the proxy of the hub needs: install Node.js"
                f" {OLDEST_NODE} or newer (Debian, Ubuntu: apt-get install nodejs npm)."
            )
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    major = version.lstrip("v").split(".")[0]
    if not major.isdigit() or int(major) < OLDEST_NODE:
        return f"Node.js is {version or 'broken'}: the proxy needs {OLDEST_NODE} or newer."
    return ""


def ready() -> bool:
    """Whether the tools are whole, and made from the locks as they are now."""
    return ENVIRONMENT.is_made() and _has_proxy()


def _has_proxy() -> bool:
    return PROXY_MADE.is_file() and PROXY_MADE.read_bytes() == PROXY_LOCK.read_bytes()


def make() -> None:
    """Make what is missing of the tools. Raises CourseError where it cannot be made."""
    if problem := missing():
        raise CourseError(problem)
    try:
        if not ENVIRONMENT.is_made():
            ENVIRONMENT.make()
    except Stop as stop:
        raise CourseError(str(stop)) from stop
    if not _has_proxy():
        _install_proxy()


def _install_proxy() -> None:
    """Have npm install the proxy. What it is made from is written last: an interrupted call leaves
    none, and the next begins anew, out of npm's cache."""
    print("Installing the proxy", flush=True)
    shutil.rmtree(PROXY_FOLDER, ignore_errors=True)
    PROXY_FOLDER.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PROXY_LOCK.with_name(name), PROXY_FOLDER)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    ended = subprocess.run(
        command, cwd=PROXY_FOLDER, capture_output=True, text=True, timeout=INSTALL_S
    )
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["npm said nothing"])[-1]
        raise CourseError(
            f"The proxy could not be installed ({last}): check the network, or `npm config get"
            " registry`, then run this again."
        )
    shutil.copy(PROXY_LOCK, PROXY_MADE)
