"""One GPU for a room: a queue in which sessions take turns to measure.

A session waits with a ticket, a file in a folder that all sessions share (COURSE_GPU_QUEUE). It
keeps its ticket locked as long as it lives, so a session that died is passed over at once. The
oldest ticket that is still locked is the one that measures. Without a shared folder nobody waits.
"""

import contextlib
import fcntl
import getpass
import json
import os
import pwd
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from course.errors import CourseError

from .crowded_gpu import memory_notice

POLL_S = 0.2
LONGEST_S = 24 * 3600
"""Nobody has waited for longer: a file's time can be set."""
MOST_BYTES = 4096
"""A ticket is smaller; what is larger was not written by this module."""


@dataclass(frozen=True)
class Ticket:
    """A session in the queue."""

    path: Path
    who: str
    what: str
    """What it measures, as "softmax"."""
    since: float
    """When it asked or, for the first in the queue, when it began to measure: seconds as
    `time.time()` counts them."""


def queue_folder() -> Path | None:
    """The folder that the sessions of this host share, from COURSE_GPU_QUEUE; None where each
    session is alone."""
    folder = os.environ.get("COURSE_GPU_QUEUE")
    return Path(folder) if folder else None


@contextlib.contextmanager
def gpu_turn(what: str, say: Callable[[str], None] = print) -> Iterator[None]:
    """Wait until it is this session's turn to measure, and keep it until the end of the block.

    what: what is measured, for the others to read. say: told who measures, whenever that changes.
    Raises CourseError where the shared folder cannot be used.
    """
    folder = queue_folder()
    if folder is None:
        yield
        return
    try:
        ticket, lock = _take_ticket(folder, what)
    except OSError as error:
        raise CourseError(
            f"The queue for the GPU in {folder} cannot be used ({error.strerror}): ask who leads"
            " the workshop to start it again."
        ) from error
    try:
        if notice := memory_notice():
            say(notice)
        _wait(folder, ticket, lock, say)
        yield
    finally:
        with contextlib.suppress(OSError):
            ticket.unlink()
        os.close(lock)


def queue(folder: Path) -> list[Ticket]:
    """The sessions in the queue, the one that measures first."""
    tickets = [_read(path) for path in sorted(folder.glob("[0-9]*.json"))]
    return [ticket for ticket in tickets if ticket is not None]


def _take_ticket(folder: Path, what: str) -> tuple[Path, int]:
    """Join the queue at its end: the ticket, and its open file, which holds the lock.

    The system lets go of it when the session ends.
    """
    name = f"{time.time_ns():020}-{os.getuid()}-{os.getpid()}.json"
    hidden = folder / f".{name}"
    lock = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # before others can open it, and lock it themselves
        os.fchmod(lock, 0o644)  # everybody reads who measures, whatever the umask
        os.write(lock, json.dumps({"who": _name(), "what": what[:80]}).encode())
        hidden.rename(folder / name)  # it is in the queue only once it is locked
    except BaseException:
        os.close(lock)
        hidden.unlink(missing_ok=True)
        raise
    return folder / name, lock


def _wait(folder: Path, ticket: Path, lock: int, say: Callable[[str], None]) -> None:
    told = None
    while before := [other for other in queue(folder) if other.path.name < ticket.name]:
        first = before[0]
        if first.path != told:
            told = first.path
            others = len(before) - 1
            then = f", then {others} more, then you" if others else ", then it is your turn"
            for_s = max(0, time.time() - first.since)
            measures = f"{first.who} has measured {first.what} for {for_s:.0f} s"
            say(f"Waiting for the GPU: {measures}{then}.")
        time.sleep(POLL_S)
    os.utime(lock)  # when the turn began
    if told is not None:
        say("It is your turn.")


def _read(path: Path) -> Ticket | None:
    """A ticket whose session lives; None for one that was left behind, and for any other file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # somebody holds it
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            content = json.loads(os.read(descriptor, MOST_BYTES))
            status, now = os.fstat(descriptor), time.time()
            since = min(now, max(status.st_mtime, now - LONGEST_S))
            # The system knows whose a ticket is; what its owner says is shown as one line of text.
            who = _account(status.st_uid) or _printable(content["who"], 40)
            return Ticket(path, who, _printable(content["what"], 80), since)
    except OSError:
        pass  # no ticket
    finally:
        os.close(descriptor)
    return None


def _printable(text: object, most: int) -> str:
    return "".join(each for each in str(text) if each.isprintable())[:most]


def _account(user: int) -> str:
    """The name of another user's account, such as a seat's; empty for our own and where it has
    none."""
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(user).pw_name if user != os.getuid() else ""
    return ""


def _name() -> str:
    """The name of this session's seat, or of its user."""
    try:
        return os.environ.get("COURSE_SEAT") or getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
