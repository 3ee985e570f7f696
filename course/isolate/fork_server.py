"""A warm process that does one task at a time, each in a fork of its own. Started by `course.isolate.pool` alone.

It has PyTorch and Triton imported, so a task begins in milliseconds; and since the task runs in a fork, it may crash,
hang or fill the memory, and the next one finds nothing of that. The fork is killed with all that it started. The worker
ends when its parent does, when the parent hangs up, and when nothing was asked of it for a while.

A request is one line of JSON over a socket; so is its answer, with the value after it, as the task has written it.
"""

import contextlib
import ctypes
import importlib
import json
import os
import secrets
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from .descendants import Descendants

MOST_OUTPUT_BYTES = 200_000
"""Of stdout and of stderr each; what comes after is read and dropped."""
MOST_VALUE_BYTES = 100_000_000
"""Of what a task returns, as JSON."""
MOST_PROCESSES = 512
"""A task that starts more is ended: looking after them would take too long."""
POLL_S = 0.05
PR_SET_PDEATHSIG = 1

Streams = dict[str, bytearray]
Json = dict[str, Any]


def serve(control: socket.socket, idle_s: float) -> None:
    """Answer requests until the parent hangs up or `idle_s` seconds pass without one."""
    control.settimeout(idle_s)
    requests = control.makefile("rb")
    while True:
        try:
            line = requests.readline()
        except TimeoutError:
            return
        if not line:
            return
        request = json.loads(line)
        _prepare(request["function"].partition(":")[0])
        with _own_folder(request["environ"]):
            answer = _run(request, control)
        if answer is None:
            return
        ended, value = answer
        control.sendall(json.dumps(ended | {"value_bytes": len(value)}).encode() + b"\n" + value)


@contextlib.contextmanager
def _own_folder(environ: dict[str, str]) -> Iterator[None]:
    """Give a task a temporary folder of its own, and remove it: a task that is killed cannot do so itself."""
    around = next((environ[name] for name in ("TMPDIR", "TEMP", "TMP") if environ.get(name)), None)
    try:
        folder = tempfile.TemporaryDirectory(
            prefix="course-task-", dir=around, ignore_cleanup_errors=True
        )
    except OSError:  # the task finds the same, and says what it could not write
        yield
        return
    with folder as environ["TMPDIR"]:
        yield


def _prepare(name: str) -> None:
    """Do once, and not in each fork, what a task's module needs: import it, and call its `prepare_worker`."""
    if name in sys.modules:
        return
    with contextlib.suppress(
        Exception
    ):  # what fails fails again in the fork, and is reported from there
        getattr(importlib.import_module(name), "prepare_worker", lambda: None)()


def _run(request: Json, control: socket.socket) -> tuple[Json, bytes] | None:
    """Do the task in a fork; None where the parent has hung up meanwhile."""
    pipes = {name: os.pipe() for name in ("stdout", "stderr", "value")}
    stamp = secrets.token_hex(16).encode()
    descendants = Descendants()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(
            control.fileno()
        )  # nothing that the task writes may look like an answer of this process
        for read_end, _ in pipes.values():
            os.close(read_end)
        _task(request, {name: write_end for name, (_, write_end) in pipes.items()}, stamp)
    for _, write_end in pipes.values():
        os.close(write_end)
    got: Streams = {name: bytearray() for name in pipes}
    readers = {read_end: name for name, (read_end, _) in pipes.items()}
    ended = os.pidfd_open(pid)
    over: Json | None = None
    try:
        over = _watch(ended, control, readers, got, _Limits(request, descendants, start))
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # all at once, since some may be starting others
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it may not lead its session yet
        status = os.waitpid(pid, 0)[1]
        descendants.kill()
        for read_end, name in readers.items():
            os.set_blocking(read_end, False)
            with contextlib.suppress(BlockingIOError):
                while _take(read_end, got[name], name):
                    pass
            os.close(read_end)
        os.close(ended)
    if over == HUNG_UP:
        return None
    code = os.waitstatus_to_exitcode(status)
    # Between two stamps: what else was written to this pipe is not from `_task`.
    value, finished, _ = got["value"].partition(stamp)[2].partition(stamp)
    whole = bool(finished) and code == 0 and over is None
    return {
        "how": "finished" if whole else "crashed" if code < 0 else "failed",
        "code": code,
        "stdout": got["stdout"].decode(errors="replace"),
        "stderr": got["stderr"].decode(errors="replace"),
        "seconds": time.monotonic() - start,
        **(over or {}),
    }, bytes(value) if whole else b"null"


HUNG_UP: Json = {"how": "hung up"}


class _Limits:
    """What a task may take. `over` is what the answer says of one that takes more."""

    def __init__(self, request: Json, descendants: Descendants, start: float) -> None:
        self.timeout_s, self.wall_s = request["timeout_s"], request["wall_s"]
        self.memory_bytes = request["memory_bytes"]
        self.descendants, self.start = descendants, start
        self.next_look = start

    def over(self) -> Json | None:
        looked = time.monotonic()
        if looked < self.next_look:
            return None
        found = self._look(looked - self.start)
        # Many processes take long to look at: most of the time is to be left to them.
        self.next_look = time.monotonic() + max(POLL_S, 4 * (time.monotonic() - looked))
        return found

    def _look(self, elapsed_s: float) -> Json | None:
        pids = self.descendants.pids()
        if len(pids) > MOST_PROCESSES:
            return {"how": "out of memory", "stopped": f"at {MOST_PROCESSES} processes"}
        # Watched here and not by a limit on address space, which CUDA exceeds from its start.
        if self.descendants.memory_bytes(pids, self.memory_bytes) > self.memory_bytes:
            return {
                "how": "out of memory",
                "stopped": f"at {self.memory_bytes / 2**30:.2g} GiB of memory",
            }
        # CPU time, so that a busy machine changes nothing. Threads that compute side by side count once.
        computed_s = min(self.descendants.computed_s(pids), elapsed_s)
        if computed_s >= self.timeout_s:
            return {"how": "out of time", "stopped": f"after {self.timeout_s:g} s of computing"}
        if elapsed_s >= self.wall_s:
            after = f"after {self.wall_s:g} s, in which it computed for {computed_s:.1f} s"
            return {"how": "out of time", "stopped": after, "starved": True}
        return None


def _watch(
    ended: int, control: socket.socket, readers: dict[int, str], got: Streams, limits: _Limits
) -> Json | None:
    """Read what the task writes until it ends; say why it must be killed, or None where it ended by itself."""
    with selectors.DefaultSelector() as selector:
        for watched in (ended, control.fileno(), *readers):
            selector.register(watched, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(POLL_S):
                if key.fd == ended:
                    return None
                if key.fd == control.fileno():
                    return HUNG_UP  # nobody sends a second request before the answer to the first
                if not _take(key.fd, got[readers[key.fd]], readers[key.fd]):
                    selector.unregister(key.fd)
            if over := limits.over():
                return over


def _take(read_end: int, into: bytearray, name: str) -> bool:
    """Read once; False at the end of the stream."""
    chunk = os.read(read_end, 65536)
    most = MOST_VALUE_BYTES + 65536 if name == "value" else MOST_OUTPUT_BYTES
    into += chunk[: max(0, most - len(into))]
    return bool(chunk)


def _task(request: Json, pipes: dict[str, int], stamp: bytes) -> None:
    """In the fork: call the function, write what it returns between two stamps, and exit."""
    code, own = 1, os.getpid()
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(pipes["stdout"], 1)
        os.dup2(pipes["stderr"], 2)
        os.environ.clear()
        os.environ.update(request["environ"])
        tempfile.tempdir = None  # TMPDIR may be another one now
        os.chdir(request["folder"])
        sys.path[:] = request["path"]
        module, _, name = request["function"].partition(":")
        value = json.dumps(
            getattr(importlib.import_module(module), name)(*request["args"])
        ).encode()
        if len(value) > MOST_VALUE_BYTES:
            raise ValueError(
                f"it returns {len(value) / 1e6:,.0f} MB, and {MOST_VALUE_BYTES / 1e6:,.0f} MB can come back"
            )
        if os.getpid() == own:  # forks of the task may return as well
            with os.fdopen(pipes["value"], "wb") as stream:
                stream.write(stamp + value + stamp)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    warnings.filterwarnings(
        "ignore", message=".*fork.*", category=DeprecationWarning
    )  # libraries' threads are idle
    for module in (
        "course",
        "torch",
        "triton",
    ):  # what takes seconds, once; course picks the mode before Triton is read
        importlib.import_module(module)

    # Until here it ends at once when it is told to; from here on it ends its task first, when the parent hangs up.
    signal.signal(signal.SIGTERM, lambda *_: None)
    serve(socket.socket(fileno=int(sys.argv[1])), idle_s=float(sys.argv[2]))
