"""A warm process that does one task at a time, each in a fork of its own. Started by `pool` alone.

It has PyTorch and Triton imported, so a task begins in milliseconds. The task runs in a fork: it
may crash, hang or fill the memory, and the next one finds nothing of that. The fork is killed with
all that it started. The worker ends when its parent does, when the parent hangs up, and when
nothing was asked of it for a while. Tasks and answers go over a socket, as `messages` has them.
"""

import contextlib
import functools
import gc
import importlib
import itertools
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

from .descendants import LIBC, Descendants
from .ended import Ended, How
from .huge_pages import COLLAPSE_AFTER, into_huge_pages
from .limits import POLL_S, Overrun, TaskLimits
from .messages import Reply, Task, call_packed, receive, send
from .preloaded import Preloaded, imported_since

MOST_OUTPUT_BYTES = 200_000
"""Kept of stdout and of stderr each; what comes after is read and dropped."""
MOST_VALUE_BYTES = 100_000_000
"""For what a task returns, packed."""
COLLECTED_AFTER = 20_000
"""New objects after which Python's collector looks at them. Its own number, 700, has a task that
compiles go through the compiler's objects again and again, which it mostly keeps."""
PR_SET_PDEATHSIG = 1

Streams = dict[str, bytearray]


def serve(control: socket.socket, idle_s: float) -> None:
    """Answer tasks until the parent hangs up or `idle_s` seconds pass without one."""
    control.settimeout(idle_s)
    tasks = control.makefile("rb")
    preloaded = Preloaded()
    for done in itertools.count(1):
        try:
            task = receive(tasks, Task)
        except TimeoutError:
            return
        if task is None or preloaded.is_stale(task.environ):
            return  # the parent starts another worker
        _prepare(task.function)
        environ = dict(task.environ)
        with _own_folder(task.environ):
            reply, imported = _run(task, control)
        if reply is None:
            return
        send(control, reply)
        preloaded.load(imported, environ, task.path)
        if done == COLLAPSE_AFTER:
            into_huge_pages()


@contextlib.contextmanager
def _own_folder(environ: dict[str, str]) -> Iterator[None]:
    """Give a task a temporary folder of its own, and remove it: a task that is killed cannot do so
    itself."""
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


@functools.cache
def _prepare(name: str) -> None:
    """Do once, and not in each fork, what a function needs: import its module, and what it
    prepares."""
    with contextlib.suppress(Exception):  # what fails fails again in the fork, which reports it
        prepare = getattr(_function(name), "prepare", None)
        if prepare is not None:
            prepare()


def _function(name: str) -> Any:
    module, _, qualified = name.partition(":")
    return getattr(importlib.import_module(module), qualified)


def _run(task: Task, control: socket.socket) -> tuple[Reply | None, list[str]]:
    """Do the task in a fork: its answer, and the modules that it has imported and the worker may.

    The reply is None if the parent has hung up meanwhile.
    """
    pipes = {name: os.pipe() for name in ("stdout", "stderr", "value")}
    stamp = secrets.token_hex(16).encode()
    descendants = Descendants()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(control.fileno())  # what the task writes must not look like an answer from here
        for read_end, _ in pipes.values():
            os.close(read_end)
        _do(task, {name: write_end for name, (_, write_end) in pipes.items()}, stamp)
    for _, write_end in pipes.values():
        os.close(write_end)
    streams: Streams = {name: bytearray() for name in pipes}
    readers = {read_end: name for name, (read_end, _) in pipes.items()}
    ended = os.pidfd_open(pid)
    try:
        stop = _watch(ended, control, readers, streams, TaskLimits(task, descendants, start))
    except HungUpError:
        return None, []
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
                while _take(read_end, streams[name], name):
                    pass
            os.close(read_end)
        os.close(ended)
    code = os.waitstatus_to_exitcode(status)
    # Between two stamps: what else was written to this pipe is not from `_do`.
    value, end, imported = streams["value"].partition(stamp)[2].partition(stamp)
    whole = bool(end) and code == 0 and stop is None
    by_itself: How = "finished" if whole else "crashed" if code < 0 else "failed"
    how, stopped, starved = stop or Overrun(by_itself, "")
    out, err = (streams[name].decode(errors="replace") for name in ("stdout", "stderr"))
    seconds = time.monotonic() - start
    task_ended = Ended[None](how, code, out, err, seconds, stopped=stopped, starved=starved)
    if not whole:
        return Reply(task_ended, b""), []
    return Reply(task_ended, bytes(value)), imported.decode(errors="replace").split()


class HungUpError(Exception):
    """The parent is there no more."""


def _watch(
    ended: int,
    control: socket.socket,
    readers: dict[int, str],
    streams: Streams,
    limits: TaskLimits,
) -> Overrun | None:
    """Read what the task writes until it ends; why it must be killed, or None if it ended by
    itself.

    Raises HungUpError if the parent has hung up.
    """
    with selectors.DefaultSelector() as selector:
        for watched in (ended, control.fileno(), *readers):
            selector.register(watched, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(POLL_S):
                if key.fd == ended:
                    return None
                if key.fd == control.fileno():
                    raise HungUpError  # nobody sends a second task before the answer to the first
                if not _take(key.fd, streams[readers[key.fd]], readers[key.fd]):
                    selector.unregister(key.fd)
            if stop := limits.over():
                return stop


def _take(read_end: int, into: bytearray, name: str) -> bool:
    """Read once; False at the end of the stream."""
    chunk = os.read(read_end, 65536)
    most = MOST_VALUE_BYTES + 65536 if name == "value" else MOST_OUTPUT_BYTES
    into += chunk[: max(0, most - len(into))]
    return bool(chunk)


def _do(task: Task, pipes: dict[str, int], stamp: bytes) -> None:
    """In the fork: call the function, write what comes of it between two stamps and what it has
    imported behind them, and exit."""
    code, own = 1, os.getpid()
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(pipes["stdout"], 1)
        os.dup2(pipes["stderr"], 2)
        os.environ.clear()
        os.environ.update(task.environ)
        tempfile.tempdir = None  # TMPDIR may be another one now
        os.chdir(task.folder)
        sys.path[:] = task.path
        before = len(sys.modules)
        function = _function(task.function)
        outcome = call_packed(getattr(function, "here", function), task.arguments)
        if len(outcome) > MOST_VALUE_BYTES:
            megabytes = f"{len(outcome) / 1e6:,.0f} MB, and {MOST_VALUE_BYTES / 1e6:,.0f} MB"
            raise ValueError(f"it returns {megabytes} can come back")
        if os.getpid() == own:  # forks of the task may return as well
            with os.fdopen(pipes["value"], "wb") as stream:
                stream.write(stamp + outcome + stamp)
                stream.write(" ".join(imported_since(before)).encode())
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
    # What takes seconds, once; course picks the mode before Triton is read. What is imported stays,
    # so the collector need not look through it again and again, here or in a fork.
    gc.disable()
    for module in ("course", "torch", "triton"):
        importlib.import_module(module)
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    gc.enable()

    # Until here it ends at once when it is told to; from here on it ends its task first, when the
    # parent hangs up.
    signal.signal(signal.SIGTERM, lambda *_: None)
    serve(socket.socket(fileno=int(sys.argv[1])), idle_s=float(sys.argv[2]))
    os._exit(0)  # to take PyTorch apart, module by module, takes a second
