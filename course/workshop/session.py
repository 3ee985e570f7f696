"""A learner's session: a Jupyter kernel of its own, as the lab starts it."""

import contextlib
import os
import queue
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.2
START_S = 120
"""How long a session may take to start, on a busy machine too."""


@dataclass
class Ran:
    """What came of a cell."""

    seconds: float = 0.0
    """By the clock, as a learner waits."""
    text: str = ""
    """All that it printed and showed, and the name of what it raised with its message."""
    error: str = ""
    """The name of what it raised, as "KeyboardInterrupt"; empty if it ran to its end."""
    ended: bool = True
    """False where the session died, or the cell was still running at its limit."""
    shown: list[dict[str, object]] = field(default_factory=list)
    """What it showed, by mime type."""


class Session:
    """A session that runs cells one after the other."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(
            startup_timeout=START_S,
            kernel_name="python3",
            cwd=str(folder),
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def pid(self) -> int:
        """The process id of its kernel."""
        process: subprocess.Popen[bytes] = getattr(self.manager.provisioner, "process")  # noqa: B009
        return process.pid

    def run(self, cell: str, limit_s: float, interrupt_after_s: float | None = None) -> Ran:
        """Run a cell. It is interrupted `interrupt_after_s` seconds after it began, as by the
        lab's stop button, and given up at `limit_s`."""
        ran, begin = Ran(), time.monotonic()
        request = self.client.execute(cell)
        interrupt_at = begin + interrupt_after_s if interrupt_after_s is not None else None
        while True:
            if time.monotonic() - begin > limit_s:  # a cell may print without end
                ran.ended = False
                break
            if interrupt_at is not None and time.monotonic() >= interrupt_at:
                self.manager.interrupt_kernel()
                interrupt_at = None
            try:
                message = self.client.get_iopub_msg(timeout=POLL_S)
            except queue.Empty:
                if not self.manager.is_alive():
                    ran.ended = False
                    break
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            _note(ran, kind, content)
        ran.seconds = time.monotonic() - begin
        return ran

    def close(self) -> None:
        """End the session and all that it started."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def _note(ran: Ran, kind: str, content: dict[str, object]) -> None:
    if kind == "stream":
        ran.text += str(content["text"])
    elif kind == "error":
        ran.error = str(content["ename"])
        ran.text += f"{content['ename']}: {content['evalue']}\n"
    elif kind in ("execute_result", "display_data"):
        data = content["data"]
        assert isinstance(data, dict)
        ran.shown.append(data)
        ran.text += str(data.get("text/plain", "")) + "\n"


@contextlib.contextmanager
def session(folder: Path, **environ: str) -> Iterator[Session]:
    """A session in a folder, with these variables set beside this process's own."""
    running = Session(folder, {**os.environ, **environ})
    try:
        yield running
    finally:
        running.close()
