"""Look at this machine and say what works, what does not, and the one command that mends it."""

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil

from . import pins
from .cache import cache_folder, private_folder
from .compilers import compiler_command
from .errors import CourseError
from .mode import driver_devices, find_gpu, torch_cuda
from .places import PACKED

Level = Literal["ok", "note", "problem"]

# PyTorch's releases and the Triton each is built with.
PAIRS = {
    "2.10": "3.6.0", "2.11": "3.6.0", "2.12": "3.7.0",
    "2.13": "3.7.1", "2.14": "3.8", "2.15": "3.9",
}  # fmt: skip
PINNED = (pins.TORCH, pins.TRITON)
ANEW = "make clean setup"
if PACKED.is_dir():
    ANEW = f"pip install --force-reinstall torch=={pins.TORCH} triton=={pins.TRITON}"
SUPPORTED_TRITON = ((3, 6), (3, 9))
# The oldest NVIDIA driver for each major version of CUDA.
DRIVERS = {"12": 525, "13": 580}
# At its peak, with all its processes, a `course check` takes 0.9 to 1.3 GB.
NEEDED_MEMORY = 2 * 10**9
NEEDED_DISK = 2**30
# File systems over a network, as `stat -f` names them.
SLOW_FILE_SYSTEMS = ("nfs", "smb", "smb2", "cifs", "lustre", "gpfs", "beegfs")


@dataclass(frozen=True)
class Finding:
    """One thing the doctor looked at."""

    name: str
    level: Level
    says: str
    mend: str = ""
    """The command, or the one thing to do, that mends it."""


def ok(name: str, says: str) -> Finding:
    """Something that is as it should be."""
    return Finding(name, "ok", says)


def note(name: str, says: str, mend: str = "") -> Finding:
    """Something that the course can do without."""
    return Finding(name, "note", says, mend)


def problem(name: str, says: str, mend: str = "") -> Finding:
    """Something that keeps the course from working."""
    return Finding(name, "problem", says, mend)


def examine() -> list[Finding]:
    """Everything about this machine that the course depends on."""
    return [finding for check in CHECKS for finding in check()]


def as_text(findings: list[Finding]) -> str:
    """A line a finding, with the mend under it."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:8} {finding.name:12} {finding.says}")
        if finding.mend:
            lines.append(f"{'':21} -> {finding.mend}")
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> str:
    """A JSON list with one object a finding."""
    return json.dumps([asdict(finding) for finding in findings], indent=1)


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        yield ok("Python", f"{version} in {sys.prefix}")
    else:
        yield problem(
            "Python", f"{version}; the course needs 3.11 to 3.13", "make setup PYTHON=python3.12"
        )


def torch_and_triton() -> Iterator[Finding]:
    torch, triton = _version("torch"), _version("triton")
    if not torch or not triton:
        missing = [*(["torch"] if not torch else []), *(["triton"] if not triton else [])]
        yield problem("torch", f"{' and '.join(missing)} missing", ANEW)
        return
    cuda = torch_cuda()
    pair = f"torch {torch} ({f'CUDA {cuda}' if cuda else 'CPU'} build) with triton {triton}"
    low, high = SUPPORTED_TRITON
    if not low <= _major_minor(triton) <= high:
        yield problem("torch", f"{pair}; the course needs triton 3.6 to 3.9", ANEW)
    elif (torch.split("+")[0], triton) == PINNED:
        yield ok("torch", f"{pair}, as pinned")
    elif triton.startswith(PAIRS.get(".".join(torch.split(".")[:2]), "none")):
        pinned = f"the course pins {PINNED[0]} with {PINNED[1]}"
        yield ok("torch", f"{pair}, a pair that belongs together; {pinned}")
    else:
        apart = "which were not released together; torch.compile may fail"
        yield note("torch", f"{pair}, {apart}", ANEW)


def gpu() -> Iterator[Finding]:
    if os.environ.get("COURSE_MODE", "").lower() == "cpu":
        yield note("GPU", "CPU mode: COURSE_MODE=cpu asks for it, so no GPU was looked at")
        return
    count, reason = driver_devices()
    if not count:
        yield note("GPU", f"CPU mode: {reason}. The lessons run; speeds are shown as recorded")
        return
    usable, reason = find_gpu()
    if not usable:
        yield problem("GPU", f"a GPU answers, but {reason}", _mend_unusable_gpu())
        return
    import torch

    for index in range(count):
        name = torch.cuda.get_device_name(index)
        major, minor = torch.cuda.get_device_capability(index)
        yield capability_finding(f"{name}, sm_{major}{minor}, driver {_driver()}", (major, minor))


CAPABILITIES: tuple[tuple[tuple[int, int], Level, str], ...] = (
    ((9, 0), "ok", "tensor cores and tensor memory accelerator"),
    ((8, 0), "ok", "tensor cores (mma); no tensor memory accelerator"),
    ((7, 5), "note", "Triton no longer supports it, so the course is in CPU mode"),
    ((0, 0), "problem", "too old, as PyTorch's builds need compute capability 7.5 or newer"),
)
"""The least compute capability, and what Triton can do from there on."""


def capability_finding(gpu_name: str, capability: tuple[int, int]) -> Finding:
    """What Triton can do on a GPU of this compute capability."""
    level, says = next(row[1:] for row in CAPABILITIES if capability >= row[0])
    mend = "export COURSE_MODE=cpu" if level == "problem" else ""
    return Finding("GPU", level, f"{gpu_name}: {says}", mend)


def compiler() -> Iterator[Finding]:
    # Triton compiles a small C module for the launcher on first use of a GPU, and only then.
    lacking = problem if driver_devices()[0] else note
    try:
        program = compiler_command()[0]
        yield ok("C compiler", shutil.which(program) or program)
    except CourseError:
        says = "none found; Triton needs one to launch on a GPU"
        yield lacking("C compiler", says, "sudo apt-get install gcc")
    include = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if include.is_file():
        yield ok("headers", str(include))
    else:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-dev"
        says = f"no {include}; Triton needs it on a GPU"
        yield lacking("headers", says, f"sudo apt-get install {package}")


def tools() -> Iterator[Finding]:
    """The programs in Triton's own wheel that assemble and disassemble."""
    folder = _package("triton") / "backends" / "nvidia" / "bin"
    for program in ("ptxas", "cuobjdump", "nvdisasm"):
        path = folder / program
        if path.is_file() and os.access(path, os.X_OK):
            yield ok(program, str(path))
        else:
            yield problem(program, f"missing from {folder}", ANEW)


def cache() -> Iterator[Finding]:
    folder = cache_folder()
    try:
        private_folder(folder)
        yield ok("cache", f"{folder}, yours alone")
    except CourseError as error:
        can_mend = error.kind == "others can write"
        mend = f"chmod 700 {folder}" if can_mend else "export COURSE_CACHE=~/.cache/my-course"
        yield problem("cache", str(error), mend)
    where = next(path for path in (folder, *folder.parents) if path.exists())
    kind = _file_system(where)
    if kind in SLOW_FILE_SYSTEMS:
        local = "export COURSE_CACHE=/var/tmp/$USER-course"
        yield note("cache", f"{folder} is on {kind}, which is slow for it", local)


def memory_and_disk() -> Iterator[Finding]:
    memory = psutil.virtual_memory().available
    cores = len(os.sched_getaffinity(0))
    says = (
        f"{memory / 1e9:.1f} GB free and {cores} CPU core(s); checking an answer takes up to 1.3 GB"
    )
    if memory >= NEEDED_MEMORY:
        yield ok("memory", says)
    else:
        yield note("memory", says, "close other notebooks: Kernel > Shut Down All Kernels")
    free = shutil.disk_usage(Path(__file__).parent).free
    if free >= NEEDED_DISK:
        yield ok("disk", f"{free / 2**30:.0f} GiB free")
    else:
        mend = "free a gigabyte; `pip cache purge` often gives several"
        yield problem("disk", f"{free / 2**20:.0f} MiB free", mend)


def browser() -> Iterator[Finding]:
    if path := find_browser():
        yield ok("browser", path)
    else:
        says = "no Chromium, so tests/browser is skipped"
        yield note("browser", says, "sudo apt-get install chromium")


def find_browser() -> str | None:
    """The path of a Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def setting() -> Iterator[Finding]:
    import course

    try:
        yield ok("mode", str(course.MODE))
    except CourseError as error:
        yield problem("mode", str(error), "unset COURSE_MODE COURSE_CACHE TRITON_CACHE_DIR")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    setting, python, torch_and_triton, gpu, compiler, tools, cache, memory_and_disk, browser,
)  # fmt: skip


def _mend_unusable_gpu() -> str:
    cuda = torch_cuda()
    if cuda is None:
        return ANEW if PACKED.is_dir() else f"{ANEW} TORCH="
    driver = DRIVERS.get(cuda.split(".")[0])
    if driver is None:
        return "update the NVIDIA driver"
    other = f"or another way to NVIDIA driver {driver} or newer"
    return f"sudo ubuntu-drivers install nvidia:{driver} ({other})"


def _package(name: str) -> Path:
    """The folder of the package that `import` would find."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else Path(name)


def _version(package: str) -> str | None:
    """The version of the package that `import` would find: several may be installed."""
    folder = [str(_package(package).parent)]
    distributions = importlib.metadata.distributions(name=package, path=folder)
    return next((distribution.version for distribution in distributions), None)


def _major_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _driver() -> str:
    from .gpus.recorded import driver_version

    return driver_version()


def _file_system(path: Path) -> str:
    try:
        answer = subprocess.run(
            ["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip()
