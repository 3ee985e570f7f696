"""A warm process that does one task at a time, each in a fork of its own. Started by `course.child` alone.

It has PyTorch and Triton imported, so a task begins in milliseconds; and since the task runs in a fork, it may crash,
hang or fill the memory, and the next one finds nothing of that. The fork leads a session of its own and is killed as a
whole. The worker ends when its parent does, when the parent hangs up, and when nothing was asked of it for a while.

A request and its answer are one line of JSON each, over a socket.
"""

import contextlib
import ctypes
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
from typing import Any

MOST_OUTPUT_BYTES = 200_000
"""Of stdout and of stderr each; what comes after is read and dropped."""
MEMORY_POLL_S = 0.05
PR_SET_PDEATHSIG = 1

Streams = dict[str, bytearray]


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
        answer = _run(request, control)
        if answer is None:
            return
        control.sendall(json.dumps(answer).encode() + b"\n")


def _prepare(name: str) -> None:
    """Do once, and not in each fork, what a task's module needs: import it, and call its `prepare_worker`."""
    if name in sys.modules:
        return
    with contextlib.suppress(Exception):  # what fails fails again in the fork, and is reported from there
        getattr(importlib.import_module(name), "prepare_worker", lambda: None)()


def _run(request: dict[str, Any], control: socket.socket) -> dict[str, Any] | None:
    """Do the task in a fork; None where the parent has hung up meanwhile."""
    pipes = {name: os.pipe() for name in ("stdout", "stderr", "value")}
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        for read_end, _ in pipes.values():
            os.close(read_end)
        _task(request, {name: write_end for name, (_, write_end) in pipes.items()})
    for _, write_end in pipes.values():
        os.close(write_end)
    got: Streams = {name: bytearray() for name in pipes}
    readers = {read_end: name for name, (read_end, _) in pipes.items()}
    ended = os.pidfd_open(pid)
    why = ""
    try:
        why = _watch(pid, ended, control, readers, got, start + request["timeout_s"], request["memory_bytes"])
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what the task started ends with it
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it may not lead its session yet
        status = os.waitpid(pid, 0)[1]
        for read_end, name in readers.items():
            os.set_blocking(read_end, False)
            with contextlib.suppress(BlockingIOError):
                while _take(read_end, got[name], name):
                    pass
            os.close(read_end)
        os.close(ended)
    if why == "hung up":
        return None
    code = os.waitstatus_to_exitcode(status)
    try:
        value, finished = json.loads(got["value"]), code == 0
    except ValueError:  # it left by exit(0), or a fork of its own has written too
        value, finished = None, False
    return {
        "how": why or ("finished" if finished else "crashed" if code < 0 else "failed"),
        "code": code,
        "stdout": got["stdout"].decode(errors="replace"),
        "stderr": got["stderr"].decode(errors="replace"),
        "seconds": time.monotonic() - start,
        "value": value if finished and not why else None,
    }


def _watch(
    pid: int, ended: int, control: socket.socket, readers: dict[int, str], got: Streams, deadline: float, memory_bytes: int
) -> str:
    """Read what the task writes until it ends; say why it must be killed, or nothing where it ended by itself."""
    with selectors.DefaultSelector() as selector:
        for watched in (ended, control.fileno(), *readers):
            selector.register(watched, selectors.EVENT_READ)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return "out of time"
            for key, _ in selector.select(min(left_s, MEMORY_POLL_S)):
                if key.fd == ended:
                    return ""
                if key.fd == control.fileno():
                    return "hung up"  # nobody sends a second request before the answer to the first
                if not _take(key.fd, got[readers[key.fd]], readers[key.fd]):
                    selector.unregister(key.fd)
            # Watched here and not by a limit on address space, which CUDA exceeds from its start.
            if _resident_bytes(pid) > memory_bytes:
                return "out of memory"


def _take(read_end: int, into: bytearray, name: str) -> bool:
    """Read once; False at the end of the stream."""
    chunk = os.read(read_end, 65536)
    into += chunk if name == "value" else chunk[: max(0, MOST_OUTPUT_BYTES - len(into))]
    return bool(chunk)


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0  # it has just ended


def _task(request: dict[str, Any], pipes: dict[str, int]) -> None:
    """In the fork: call the function, write what it returns, and exit."""
    code = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(pipes["stdout"], 1)
        os.dup2(pipes["stderr"], 2)
        os.environ.clear()
        os.environ.update(request["environ"])
        tempfile.tempdir = None  # TMPDIR may be another one now
        os.chdir(request["folder"])
        sys.path[:] = request["path"]
        module, _, name = request["function"].partition(":")
        value = getattr(importlib.import_module(module), name)(*request["args"])
        with os.fdopen(pipes["value"], "wb") as stream:
            stream.write(json.dumps(value).encode())
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
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)  # libraries' threads are idle
    for module in ("course", "torch", "triton"):  # what takes seconds, once; course picks the mode before Triton is read
        importlib.import_module(module)

    serve(socket.socket(fileno=int(sys.argv[1])), idle_s=float(sys.argv[2]))
