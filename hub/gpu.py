"""Who uses the GPU: processes by seat, as NVIDIA's own tool tells them."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .engine import Running

QUERY = [
    "nvidia-smi", "--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits",
]  # fmt: skip
ANSWER_S = 10
PROC = Path("/proc")


@dataclass(frozen=True)
class Use:
    """A seat's process that holds memory of the GPU."""

    seat: str
    pid: int
    mib: int
    """0 where the driver does not tell."""


def uses(containers: Mapping[str, Running]) -> list[Use]:
    """The seats' processes on the GPU; none where there is no GPU or its tool does not answer.

    containers: seat -> its container.
    """
    try:
        told = subprocess.run(QUERY, capture_output=True, text=True, timeout=ANSWER_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    of_seats = []
    for line in told.splitlines():
        pid, _, mib = (part.strip() for part in line.partition(","))
        if pid.isdecimal() and (seat := seat_of(containers, int(pid))):
            # "[N/A]" where the driver does not tell, as in containers: the process is there.
            of_seats.append(Use(seat, int(pid), int(mib) if mib.isdecimal() else 0))
    return sorted(of_seats, key=lambda use: -use.mib)


def seat_of(containers: Mapping[str, Running], pid: int) -> str:
    """The seat in whose container a process is; empty for a process of somebody else."""
    with contextlib.suppress(OSError):
        groups = (PROC / str(pid) / "cgroup").read_text()
        return next((seat for seat, each in containers.items() if each.id in groups), "")
    return ""


def end(containers: Mapping[str, Running], seat: str, pid: int) -> bool:
    """End a seat's process; False where it is not that seat's."""
    if not seat or seat_of(containers, pid) != seat:
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    return True
