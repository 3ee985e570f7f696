"""The environment with the site's tools, apart from the learner's: build/site-tools.

Made as `course/bootstrap.py` makes .venv, by its functions, from requirements-site.lock, with the
Python that asks first. Once it is made, nothing is asked of the network.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

from course import bootstrap

from . import BUILD, ROOT, SiteError

VENV = BUILD / "site-tools"
LOCK = ROOT / "requirements-site.lock"
MADE = VENV / "made.json"
PYTHON = VENV / "bin" / "python"


def ready() -> bool:
    """Whether the environment is whole, and made from the lock as it is now."""
    try:
        return json.loads(MADE.read_text()) == _wanted() and os.access(PYTHON, os.X_OK)
    except (OSError, ValueError):
        return False


def make() -> None:
    """Make the environment anew. Raises SiteError where it cannot be made.

    What it is made from is written last: an interrupted call leaves none, and the next one begins
    anew, out of uv's cache.
    """
    if not LOCK.is_file():
        raise SiteError(f"{LOCK.name} is missing: `git checkout {LOCK.name}` brings it back.")
    bootstrap.VENV = str(VENV)
    bootstrap.say("Making build/site-tools")
    try:
        bootstrap.check([sys.executable, "-m", "venv", "--clear", str(VENV)])
        bootstrap.install_uv()
        # Python compiles what it imports, which is a small part of it all.
        settings = bootstrap.uv_settings() | {"UV_COMPILE_BYTECODE": "0"}
        bootstrap.check(bootstrap.uv("--no-deps", "-r", str(LOCK)), settings)
    except bootstrap.Stop as stop:
        raise SiteError(str(stop).replace("requirements.lock", LOCK.name)) from stop
    MADE.write_text(json.dumps(_wanted()))


def _wanted() -> dict[str, str]:
    return {"lock": hashlib.sha256(LOCK.read_bytes()).hexdigest()}


def is_inside() -> bool:
    """Whether this Python is the environment's own."""
    return Path(sys.prefix).resolve() == VENV.resolve()
