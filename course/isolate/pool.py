"""Call functions in workers that are kept warm, one for each kind of child."""

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from course.errors import CourseError
from course.places import PACKED, content
from course.progress_bar import show_until
from course.type_names import AnyValue, Function

from . import available
from .ended import ChildKind, Ended, How
from .messages import Reply, Task, pack_arguments, receive, send, unpack_returned

IDLE_S = 300
"""A worker that was not used for so long ends: PyTorch and Triton take 0.3 GB in each."""
START_S = 120
"""How long a worker may take to import PyTorch and Triton, on a slow or busy disk too."""
END_S = 10
"""How long a worker may take to end when it is told to, with its task."""
SILENT_S = 5
"""A call that takes longer shows how long it has taken, of the seconds that it may take."""
DOES: dict[ChildKind, str] = {
    "compile": "Compiling",
    "interpret": "Interpreting",
    "launch": "Running on the GPU",
}


def child_environment(kind: ChildKind | None) -> dict[str, str]:
    """The variables of this moment, for a child of a kind; with None it chooses its mode anew."""
    environ = dict(os.environ)
    environ.pop("COURSE_CHILD", None)
    if kind is not None:
        # Importing course in the child would otherwise choose the mode anew.
        environ["COURSE_CHILD"] = kind
        environ["TRITON_INTERPRET"] = "1" if kind == "interpret" else "0"
    if not PACKED.is_dir():  # an installed course is found without
        folders = [str(content()), environ.get("PYTHONPATH")]
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    return environ


def worker_environment(kind: ChildKind) -> dict[str, str]:
    """The variables of a worker of a kind, which its tasks do not change."""
    environ = child_environment(kind)
    if kind != "launch":
        # Several threads that compute for one tensor wait for one another, and take more CPU time
        # the busier the machine is.
        environ["OMP_NUM_THREADS"] = "1"
    return environ


def call(
    function: Function,
    *args: AnyValue,
    kind: ChildKind,
    timeout_s: float = 60,
    wall_s: float | None = None,
    asleep_s: float | None = None,
    memory_bytes: int | None = None,
) -> Ended[Any]:
    """Call `function(*args)` in a warm child. `border.runs_in` is the way to declare such
    functions.

    function: at the top of an importable module; its type hints say what the arguments become there
        and what its value becomes here (without them: lists, dicts, texts, numbers, bytes).
    timeout_s: CPU time that it may take, which a busy machine does not change.
    wall_s: seconds by the clock to wait at most, for what sleeps or hangs; by default
        `available.wall_s`.
    asleep_s: seconds by the clock in which it may only wait; by default 20, and for one that
        launches, which may wait for the GPU, any number.
    memory_bytes: how much memory it may take; by default `available.child_memory_bytes`.

    At a limit the child is killed, and whatever it has started.
    """
    reply = _worker(kind).call(
        Task(
            function=f"{function.__module__}:{function.__qualname__}",
            arguments=pack_arguments(args),
            environ=child_environment(kind),
            folder=os.getcwd(),
            path=sys.path,
            timeout_s=timeout_s,
            wall_s=available.wall_s(timeout_s) if wall_s is None else wall_s,
            asleep_s=available.asleep_s(kind) if asleep_s is None else asleep_s,
            memory_bytes=available.child_memory_bytes() if memory_bytes is None else memory_bytes,
        )
    )
    if not reply.returned:
        return reply.ended
    try:
        value, error = unpack_returned(function, reply.returned)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        # It has changed what packs its value, or returns another type than it says.
        return replace(reply.ended, how="failed", error=UnreadableError(str(problem)))
    how: How = "finished" if error is None else "failed"
    return replace(reply.ended, how=how, value=value, error=error)


def warm(*kinds: ChildKind) -> None:
    """Start the workers of these kinds side by side, where they do not run yet, and go on.

    The next call of a kind finds its worker started, or waits for it.
    """
    for kind in kinds:
        _worker(kind).start()


def cancel(kind: ChildKind) -> None:
    """End the call of this kind that another thread waits for, which raises CourseError there."""
    if worker := _workers.pop((os.getpid(), kind), None):
        worker.cancel()


class UnreadableError(CourseError):
    """What came back from a child is not what its function returns."""


class Worker:
    """This process's end of one `fork_server`, which is started when it is first needed, and again
    when it has ended."""

    def __init__(self, kind: ChildKind, idle_s: float = IDLE_S) -> None:
        self.kind, self.idle_s = kind, idle_s
        self.process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._cancelled = False
        self._lock = threading.Lock()

    def call(self, task: Task) -> Reply:
        """How a task ended, and what it returned."""
        with self._lock:
            # Once more if it was there before: it may just have ended, being idle or killed by
            # somebody.
            for _ in range(1 if self.process is None else 2):
                if self.process is None:
                    self._start()
                patience_s = task.wall_s + available.wall_s(START_S)
                if not self._cancelled and (reply := self._ask(task, patience_s)):
                    return reply
                errors = self._stop()
        if self._cancelled:
            raise CourseError(f"The helper process that is to {self.kind} kernels was interrupted.")
        raise CourseError(
            f"The helper process that is to {self.kind} kernels ended without an answer: "
            f"{errors or 'it printed nothing'}. "
            "Try again; if it stays so, `course doctor` looks at this machine."
        )

    def start(self) -> None:
        """Start the worker if it does not run, without waiting until it has imported anything."""
        if self._lock.acquire(blocking=False):  # else a call is under way, which starts it
            try:
                if self.process is None and not self._cancelled:
                    self._start()
            finally:
                self._lock.release()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the worker
        # -P: a triton.py in the current folder must not be taken for Triton.
        server = [sys.executable, "-P", "-m", "course.isolate.fork_server"]
        self._socket, self._replies = ours, ours.makefile("rb")
        self.process = subprocess.Popen(
            [*server, str(theirs.fileno()), str(self.idle_s)],
            env=worker_environment(self.kind), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self._errors, pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
        theirs.close()

    def _ask(self, task: Task, patience_s: float) -> Reply | None:
        """The reply; None if the worker has ended."""
        assert self._socket is not None
        self._socket.settimeout(patience_s)  # the worker itself keeps the task's limits
        deadline = time.monotonic() + patience_s
        readable = select.poll()
        readable.register(self._socket, select.POLLIN)
        try:
            send(self._socket, task)

            begin = time.monotonic()

            def ended(seconds: float) -> bool:
                if readable.poll(seconds * 1000):
                    return True
                self._wake()
                return time.monotonic() > deadline

            show_until(
                ended, lambda: int(time.monotonic() - begin), round(task.timeout_s),
                f"{DOES[self.kind]}, seconds", after_s=SILENT_S,
            )  # fmt: skip
            reply: Reply | None = receive(self._replies, Reply) if readable.poll(0) else None
            return reply
        except OSError:
            return None
        except BaseException:  # an interrupted cell must not leave its task behind
            self._stop()
            raise

    def _wake(self) -> None:
        """Let the worker go on if its task has stopped it, by SIGSTOP: else nobody would keep the
        limits."""
        assert self.process is not None
        with contextlib.suppress(OSError, IndexError):
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
            if stat.rpartition(")")[2].split()[0] == "T":
                self.process.send_signal(signal.SIGCONT)

    def _stop(self) -> str:
        """Hang up, at which the worker kills its task and ends; the last line that it wrote on
        stderr."""
        if self.process is None or self._socket is None:
            return ""
        self._replies.close()
        self._socket.close()
        self.process.terminate()  # one that is still importing PyTorch has not heard that
        try:
            self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
        with self._errors as stream:
            stream.seek(0)
            return (stream.read().decode(errors="replace").strip().splitlines() or [""])[-1]

    def stop(self) -> None:
        """End the worker; the next call starts it anew."""
        with self._lock:
            self._stop()

    def cancel(self) -> None:
        """End the call that another thread waits for, and take no other."""
        self._cancelled = True
        with contextlib.suppress(OSError, AttributeError):  # not started yet, or just ended
            self._socket.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


_workers: dict[tuple[int, ChildKind], Worker] = {}


def _worker(kind: ChildKind) -> Worker:
    # By process: one that was forked from this one must not speak on this one's socket.
    return _workers.setdefault((os.getpid(), kind), Worker(kind))


@atexit.register
def stop_workers() -> None:
    """End this process's workers; the next call starts them anew."""
    for (pid, _), worker in list(_workers.items()):
        if pid == os.getpid():
            worker.stop()
