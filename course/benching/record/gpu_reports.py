"""What is said on a GPU of kernels that read outside, fail an assertion, race or never end.

    python -m course.benching.record.gpu_reports folder

writes folder/reports.json; some need compute-sanitizer. Each program has a process of its own.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from course.benching.api import require_gpu
from course.benching.gpu_reports import FILE, Report, Reports
from course.errors import CourseError
from course.files import write_whole
from course.gpus.recorded import this_machine
from course.isolate.commands import run_command
from course.places import content

MODULE = "course.benching.record.gpu_reports"
SCRIPT = "wrong.py"
"""The name under which the programs are shown."""
MOST_S, HUNG_S = 300, 20
"""Seconds on the clock for a program; and for one that is known not to end."""
MOST_LINES, MOST_COLUMNS = 24, 160
BLOCK = 128


@triton.jit
def no_mask_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    """out = 2 x, without a mask."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, 2 * x)


@triton.jit
def far_kernel(x_ptr, out_ptr, stride, BLOCK_SIZE: tl.constexpr):
    """Reads stride elements apart, however long x is."""
    offsets = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets * stride))


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n_rows, BLOCK_SIZE: tl.constexpr):
    """out[i] = x[index[i]], and says so if an index is outside x."""
    offsets = tl.arange(0, BLOCK_SIZE)
    index = tl.load(index_ptr + offsets)
    tl.device_assert((index >= 0) & (index < n_rows), "an index is outside x")
    tl.store(out_ptr + offsets, tl.load(x_ptr + index))


@triton.jit
def print_kernel(x_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """Prints what a masked load gives."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=-1.0)
    tl.device_print("x", x)


@triton.jit
def wait_kernel(flag_ptr):
    """Waits for a flag that nobody sets."""
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass


@gluon.jit
def race_kernel(x_ptr, out_ptr, BLOCK_SIZE: gl.constexpr, WAIT: gl.constexpr):
    """out = x by way of shared memory, where a thread reads what others have copied."""
    there: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, BLOCK_SIZE, layout=there)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    block = gl.allocate_shared_memory(gl.float32, [BLOCK_SIZE], shared)
    async_copy.async_load(block, x_ptr + offsets)
    async_copy.commit_group()
    if WAIT:
        async_copy.wait_group(0)
    back: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    x = block.load(back)
    gl.store(out_ptr + gl.arange(0, BLOCK_SIZE, layout=back), x)


def _outside() -> None:
    x, out = (torch.ones(1000, device="cuda") for _ in range(2))
    no_mask_kernel[(triton.cdiv(1000, BLOCK),)](x, out, BLOCK_SIZE=BLOCK)
    torch.cuda.synchronize()
    print("no error; out has", int((out == 2).sum()), "right elements of 1000")


def _illegal() -> None:
    x, out = (torch.ones(BLOCK, device="cuda") for _ in range(2))
    far_kernel[(1,)](x, out, 2**36, BLOCK_SIZE=BLOCK)
    attempts: dict[str, Callable[[], object]] = {
        "torch.cuda.synchronize()": torch.cuda.synchronize,
        "torch.zeros(1, device='cuda')": lambda: torch.zeros(1, device="cuda"),
        "x.cpu()": x.cpu,
    }
    for what, attempt in attempts.items():
        try:
            attempt()
            print(f"{what}: no error")
        except RuntimeError as error:
            print(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")
    print("on the CPU:", torch.ones(3).sum().item())


def _asserted() -> None:
    x, out = (torch.ones(BLOCK, device="cuda") for _ in range(2))
    index = torch.arange(BLOCK, device="cuda")
    index[5] = 1_000_000
    gather_kernel[(1,)](x, index, out, len(x), BLOCK_SIZE=BLOCK)
    try:
        torch.cuda.synchronize()
        print("no error")
    except RuntimeError as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}")


def _printed() -> None:
    print_kernel[(2,)](torch.arange(6.0, device="cuda"), 6, BLOCK_SIZE=4, num_warps=1)
    torch.cuda.synchronize()


def _raced(wait: bool) -> None:
    x, out = torch.arange(128.0, device="cuda"), torch.zeros(128, device="cuda")
    race_kernel[(1,)](x, out, BLOCK_SIZE=128, WAIT=wait, num_warps=4)
    torch.cuda.synchronize()
    print("right elements:", int((out == x).sum()), "of 128")


def _hung() -> None:
    wait_kernel[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"))
    print("launched", flush=True)
    torch.cuda.synchronize()
    print("this line is never reached")


def _healthy() -> None:
    x = torch.ones(1024, device="cuda")
    out = torch.empty_like(x)
    no_mask_kernel[(8,)](x, out, BLOCK_SIZE=BLOCK)
    print("right elements:", int((out == 2).sum()), "of 1024")


PROGRAMS: dict[str, Callable[[], None]] = {
    "outside": _outside,
    "illegal": _illegal,
    "asserted": _asserted,
    "printed": _printed,
    "raced": lambda: _raced(wait=False),
    "waited": lambda: _raced(wait=True),
    "hung": _hung,
    "healthy": _healthy,
}


ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
"""Another one in each run."""


@dataclass(frozen=True)
class Case:
    """A program with its environment and the tool that watches it."""

    program: str
    environ: dict[str, str] = field(default_factory=dict)
    tool: tuple[str, ...] = ()
    most_s: float = MOST_S


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
        name: _report(case)
        for name, case in CASES.items()
        if not case.tool or shutil.which(case.tool[0])
    }
    if not reports:
        raise CourseError("No program was run.")
    return Reports(machine=this_machine(), reports=reports)


def _report(case: Case) -> Report:
    settings = [f"{name}={value}" for name, value in case.environ.items()]
    quiet = ["-W", "ignore::RuntimeWarning:runpy"]  # the package has imported the module already
    program = [sys.executable, *quiet, "-m", MODULE, "--run", case.program]
    ended = run_command(["env", *settings, *case.tool, *program], case.most_s)
    shown = [*settings, *case.tool, "python", SCRIPT]
    return Report(
        command=" ".join(shown),
        said=shortened(ended.stdout + ended.stderr),
        ended=ended.sentence("it"),
    )


def shortened(text: str) -> str:
    """What was said, without paths of this machine, and no more than a reader looks at."""
    own = Path(__file__)
    where = (f"{content()}{os.sep}course/benching/record/{own.name}", own.name)
    lines = []
    for line in text.splitlines():
        if line.startswith("Traceback "):  # how it ended is said by itself, in a clause
            break
        if line.strip("= ") and not line.startswith("<frozen runpy>"):
            for path in where:
                line = line.replace(path, SCRIPT)
            lines.append(ADDRESS.sub("0x…", line).rstrip()[:MOST_COLUMNS])
    if len(lines) > MOST_LINES:
        left = f"… ({len(lines) - MOST_LINES} more lines)"
        lines = [*lines[: MOST_LINES - 4], left, *lines[-4:]]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        PROGRAMS[sys.argv[2]]()
    else:
        result = measure()
        print(result)
        write_whole(Path(sys.argv[1]) / FILE.name, result.to_json())
