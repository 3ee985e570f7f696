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

from . import pins
from .cache import cache_folder, refuse_shared
from .errors import CourseError
from .mode import driver_devices, find_gpu, torch_cuda

Level = Literal["ok", "note", "problem"]

# PyTorch's releases and the Triton each is built with.
PAIRS = {
    "2.10": "3.6.0",
    "2.11": "3.6.0",
    "2.12": "3.7.0",
    "2.13": "3.7.1",
    "2.14": "3.8",
    "2.15": "3.9",
}
PINNED = (pins.TORCH, pins.TRITON)
SUPPORTED_TRITON = ((3, 6), (3, 9))
# The oldest NVIDIA driver for each major version of CUDA.
DRIVERS = {"12": 525, "13": 580}
OLDEST_GPU = (7, 5)
# At its peak, with all its processes, a `course check` takes 0.9 to 1.3 GB.
NEEDED_MEMORY = 2 * 10**9
LEARNER_MEMORY = 1.3e9
LEARNERS_PER_CORE = 2
NEEDED_DISK = 2**30


@dataclass(frozen=True)
class Finding:
    """One thing the doctor looked at."""

    name: str
    level: Level
    says: str
    mend: str = ""
    """The command, or the one thing to do, that mends it."""


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
        yield Finding("Python", "ok", f"{version} in {sys.prefix}")
    else:
        yield Finding(
            "Python",
            "problem",
            f"{version}; the course needs 3.11 to 3.13",
            "make setup PYTHON=python3.12",
        )


def torch_and_triton() -> Iterator[Finding]:
    torch, triton = _version("torch"), _version("triton")
    if not torch or not triton:
        missing = " and ".join(
            name for name, version in (("torch", torch), ("triton", triton)) if not version
        )
        yield Finding("torch", "problem", f"{missing} missing", "make clean setup")
        return
    cuda = torch_cuda()
    pair = f"torch {torch} ({f'CUDA {cuda}' if cuda else 'CPU'} build) with triton {triton}"
    low, high = SUPPORTED_TRITON
    if not low <= _major_minor(triton) <= high:
        yield Finding(
            "torch", "problem", f"{pair}; the course needs triton 3.6 to 3.9", "make clean setup"
        )
    elif (torch.split("+")[0], triton) == PINNED:
        yield Finding("torch", "ok", f"{pair}, as pinned")
    elif triton.startswith(PAIRS.get(".".join(torch.split(".")[:2]), "none")):
        yield Finding(
            "torch",
            "ok",
            f"{pair}, a pair that belongs together; the course pins {PINNED[0]} with {PINNED[1]}",
        )
    else:
        yield Finding(
            "torch",
            "note",
            f"{pair}, which were not released together; torch.compile may fail",
            "make clean setup",
        )


def gpu() -> Iterator[Finding]:
    if os.environ.get("COURSE_MODE", "").lower() == "cpu":
        yield Finding(
            "GPU", "note", "CPU mode: COURSE_MODE=cpu asks for it, so no GPU was looked at"
        )
        return
    count, reason = driver_devices()
    if not count:
        yield Finding(
            "GPU", "note", f"CPU mode: {reason}. The lessons run; speeds are shown as recorded"
        )
        return
    usable, reason = find_gpu()
    if not usable:
        yield Finding("GPU", "problem", f"a GPU answers, but {reason}", _mend_unusable_gpu())
        return
    import torch

    for index in range(count):
        name, capability = (
            torch.cuda.get_device_name(index),
            torch.cuda.get_device_capability(index),
        )
        yield capability_finding(
            f"{name}, sm_{capability[0]}{capability[1]}, driver {_driver()}", capability
        )


def capability_finding(gpu_name: str, capability: tuple[int, int]) -> Finding:
    """What Triton can do on a GPU of this compute capability."""
    if capability < OLDEST_GPU:
        says = f"{gpu_name}: too old, as PyTorch's builds need compute capability 7.5 or newer"
        return Finding("GPU", "problem", says, "export COURSE_MODE=cpu")
    if capability < (8, 0):
        return Finding(
            "GPU",
            "note",
            f"{gpu_name}: Triton has no tensor-core path and no bfloat16 here; tl.dot runs, slowly",
        )
    if capability < (9, 0):
        return Finding("GPU", "ok", f"{gpu_name}: tensor cores (mma); no tensor memory accelerator")
    return Finding("GPU", "ok", f"{gpu_name}: tensor cores and tensor memory accelerator")


def compiler() -> Iterator[Finding]:
    # Triton compiles a small C module for the launcher on first use of a GPU; without one it needs no C compiler.
    needed: Level = "problem" if driver_devices()[0] else "note"
    cc = os.environ.get("CC") or next(
        (name for name in ("gcc", "clang", "cc") if shutil.which(name)), None
    )
    if cc and shutil.which(cc):
        yield Finding("C compiler", "ok", shutil.which(cc) or cc)
    else:
        yield Finding(
            "C compiler",
            needed,
            "none found; Triton needs one to launch on a GPU",
            "sudo apt-get install gcc",
        )
    include = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if include.is_file():
        yield Finding("headers", "ok", str(include))
    else:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-dev"
        yield Finding(
            "headers",
            needed,
            f"no {include}; Triton needs it on a GPU",
            f"sudo apt-get install {package}",
        )


def tools() -> Iterator[Finding]:
    """The programs in Triton's own wheel that assemble and disassemble."""
    folder = _package("triton") / "backends" / "nvidia" / "bin"
    for program in ("ptxas", "cuobjdump", "nvdisasm"):
        found = folder / program
        if found.is_file() and os.access(found, os.X_OK):
            yield Finding(program, "ok", str(found))
        else:
            yield Finding(program, "problem", f"missing from {folder}", "make clean setup")


def cache() -> Iterator[Finding]:
    folder = cache_folder()
    try:
        if folder.exists():
            refuse_shared(folder)
        yield Finding("cache", "ok", f"{folder}, yours alone")
    except CourseError as error:
        loose = "chmod 700" in str(error)
        yield Finding(
            "cache",
            "problem",
            str(error),
            f"chmod 700 {folder}" if loose else "export COURSE_CACHE=~/.cache/my-course",
        )
    where = next(path for path in (folder, *folder.parents) if path.exists())
    kind = _file_system(where)
    if kind in (
        "nfs",
        "smb",
        "smb2",
        "cifs",
        "lustre",
        "gpfs",
        "beegfs",
    ):  # as `stat -f` names them
        yield Finding(
            "cache",
            "note",
            f"{folder} is on {kind}, which is slow for it",
            "export COURSE_CACHE=/var/tmp/$USER-course",
        )


def memory_and_disk() -> Iterator[Finding]:
    memory = _available_memory()
    if memory is not None:
        level: Level = "ok" if memory >= NEEDED_MEMORY else "note"
        cores = len(os.sched_getaffinity(0))
        learners = min(int(memory / LEARNER_MEMORY), cores * LEARNERS_PER_CORE)
        says = (
            f"{memory / 1e9:.1f} GB free and {cores} CPU core(s), enough for {max(learners, 1)} at a time: "
            "each learner's checks take up to 1.3 GB, and two learners can share a core"
        )
        yield Finding(
            "memory",
            level,
            says,
            "" if level == "ok" else "close other notebooks: Kernel > Shut Down All Kernels",
        )
    free = shutil.disk_usage(Path(__file__).parent).free
    if free >= NEEDED_DISK:
        yield Finding("disk", "ok", f"{free / 2**30:.0f} GiB free")
    else:
        yield Finding(
            "disk",
            "problem",
            f"{free / 2**20:.0f} MiB free",
            "free a gigabyte; `pip cache purge` often gives several",
        )


def browser() -> Iterator[Finding]:
    found = find_browser()
    if found:
        yield Finding("browser", "ok", found)
    else:
        yield Finding(
            "browser",
            "note",
            "no Chromium, so tests/browser is skipped",
            "sudo apt-get install chromium",
        )


def find_browser() -> str | None:
    """The path of a Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def setting() -> Iterator[Finding]:
    import course

    try:
        yield Finding("mode", "ok", str(course.MODE))
    except CourseError as error:
        yield Finding(
            "mode", "problem", str(error), "unset COURSE_MODE COURSE_CACHE TRITON_CACHE_DIR"
        )


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    setting, python, torch_and_triton, gpu, compiler, tools, cache, memory_and_disk, browser,
)  # fmt: skip


def _mend_unusable_gpu() -> str:
    cuda = torch_cuda()
    if cuda is None:
        return "make clean setup TORCH="
    driver = DRIVERS.get(cuda.split(".")[0])
    if driver is None:
        return "update the NVIDIA driver"
    return f"sudo ubuntu-drivers install nvidia:{driver} (or another way to NVIDIA driver {driver} or newer)"


def _package(name: str) -> Path:
    """The folder of the package that `import` would find."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else Path(name)


def _version(package: str) -> str | None:
    """Its version. Several may be installed, one of them ahead on the path: the folder is asked, not the name."""
    found = importlib.metadata.distributions(name=package, path=[str(_package(package).parent)])
    return next((distribution.version for distribution in found), None)


def _major_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _driver() -> str:
    from .benching.api import driver_version

    return driver_version()


def _available_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next(
        (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None
    )


def _file_system(path: Path) -> str:
    try:
        answer = subprocess.run(
            ["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip()
