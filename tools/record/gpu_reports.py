"""Runs the programs of `wrong.py` on a GPU and keeps what is said; some need compute-sanitizer."""

import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from course.benching.api import require_gpu
from course.benching.profiles import Report, Reports
from course.gpus.recorded import this_machine
from course.isolate.commands import run_command

SCRIPT = Path(__file__).with_name("wrong.py")
MOST_S, HUNG_S = 300, 20
"""Seconds on the clock for a program; and for one that is known not to end."""
MOST_LINES, MOST_COLUMNS = 24, 160
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
"""Another one in each run."""


@dataclass(frozen=True)
class Case:
    """A program with its environment and the tool that watches it."""

    program: str
    environ: dict[str, str] = field(default_factory=dict)
    tool: tuple[str, ...] = ()
    most_s: float = MOST_S
    script: Path = SCRIPT
    module: tuple[str, ...] = ()
    """Arguments of Python's before the script: a module that runs it."""


CHECKER = ("compute-sanitizer", "--report-api-errors", "no", "--show-backtrace", "device")
OWN_MEMORY = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
"""Each tensor in an allocation of its own: otherwise PyTorch cuts tensors from large ones, and a
checker of memory sees nothing wrong where one tensor ends and the next begins."""
CASES = {
    "out of bounds": Case("outside"),
    "out of bounds, checked": Case(
        "outside", OWN_MEMORY, (*CHECKER, "--tool", "memcheck", "--print-limit", "2")
    ),
    "illegal access": Case("illegal"),
    "assertion, not compiled": Case("asserted"),
    "assertion": Case("asserted", {"TRITON_DEBUG": "1"}),
    "printed": Case("printed"),
    "race": Case("raced"),
    "race, checked": Case("raced", {}, (*CHECKER, "--tool", "racecheck", "--print-limit", "2")),
    "no race, checked": Case("waited", {}, (*CHECKER, "--tool", "racecheck")),
    "hang": Case("hung", most_s=HUNG_S),
    "after the hang": Case("healthy"),
}


def measure() -> Reports:
    """Run every program, one after the other. Without compute-sanitizer those that need it are left
    out.

    Raises CourseError in CPU mode.
    """
    require_gpu()
    reports = {
        name: report(case)
        for name, case in CASES.items()
        if not case.tool or shutil.which(case.tool[0])
    }
    return Reports(machine=this_machine(), reports=reports)


def report(case: Case) -> Report:
    """What a program says, and how it ends."""
    watched = [*(f"{name}={value}" for name, value in case.environ.items()), *case.tool]
    command = [sys.executable, *case.module, str(case.script), case.program]
    ended = run_command(["env", *watched, *command], case.most_s)
    return Report(
        command=" ".join([*watched, "python", *case.module, case.script.name]),
        said=shortened(ended.stdout + ended.stderr, case.script),
        ended=ended.sentence("it"),
    )


def shortened(text: str, script: Path = SCRIPT) -> str:
    """What was said, without paths of this machine, and no more than a reader looks at."""
    # How it ended is said by itself, in a clause, in place of a traceback.
    said, _, _ = text.partition("Traceback (most recent call last):")
    lines = [
        ADDRESS.sub("0x…", line.replace(str(script), script.name)).rstrip()[:MOST_COLUMNS]
        for line in said.splitlines()
        if line.strip("= ")
    ]
    if len(lines) > MOST_LINES:
        left = f"… ({len(lines) - MOST_LINES} more lines)"
        lines = [*lines[: MOST_LINES - 4], left, *lines[-4:]]
    return "\n".join(lines)
