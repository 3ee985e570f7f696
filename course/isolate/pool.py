"""Run Python in a process of its own: a crash, a hang or an endless loop there costs this process nothing.

`call` runs a function in a worker that is kept warm, one for each kind; `run_source` a script in a fresh process;
`run_command` any program.
"""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from course.errors import CourseError

from . import limits

Kind = Literal["compile", "interpret", "launch"]
"""What the child does with kernels: compile only, interpret only, or launch on the GPU."""

IDLE_S = 300
"""A worker that was not used for so long ends: PyTorch and Triton take 0.3 GB in each."""
START_S = 120
"""How long a worker may take to import PyTorch and Triton, on a slow or busy disk too."""
END_S = 10
"""How long a worker may take to end when it is told to, with its task."""
POLL_S = 0.5
"""How often a call looks after its worker. An interrupt that comes just before a wait begins is seen as late."""


@dataclass(frozen=True)
class Ended:
    """How a child process ended, and what it printed."""

    how: Literal["finished", "failed", "crashed", "out of time", "out of memory"]
    code: int
    """The exit code; minus the signal's number where a signal ended it."""
    stdout: str
    stderr: str
    seconds: float
    value: Any = None
    """What the function returned, where it finished."""
    stopped: str = ""
    """At which limit it was stopped, as in "after 10 s of computing"; empty where it ended by itself."""
    starved: bool = False
    """Whether it was stopped because of the clock, without having computed for as long as it may: the machine is too busy,
    or it waits for something. Nothing follows from that."""

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the child, or None."""
        return signal.Signals(-self.code).name if self.code < 0 else None

    @property
    def exception(self) -> str:
        """The line of the exception that ended it: the first after the last traceback's frames, which are indented."""
        _, found, after = self.stderr.rpartition("Traceback (most recent call last):\n")
        return next((line for line in after.splitlines() if found and not line.startswith(" ")), "")


def call(
    function: Callable[..., Any],
    *args: Any,
    kind: Kind,
    timeout_s: float = 60,
    wall_s: float | None = None,
    memory_bytes: int | None = None,
) -> Ended:
    """Call `function(*args)` in a warm child.

    function: at the top of an importable module. args, and what it returns: anything JSON can say.
    timeout_s: for how long it may compute, by CPU time, which a busy machine does not change.
    wall_s: how long to wait for it at most, for what sleeps or hangs; by default what `limits.wall_s` says.
    memory_bytes: how much memory it may take; by default what `limits.child_memory_bytes` says.

    At a limit the child is killed, and whatever it has started.
    """
    return _worker(kind).call(
        {
            "function": f"{function.__module__}:{function.__qualname__}",
            "args": args,
            "environ": _environment(kind),
            "folder": os.getcwd(),
            "path": sys.path,
            "timeout_s": timeout_s,
            "wall_s": limits.wall_s(timeout_s) if wall_s is None else wall_s,
            "memory_bytes": limits.child_memory_bytes() if memory_bytes is None else memory_bytes,
        }
    )


def cancel(kind: Kind) -> None:
    """End the call of this kind that another thread waits for, which raises CourseError there."""
    if worker := _workers.pop((os.getpid(), kind), None):
        worker.cancel()


class Worker:
    """This process's end of one `fork_server`, which is started when it is first needed and again when it has ended."""

    def __init__(self, kind: Kind, idle_s: float = IDLE_S) -> None:
        self.kind, self.idle_s = kind, idle_s
        self.process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._cancelled = False
        self._lock = threading.Lock()

    def call(self, request: dict[str, Any]) -> Ended:
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            # Once more if it was there before: it may just have ended, being idle or killed by somebody.
            for _ in range(1 if self.process is None else 2):
                if self.process is None:
                    self._start()
                answer = (
                    None
                    if self._cancelled
                    else self._ask(line, request["wall_s"] + limits.wall_s(START_S))
                )
                if answer:
                    return _ended(*answer)
                errors = self._stop()
        if self._cancelled:
            raise CourseError(f"The helper process that is to {self.kind} kernels was interrupted.")
        raise CourseError(
            f"The helper process that is to {self.kind} kernels ended without an answer: {errors or 'it left no word'}. "
            "Try again; if it stays so, `course doctor` looks at this machine."
        )

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the worker
        # -P: a triton.py in the current folder must not be taken for Triton.
        command = [
            sys.executable,
            "-P",
            "-m",
            "course.isolate.fork_server",
            str(theirs.fileno()),
            str(self.idle_s),
        ]
        self._socket, self._answers = ours, ours.makefile("rb")
        self.process = subprocess.Popen(
            command, env=_environment(self.kind) | _threads(self.kind), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self._errors, pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
        theirs.close()

    def _ask(self, line: bytes, patience_s: float) -> tuple[dict[str, Any], bytes] | None:
        """The answer and the value after it; None where the worker has ended."""
        assert self._socket is not None
        self._socket.settimeout(patience_s)  # the worker itself keeps the task's limits
        deadline = time.monotonic() + patience_s
        readable = select.poll()
        readable.register(self._socket, select.POLLIN)
        try:
            self._socket.sendall(line)
            while not readable.poll(POLL_S * 1000):
                self._wake()
                if time.monotonic() > deadline:
                    return None
            ended = json.loads(self._answers.readline() or "null")
            value = self._answers.read(ended["value_bytes"]) if ended else b""
            return (ended, value) if ended and len(value) == ended.pop("value_bytes") else None
        except OSError:
            return None
        except BaseException:  # an interrupted cell must not leave its task behind
            self._stop()
            raise

    def _wake(self) -> None:
        """Let the worker go on where its task has stopped it, by SIGSTOP: else nobody would keep the limits."""
        assert self.process is not None
        with contextlib.suppress(OSError, IndexError):
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
            if stat.rpartition(")")[2].split()[0] == "T":
                self.process.send_signal(signal.SIGCONT)

    def _stop(self) -> str:
        """Hang up, at which the worker kills its task and ends; what it wrote on stderr last."""
        if self.process is None or self._socket is None:
            return ""
        self._answers.close()
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
        with self._lock:
            self._stop()

    def cancel(self) -> None:
        """End the call that another thread waits for, and take no other."""
        self._cancelled = True
        with contextlib.suppress(OSError, AttributeError):  # not started yet, or just ended
            self._socket.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


def _ended(answer: dict[str, Any], value: bytes) -> Ended:
    try:
        return Ended(**answer, value=json.loads(value))
    except ValueError:  # the task has changed what writes JSON
        return Ended(**answer | {"how": "failed"})


_workers: dict[tuple[int, Kind], Worker] = {}


def _worker(kind: Kind) -> Worker:
    # By process: one that was forked from this one must not speak on this one's socket.
    return _workers.setdefault((os.getpid(), kind), Worker(kind))


@atexit.register
def stop_workers() -> None:
    """End this process's workers; the next call starts them anew."""
    for (pid, _), worker in list(_workers.items()):
        if pid == os.getpid():
            worker.stop()


def run_source(source: str, kind: Kind | None = None, timeout_s: float = 60) -> Ended:
    """Run `source`, the text of a Python module, as a script in a fresh process.

    kind: None chooses the mode anew, which comes to the same as here. The text is kept in a file for as long as the
    child runs, since Triton reads kernels from their files. At `timeout_s` seconds the child and what it started are killed.
    """
    with tempfile.TemporaryDirectory(prefix="course-child-") as folder:
        script = Path(folder) / "script.py"
        script.write_text(source)
        ended = _run([sys.executable, str(script)], _environment(kind), timeout_s)
        # The folder's name is random and says nothing: what is shown names the script alone.
        here = f"{folder}/"
        return replace(
            ended, stdout=ended.stdout.replace(here, ""), stderr=ended.stderr.replace(here, "")
        )


def run_command(command: list[str], timeout_s: float = 60) -> Ended:
    """Run a program, such as a disassembler; at `timeout_s` seconds it and what it started are killed."""
    return _run(command, dict(os.environ), timeout_s)


def _environment(kind: Kind | None) -> dict[str, str]:
    environ = dict(os.environ)
    environ.pop("COURSE_CHILD", None)
    if kind is not None:
        # Importing course in the child would otherwise choose the mode anew.
        environ["COURSE_CHILD"] = kind
        environ["TRITON_INTERPRET"] = "1" if kind == "interpret" else "0"
    root = str(Path(__file__).resolve().parents[2])
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environ.get("PYTHONPATH")]))
    return environ


def _threads(kind: Kind) -> dict[str, str]:
    # What several threads compute for one tensor takes more CPU time the busier the machine is, as they wait for one another.
    return {} if kind == "launch" else {"OMP_NUM_THREADS": "1"}


def _run(command: list[str], environ: dict[str, str], timeout_s: float) -> Ended:
    start = time.monotonic()
    # A session of its own, so that at the time limit its own children end with it.
    process = subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill_session(process)
        stdout, stderr = process.communicate()
        stopped = f"after {timeout_s:g} s"
        return Ended(
            "out of time",
            process.returncode,
            stdout,
            stderr,
            time.monotonic() - start,
            stopped=stopped,
        )
    except BaseException:  # an interrupted cell must not leave the child behind
        _kill_session(process)
        process.wait()
        raise
    code = process.returncode
    how: Literal["finished", "failed", "crashed"] = (
        "finished" if code == 0 else "crashed" if code < 0 else "failed"
    )
    return Ended(how, code, stdout, stderr, time.monotonic() - start)


def _kill_session(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
