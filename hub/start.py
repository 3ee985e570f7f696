"""Start the hub and stay with it until it ends: `course workshop start`."""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from course.errors import CourseError
from course.gpus.turn import MOST_BYTES
from course.isolate.available import free_memory_bytes

from . import ROOT, engine, one_account, tools
from .codes import codes
from .room_progress import known_exercises
from .settings import LEADER, LEAST_SEAT_BYTES, VARIABLE, Settings, read

WARNING = re.compile(
    r"\[[WEC] (?!.* (log|web):|.*(without SSL|pycurl|missing route|OAuth without|role overridden))"
)
"""A line of the hub's log that the leader sees at once: not what it says at every start."""
POLL_S = 0.3
MOST_TICKETS = 50
"""Of one seat, in the queue for the GPU: it has a few sessions."""
MOST_LOG_BYTES = 10**8
"""Of the hub's log; as much again is kept of what came before."""
ENDING_S = 60
ONE_ACCOUNT = (
    "All seats run as you, and are NOT kept apart: every learner can read, change and end what"
    " every other one has, and all that you can read on this host. Only for people who trust one"
    " another; with sudo and without --one-account each seat is a container."
)


def start(settings: Settings) -> None:
    """Prepare everything, say what the leader needs, and serve the room until it is ended.

    Raises CourseError where something is missing.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with contextlib.ExitStack() as room:
            make_folder(settings)
            lock = room.enter_context(only_one(settings))
            environ = prepare(settings, room)
            for line in report(settings, codes(settings)):
                print(line, flush=True)
            _serve(settings, environ, lock)
    except KeyboardInterrupt:
        print("The room is ended. The work is kept.")


def prepare(settings: Settings, room: contextlib.ExitStack) -> dict[str, str]:
    """Make all that the hub needs, to be taken away at the end of the room; the hub's environment.

    Raises CourseError where something is missing.
    """
    for port in range(settings.port, settings.port + 4):
        refuse_taken(settings.address if port == settings.port else "127.0.0.1", port)
    refuse_pair(settings)
    if not tools.ready():
        tools.make()
    environ = {
        **os.environ,
        VARIABLE: str(settings.folder),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{tools.VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    settings.write()
    settings.exercises_file.write_bytes(msgspec.json.encode(known_exercises()))
    if settings.apart:
        room.callback(engine.remove, settings)
        engine.prepare(settings)
        environ["DOCKER_HOST"] = room.enter_context(engine.listening(settings))
    else:
        one_account.refuse_long(settings)
        one_account.prepare(settings)
    return environ


def _serve(settings: Settings, environ: dict[str, str], lock: int) -> None:
    """Run the hub until it ends or this process is asked to. What it says goes to its log, and its
    warnings to the terminal. The room counts as running until the hub has ended too."""
    config = ROOT / "hub" / "jupyterhub_config.py"
    # Its own session: Ctrl-C is for this process. It ends with this one, even if that is killed.
    command = ["setpriv", "--pdeathsig", "TERM", str(tools.PYTHON), "-m", "jupyterhub", "-f"]
    with log_file(settings).open("a+") as log:
        log.seek(0, os.SEEK_END)
        hub = subprocess.Popen(
            [*command, str(config)], cwd=settings.hub_folder, env=environ, stdin=subprocess.DEVNULL,
            stdout=log.fileno(), stderr=subprocess.STDOUT, start_new_session=True, pass_fds=[lock],
        )  # fmt: skip
        with log_file(settings).open() as said:
            said.seek(0, os.SEEK_END)
            try:
                while hub.poll() is None:
                    time.sleep(POLL_S)
                    for line in said:
                        if WARNING.match(line):
                            print(line.rstrip(), flush=True)
                    if os.fstat(log.fileno()).st_size > MOST_LOG_BYTES:
                        turn_over(log_file(settings))
                        said.seek(0)
                    for seat in sweep(settings):
                        print(f"{seat} had filled the GPU's queue: what it put there is removed.")
            finally:
                hub.terminate()
                try:
                    hub.wait(ENDING_S)
                except subprocess.TimeoutExpired:
                    hub.kill()
    raise CourseError(f"The hub has ended by itself; {log_file(settings)} says why.")


def stop(settings: Settings) -> None:
    """End a room that runs, or what is left of one that was killed."""
    lock = settings.hub_folder / "lock"
    pid = lock.read_text().strip() if lock.exists() else ""
    with contextlib.suppress(CourseError), only_one(settings):
        pid = ""
    if pid:
        with contextlib.suppress(ProcessLookupError):  # killed, and its hub is about to end
            os.kill(int(pid), signal.SIGTERM)
    end = time.monotonic() + 2 * ENDING_S
    while True:
        try:
            with only_one(settings):
                if settings.apart:
                    engine.remove(settings)
                return
        except CourseError:
            if time.monotonic() > end:
                raise
        time.sleep(POLL_S)


@contextlib.contextmanager
def only_one(settings: Settings) -> Iterator[int]:
    """Keep a second room out of the folder as long as the block lasts, or a process that has this
    file open. Raises CourseError."""
    with (settings.hub_folder / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CourseError(
                f"A room runs in {settings.folder} already: `course workshop stop` ends it, and"
                " another room needs another --folder and --port."
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield lock.fileno()


def log_file(settings: Settings) -> Path:
    return settings.hub_folder / "hub.log"


def sweep(settings: Settings) -> list[str]:
    """Remove what a seat has put into the queue's folder, where it is more than sessions could
    have; those seats. What is there counts as the seat's own memory until then."""
    put: dict[str, list[Path]] = {}
    for entry in os.scandir(settings.queue_folder):
        put.setdefault(settings.owner(Path(entry)), []).append(Path(entry))
    full = [seat for seat, paths in put.items() if seat and _too_much(paths)]
    for path in (path for seat in full for path in put[seat]):
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return full


def _too_much(paths: list[Path]) -> bool:
    sizes = 0
    for path in paths:
        with contextlib.suppress(OSError):
            sizes += path.lstat().st_size
    return len(paths) > MOST_TICKETS or sizes > MOST_TICKETS * MOST_BYTES


def turn_over(log: Path) -> None:
    """Begin the log anew, and keep what was in it beside it: each request makes it longer, and a
    seat may ask without end."""
    shutil.copy(log, log.with_suffix(".before.log"))
    os.truncate(log, 0)


def refuse_taken(address: str, port: int) -> None:
    """Raise CourseError where something listens at this port, or the address is not this host's."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, port))
        except socket.gaierror as error:
            raise CourseError(
                f"--address {address}: this host has no such address ({error.strerror})."
            ) from error
        except OSError as error:
            raise CourseError(
                f"Port {port} of {address} cannot be used ({error.strerror}): take another with"
                " --port; the three after it are used too."
            ) from error


def refuse_pair(settings: Settings) -> None:
    """Raise CourseError where the certificate and the key are no pair."""
    if settings.certificate:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                settings.certificate, settings.key
            )
        except (OSError, ssl.SSLError) as error:
            raise CourseError(
                f"{settings.certificate} and {settings.key} are no certificate and its key"
                f" ({error})."
            ) from error


def make_folder(settings: Settings) -> None:
    """Make the workshop's folder. Raises CourseError where somebody else made it, or a link in it,
    that root would follow."""
    inside = ("seats", "disks", "hub", "queue", "jupyter", "settings.json", "codes.json")
    try:
        for path in (settings.folder, *(settings.folder / name for name in inside)):
            mine = path.parent.name in ("hub", "queue") or not path.exists()
            if path.is_symlink() or not (mine or path.stat().st_uid == os.getuid()):
                raise CourseError(
                    f"{path} is a link or belongs to another user: name another folder with"
                    " --folder."
                )
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.hub_folder.mkdir(mode=0o700, exist_ok=True)
        settings.queue_folder.mkdir(exist_ok=True)
    except OSError as error:
        raise CourseError(
            f"The folder {settings.folder} cannot be used ({error.strerror}): name another one with"
            " --folder."
        ) from error


def report(settings: Settings, known: dict[str, str]) -> list[str]:
    """What the leader reads: the address, the codes, and what this host does not hold."""
    lines = [f"The room is at {settings.public_url}", ""]
    lines += [f"  {name:10} {code}" for name, code in known.items()]
    lines += ["", f"The board is at {settings.public_url}/services/board/, for {LEADER}."]
    if settings.apart:
        disk = f", and a disk of {settings.disk_bytes / 2**30:.1f} GiB" * bool(settings.disk_bytes)
        lines.append(
            f"Each seat has {settings.memory_bytes / 2**30:.1f} GiB, {settings.cores:g} core(s)"
            f"{disk}; what asks for more is ended, in that seat alone."
        )
        if not settings.disk_bytes:
            lines.append("All seats write to one disk: one learner can fill it for all.")
    else:
        lines.append(ONE_ACCOUNT)
    free, needed = free_memory_bytes(), settings.seats * LEAST_SEAT_BYTES
    if needed > free:
        lines.append(
            f"{settings.seats} learners take up to {needed / 2**30:.0f} GiB, and"
            f" {free / 2**30:.0f} are free: enough for {max(1, free // LEAST_SEAT_BYTES)}."
        )
    if not settings.certificate:
        lines.append(
            "Codes and work cross the network unencrypted: --certificate and --key turn HTTPS on."
        )
    lines.append(f"What the hub says goes to {log_file(settings)}; its warnings stand here.")
    lines.append("Ctrl-C or `course workshop stop` ends the room and keeps the work.")
    return lines


def default_folder() -> Path:
    return Path("/srv/triton-workshop") if os.getuid() == 0 else ROOT / "build" / "room"


def learners_python() -> str:
    """The Python of the environment that this command runs in, by the name that has the course's
    packages: a link's target would not find them."""
    return os.path.join(sys.prefix, "bin", "python")


def opened(folder: Path) -> Settings:
    """The workshop of a folder, with its disks in place. Raises CourseError."""
    settings = read(folder.absolute())
    if settings.apart:
        for name in settings.names:
            engine.make_home(settings, name)
    return settings
