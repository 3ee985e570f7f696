"""A seat's own user: a number that no account of the host has, and what belongs to it."""

import contextlib
import grp
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from course.errors import CourseError

from . import tools
from .settings import FIRST_USER, LEADER, Settings

KILL_S = 10
START_S = 120
"""For Python and its first imports, from a slow disk."""


def become(user: int, home: Path) -> None:
    """Make this process the user's, for good. Called between fork and exec."""
    os.umask(0o077)
    if user != os.getuid():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    os.chdir(home)


def make_home(settings: Settings, name: str) -> Path:
    """A seat's folder, which its user alone can open."""
    home, user = settings.home(name), settings.user(name)
    home.parent.mkdir(mode=0o711, exist_ok=True)
    home.parent.chmod(0o711)  # whatever the umask was
    home.mkdir(mode=0o700, exist_ok=True)
    opened = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)  # not a link
    try:
        if settings.apart:
            os.fchown(opened, user, user)
        os.fchmod(opened, 0o700)
    finally:
        os.close(opened)
    return home


def environment(settings: Settings, name: str) -> dict[str, str]:
    """What a seat's processes are told, beside PATH and the language."""
    home = settings.home(name)
    return {
        "HOME": str(home),
        "USER": name,
        "LOGNAME": name,
        "SHELL": "/bin/bash",
        "COURSE_HOME": str(home),
        "COURSE_SEAT": name,
        "COURSE_SEATS": str(settings.seats),
        "COURSE_GPU_QUEUE": str(settings.queue_folder),
        "OMP_NUM_THREADS": str(max(1, round(settings.cores))),
    }


def refuse_accounts(settings: Settings) -> None:
    """Raise CourseError where an account or a group of the host has the number of a seat.

    Each number is asked for by itself: a directory service may answer that and list nobody.
    """
    asked = (("account", pwd.getpwuid, "pw_name"), ("group", grp.getgrgid, "gr_name"))
    for number in range(FIRST_USER, FIRST_USER + settings.seats + 1):
        for what, find, name in asked:
            with contextlib.suppress(KeyError):
                raise CourseError(
                    f"The {what} {getattr(find(number), name)} has the id {number}, which would be"
                    f" a seat's: change that {what}'s id, or lead the workshop from another host."
                )


def refuse_unreadable(settings: Settings) -> None:
    """Raise CourseError where a seat could not start the course's Python."""
    code = "import course.lessons.workspace, jupyter_client"
    environ = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    if problem := _problem(settings, [settings.python, "-c", code], Path("/"), environ):
        raise CourseError(
            f"The seats cannot use {settings.python} ({problem}): put the course and its Python"
            " where every user can read them, such as /opt/triton-course, and not in a home."
        )


def refuse_unreadable_tools(settings: Settings) -> None:
    """Raise CourseError where a seat could not start its server in its own folder.

    Called once the folder is prepared and the tools are made.
    """
    home, python = make_home(settings, LEADER), str(tools.PYTHON)
    command = [python, "-P", "-c", "import jupyterhub.singleuser"]
    if problem := _problem(settings, command, home, environment(settings, LEADER)):
        raise CourseError(
            f"The seats cannot start {python} in {home} ({problem}): put the course, and the"
            " workshop's folder (--folder), where every user can read them, and not in a home."
        )


def run_as(
    settings: Settings, name: str, command: list[str], folder: Path, environ: dict[str, str],
    limit_s: float,
) -> "subprocess.CompletedProcess[str]":  # fmt: skip
    """Run a command as a seat's user. Raises OSError and subprocess.TimeoutExpired."""
    as_seat: dict[str, Any] = {}
    if settings.apart:
        user = settings.user(name)
        as_seat = {"user": user, "group": user, "extra_groups": [], "umask": 0o077}
    environ = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, encoding="utf-8", errors="replace",
        timeout=limit_s, **as_seat,
    )  # fmt: skip


def _problem(settings: Settings, command: list[str], folder: Path, environ: dict[str, str]) -> str:
    """Why a command fails as a seat's user, in its last words; empty if it does not."""
    try:
        ended = run_as(settings, LEADER, command, folder, environ, START_S)
    except subprocess.TimeoutExpired:
        return f"it does not answer within {START_S} s"
    except OSError as error:
        return str(error)
    if not ended.returncode:
        return ""
    said = ended.stderr.strip().splitlines()
    return said[-1] if said else f"it ended with {ended.returncode} and said nothing"


def processes(user: int) -> list[int]:
    """The processes of a user."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == user and not _is_zombie(entry):
                    pids.append(int(entry.name))
    return pids


def end_all(settings: Settings, name: str) -> None:
    """End every process of a seat's own user; none where seats share the leader's."""
    if not settings.apart:
        return
    end = time.monotonic() + KILL_S
    while (pids := processes(settings.user(name))) and time.monotonic() < end:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _is_zombie(entry: Path) -> bool:
    """Whether a process has ended and only waits to be asked for its exit code."""
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
