"""Seats of one account: servers as processes of whoever starts the room, with nothing between them.

For a small group that trusts one another, on a host where nobody is root.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from course.errors import CourseError
from course.lessons.lab import fits_sockets

from . import ROOT, tools
from .settings import LEADER, MOST_SEATS, Settings

ENTRYPOINT = ROOT / "hub" / "seat" / "entrypoint.py"


def refuse_long(settings: Settings) -> None:
    """Raise CourseError where the sockets of sessions would have longer paths than the system
    takes."""
    if not fits_sockets(settings.home(f"seat-{MOST_SEATS}") / ".run"):
        raise CourseError(
            f"The path {settings.folder} is too long for the sockets of sessions: name a shorter"
            " one with --folder."
        )


def prepare(settings: Settings) -> None:
    """Make the seats' folders, and let servers start sessions in the course's own environment."""
    for name in (LEADER, *settings.names):
        settings.home(name).mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = settings.folder / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    command = [settings.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    # No debugger: its port would be open to everybody on this host.
    spec = {"argv": command, "display_name": "Python 3 (ipykernel)", "language": "python",
            "metadata": {"debugger": False}}  # fmt: skip
    (folder / "kernel.json").write_text(json.dumps(spec))


def environment(settings: Settings, name: str) -> dict[str, str]:
    """What a seat's processes are told beside what all seats are."""
    home, course = settings.home(name), Path(settings.python).parent
    return {
        "HOME": str(home),
        "COURSE_HOME": str(home),
        "COURSE_DATA": "",  # progress is kept beside the lessons
        "COURSE_SEAT": name,
        "COURSE_GPU_QUEUE": str(settings.queue_folder),
        "PATH": f"{course}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(ROOT),
        "JUPYTER_PATH": f"{settings.folder}/jupyter{os.pathsep}{course.parent}/share/jupyter",
        "JUPYTER_RUNTIME_DIR": str(home / ".run"),
    }


def variable(settings: Settings, variable_name: str, spawner: Any) -> str:
    """The value of an environment variable, for the seat of a spawner."""
    return environment(settings, spawner.user.name)[variable_name]


def spawner_settings(settings: Settings) -> dict[str, Any]:
    """What JupyterHub's spawner of plain processes is told of every seat."""
    # -P: a learner's own json.py in the folder must not be taken for Python's.
    server = [str(tools.PYTHON), "-P", "-m", "jupyterhub.singleuser"]
    return {
        "cmd": [settings.python, "-P", str(ENTRYPOINT), *server],
        "home_dir_template": f"{settings.folder}/seats/{{username}}",
        "notebook_dir": f"{settings.folder}/seats/{{username}}",
        "env_keep": ["LANG", "LC_ALL", "LD_LIBRARY_PATH"],
        "args": ["--KernelManager.transport=ipc", "--KernelSpecManager.ensure_native_kernel=False"],
    }


def opened(settings: Settings, name: str, limit_s: float) -> str:
    """What a seat says when its lessons are brought up to date."""
    environ = {**os.environ, "COURSE_MODE": "cpu", **environment(settings, name)}
    try:
        ended = subprocess.run(
            [settings.python, "-P", str(ENTRYPOINT)], cwd=settings.home(name), env=environ,
            capture_output=True, text=True, errors="replace", timeout=limit_s,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout
