"""Start the hub: `course workshop start`."""

import json
import os
import socket
import sys
import uuid
from pathlib import Path

import msgspec

from course.errors import CourseError
from course.isolate.limits import free_memory_bytes
from course.workshop.room import known_exercises

from . import ROOT, cgroups, seat_user, tools
from .settings import LEADER, VARIABLE, Settings, codes

LEAST_SEAT_BYTES = 2 * 2**30
"""With less, a check does not fit beside its session and server (hub/README.md)."""
MOST_SEAT_BYTES = 3 * 2**30
LONGEST_SOCKET = 107
"""Bytes of a path that the system takes for a socket."""
NOT_APART = (
    "Seats are NOT kept apart: all run as you, so a learner can read and end what another one"
    " has. Start as root (sudo) to keep them apart."
)


def start(settings: Settings) -> None:
    """Prepare everything, say what the leader needs, and become the hub.

    Raises CourseError where something is missing.
    """
    refuse_long(settings)
    for port in range(settings.port, settings.port + 4):
        refuse_taken(settings.address if port == settings.port else "127.0.0.1", port)
    if settings.apart:
        seat_user.refuse_accounts(settings)
    seat_user.refuse_unreadable(settings)
    if not tools.ready():
        tools.make()
    prepare(settings)
    seat_user.refuse_unreadable_tools(settings)
    for line in report(settings, codes(settings), cgroups.Groups(settings.room).why_not):
        print(line, flush=True)
    environ = {
        **os.environ,
        VARIABLE: str(settings.folder),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{tools.VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    os.chdir(settings.hub_folder)
    config = ROOT / "hub" / "jupyterhub_config.py"
    command = [str(tools.PYTHON), "-m", "jupyterhub", "-f", str(config)]
    os.execve(command[0], command, environ)


def refuse_long(settings: Settings) -> None:
    """Raise CourseError where the sockets of sessions would have longer paths than the system
    takes."""
    socket_name = f"kernel-{uuid.uuid4()}-ipc-5"
    if len(os.fsencode(settings.home("seat-400") / ".run" / socket_name)) > LONGEST_SOCKET:
        raise CourseError(
            f"The path {settings.folder} is too long for the sockets of sessions: name a shorter"
            " one with --folder."
        )


def refuse_taken(address: str, port: int) -> None:
    """Raise CourseError where something listens at this port."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, port))
        except OSError as error:
            raise CourseError(
                f"Port {port} of {address} cannot be used ({error.strerror}): take another with"
                " --port; the three after it are used too."
            ) from error


def prepare(settings: Settings) -> None:
    """Make the workshop's folder: settings, codes, and what the seats share."""
    refuse_prepared(settings)
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
        settings.folder.chmod(0o711)  # seats pass through it to their own folder
        settings.hub_folder.mkdir(mode=0o700, exist_ok=True)
        settings.queue_folder.mkdir(exist_ok=True)
        settings.queue_folder.chmod(0o1777)  # all write there, each to its own files
        write_kernel(settings)
        settings.write()
        settings.exercises_file.write_bytes(msgspec.json.encode(known_exercises()))
    except OSError as error:
        raise CourseError(
            f"The folder {settings.folder} cannot be used ({error.strerror}): name another one with"
            " --folder."
        ) from error


def refuse_prepared(settings: Settings) -> None:
    """Raise CourseError where somebody else made the folder, or a link in it, that root would
    follow."""
    inside = ("seats", "hub", "queue", "jupyter", "settings.json", "codes.json")
    for path in (settings.folder, *(settings.folder / name for name in inside)):
        if path.is_symlink() or (path.exists() and path.stat().st_uid != os.getuid()):
            raise CourseError(
                f"{path} is a link or belongs to another user: name another folder with --folder."
            )


def write_kernel(settings: Settings) -> None:
    """Let the learners' servers start sessions in the course's own environment."""
    folder = settings.jupyter_folder / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    command = [settings.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Python 3 (ipykernel)", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    for path in (settings.jupyter_folder, *settings.jupyter_folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def seat_bytes(seats: int) -> int:
    """The memory limit of a seat where the leader names none: an equal part of nine tenths of what
    is free, at least 2 and at most 3 GiB."""
    return max(LEAST_SEAT_BYTES, min(MOST_SEAT_BYTES, free_memory_bytes() * 9 // 10 // seats))


def report(settings: Settings, known: dict[str, str], why_no_limits: str) -> list[str]:
    """What the leader reads: the address, the codes, and what this host does not hold."""
    size = f"{settings.memory_bytes / 2**30:.1f} GiB and {settings.cores:g} core(s)"
    lines = [f"The room is at {settings.public_url}", ""]
    lines += [f"  {name:10} {code}" for name, code in known.items()]
    lines += ["", f"The board is at {settings.public_url}/services/board/, for {LEADER}."]
    if why_no_limits:
        lines.append(
            f"No seat is held to a limit, since {why_no_limits}: one learner can take the memory"
            " of all. Checks limit themselves."
        )
    else:
        lines.append(
            f"Each seat has {size}; what asks for more memory is ended, in that seat alone."
        )
    free = free_memory_bytes()
    if settings.seats * LEAST_SEAT_BYTES > free:
        fits = max(1, free // LEAST_SEAT_BYTES)
        lines.append(
            f"{free / 2**30:.0f} GiB are free: enough for {fits} seats with a check at the same"
            f" moment, and {settings.seats} may come."
        )
    if not settings.apart:
        lines.append(NOT_APART)
    if not settings.certificate:
        lines.append(
            "Codes and work cross the network unencrypted: --certificate and --key turn HTTPS on."
        )
    lines.append(f"Work is kept in {settings.folder}/seats. Ctrl-C ends the room and keeps it.")
    return lines


def codes_text(settings: Settings) -> str:
    """The codes again, one line per seat, to print and cut."""
    return "\n".join(
        f"{settings.public_url}    {name}    {code}" for name, code in codes(settings).items()
    )


def default_folder() -> Path:
    return Path("/srv/triton-workshop") if os.getuid() == 0 else ROOT / "build" / "room"


def learners_python() -> str:
    """The Python of the environment that this command runs in, by the name that has the course's
    packages: a link's target would not find them."""
    return os.path.join(sys.prefix, "bin", "python")
