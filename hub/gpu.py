"""Who uses the GPU: processes by seat, as NVIDIA's own tool tells them."""

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .settings import FIRST_USER, Settings

QUERY = [
    "nvidia-smi", "--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits",
]  # fmt: skip
ANSWER_S = 10


@dataclass(frozen=True)
class Use:
    """A seat's process that holds memory of the GPU."""

    seat: str
    pid: int
    mib: int
    """0 where the driver does not tell."""
    orphan: bool
    """Whether the seat has no server any more."""


def uses(settings: Settings, serving: set[str]) -> list[Use]:
    """The seats' processes on the GPU; none where there is no GPU or its tool does not answer.

    serving: the seats whose server runs.
    """
    try:
        told = subprocess.run(QUERY, capture_output=True, text=True, timeout=ANSWER_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    of_seats = []
    for line in told.splitlines():
        pid, _, mib = (part.strip() for part in line.partition(","))
        if pid.isdecimal() and (seat := seat_of(settings, int(pid))):
            # "[N/A]" where the driver does not tell, as in containers: the process is there.
            known = int(mib) if mib.isdecimal() else 0
            of_seats.append(Use(seat, int(pid), known, orphan=seat not in serving))
    return sorted(of_seats, key=lambda use: -use.mib)


def seat_of(settings: Settings, pid: int) -> str:
    """The seat whose process this is; empty for a process of somebody else."""
    with contextlib.suppress(OSError):
        number = Path(f"/proc/{pid}").stat().st_uid - FIRST_USER
        if settings.apart and 0 < number <= settings.seats:
            return f"seat-{number:02}"
    return ""


def end(settings: Settings, seat: str, pid: int) -> bool:
    """End a seat's process; False where it is not that seat's."""
    if not seat or seat_of(settings, pid) != seat:
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    return True


def end_orphans(settings: Settings, serving: set[str]) -> list[Use]:
    """End the processes of seats that have no server any more; which they were."""
    orphans = [use for use in uses(settings, serving) if use.orphan]
    for use in orphans:
        end(settings, use.seat, use.pid)
    return orphans
