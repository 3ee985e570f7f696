"""A learner's session: a Jupyter kernel of its own, as the lab starts it."""

import math
import os
import queue
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.exercises.result import MIME
from course.isolate.descendants import children, proportional_bytes

POLL_S = 0.2
START_S = 120
"""How long a session may take to start, on a busy machine too."""


@dataclass
class Ran:
    """What came of a cell."""

    seconds: float = 0.0
    """Seconds by the clock, as a learner waits."""
    text: str = ""
    """All that it printed and showed, and the name of what it raised with its message."""
    error: str = ""
    """The name of what it raised, as "KeyboardInterrupt"; empty if it ran to its end."""
    verdict: str = ""
    """What a check in it said, if there was one."""
    ended: bool = True
    """False where the session died, or the cell was still running at its limit."""

    @property
    def outcome(self) -> str:
        """The verdict that it showed, or how else it ended."""
        other = "nothing" if self.ended else "no answer in time, or a dead session"
        return self.verdict or self.error or other

    def note(self, kind: str, content: dict[str, Any]) -> None:
        """Add what a message of the session tells."""
        if kind == "stream":
            self.text += content["text"]
        elif kind == "error":
            self.error = content["ename"]
            self.text += f"{content['ename']}: {content['evalue']}\n"
        elif kind in ("execute_result", "display_data"):
            self.text += f"{content['data'].get('text/plain', '')}\n"
            self.verdict = content["data"].get(MIME, {}).get("verdict", self.verdict)


class Session:
    """A session that runs cells one after the other, with these variables set beside this process's
    own."""

    peak_bytes = 0
    """The most memory that it was seen to take while cells ran, with all that it has started."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(
            startup_timeout=START_S,
            kernel_name="python3",
            cwd=str(folder),
            env={**os.environ, **environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def memory_bytes(self) -> int:
        """The memory that it takes, with all that it has started; a page that several processes
        share counts once."""
        kernel: subprocess.Popen[bytes] = getattr(self.manager.provisioner, "process")  # noqa: B009
        pids = [kernel.pid]
        for pid in pids:  # grows on the way
            pids += children(pid)
        return sum(map(proportional_bytes, pids))

    def run(self, cell: str, limit_s: float, interrupt_after_s: float = math.inf) -> Ran:
        """Run a cell. It is interrupted `interrupt_after_s` seconds after it began, as by the
        lab's stop button, and given up at `limit_s`."""
        ran, begin = Ran(), time.monotonic()
        request = self.client.execute(cell)
        while True:
            ran.seconds = time.monotonic() - begin
            if ran.seconds >= interrupt_after_s:
                self.manager.interrupt_kernel()
                interrupt_after_s = math.inf
            # A cell may print without end.
            if ran.seconds > limit_s or not self.manager.is_alive():
                ran.ended = False
                return ran
            try:
                message = self.client.get_iopub_msg(timeout=POLL_S)
            except queue.Empty:
                self.peak_bytes = max(self.peak_bytes, self.memory_bytes())
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return ran
            ran.note(kind, content)

    def close(self) -> None:
        """End the session and all that it started."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
