"""The environment that serves a room, apart from the course's: build/hub.

Made as `course/bootstrap.py` makes .venv, by its functions, from requirements-workshop.lock; the
proxy by npm, from hub/proxy/package-lock.json. Once it is made, nothing is asked of the
network.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from course import bootstrap
from course.errors import CourseError

from . import BUILD, ROOT

VENV = BUILD / "venv"
PYTHON = VENV / "bin" / "python"
PROXY_FOLDER = BUILD / "proxy"
PROXY = PROXY_FOLDER / "node_modules" / ".bin" / "configurable-http-proxy"
LOCK = ROOT / "requirements-workshop.lock"
PROXY_LOCK = ROOT / "hub" / "proxy" / "package-lock.json"
MADE = BUILD / "made.json"
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
    try:
        made = json.loads(MADE.read_text())
    except (OSError, ValueError):
        return False
    return bool(made == _wanted() and os.access(PYTHON, os.X_OK) and PROXY.exists())


def make() -> None:
    """Make the tools anew. Raises CourseError where they cannot be made.

    What they are made from is written last: an interrupted call leaves none, and the next begins
    anew, out of the caches of uv and npm.
    """
    if problem := missing():
        raise CourseError(problem)
    bootstrap.VENV = str(VENV)
    bootstrap.say("Making build/hub")
    try:
        bootstrap.check([sys.executable, "-m", "venv", "--clear", str(VENV)])
        bootstrap.install_uv()
        bootstrap.check(bootstrap.uv("--no-deps", "-r", str(LOCK)), bootstrap.uv_settings())
    except bootstrap.Stop as stop:
        raise CourseError(str(stop).replace("requirements.lock", LOCK.name)) from stop
    _install_proxy()
    MADE.write_text(json.dumps(_wanted()))


def _install_proxy() -> None:
    bootstrap.say("Installing the proxy")
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


def _wanted() -> dict[str, str]:
    files: dict[str, Path] = {"lock": LOCK, "proxy": PROXY_LOCK}
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return {**hashes, "python": sys.version}
