"""GPU mode or CPU mode: the one place that asks.

- GPU mode: an NVIDIA GPU answers, and PyTorch and Triton can use it.
  Kernels are compiled and launched.
- CPU mode: none does. Triton's interpreter runs the kernels, on the CPU.

Triton reads TRITON_INTERPRET when it is imported and when a kernel is decorated, so the mode is
chosen when `course` is imported, which must come before `import triton`. Asking costs milliseconds:
neither PyTorch nor Triton is imported for it.
"""

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .cache import cache_folder, private_folder, refuse_shared
from .errors import CourseError


@dataclass(frozen=True)
class Mode:
    """What this process does with a kernel, and why."""

    name: Literal["GPU", "CPU"]
    reason: str
    device: Literal["cuda", "cpu"]
    """Where a lesson puts its tensors."""
    interpreting: bool
    """Whether a kernel decorated here is interpreted. False in GPU mode and in a child that
    compiles."""
    by_triton: bool = False
    """Whether Triton's own variable, TRITON_INTERPRET, asks for it."""
    in_page: bool = False
    """Whether this is a page of the site, in a browser: one process, and no compiler."""

    @property
    def gpu(self) -> bool:
        return self.name == "GPU"

    def __str__(self) -> str:
        return f"{self.name} mode: {self.reason}"


def choose(environ: MutableMapping[str, str]) -> Mode:
    """Choose the mode from the environment and the machine.

    COURSE_MODE=cpu or gpu decides; then TRITON_INTERPRET=1, which means CPU mode; then whether a
    GPU answers. COURSE_CHILD, set by `course.isolate`, tells a child process what it is for; a page
    of the site sets it to "page".
    """
    child = environ.get("COURSE_CHILD")
    if child == "page":
        return Mode("CPU", "this page interprets kernels", "cpu", interpreting=True, in_page=True)
    if child == "compile":
        return Mode("CPU", "this process compiles and runs nothing", "cpu", interpreting=False)
    if child == "interpret":
        return Mode("CPU", "this process interprets kernels", "cpu", interpreting=True)
    if child == "launch":
        # The driver is not asked: a process that has used it cannot fork children that use it.
        return Mode("GPU", "this process launches kernels", "cuda", interpreting=False)

    asked = environ.get("COURSE_MODE", "").lower()
    if asked not in ("", "cpu", "gpu"):
        raise CourseError(f"COURSE_MODE is {asked!r}: set it to cpu or gpu, or leave it unset.")
    if asked == "cpu":
        return Mode("CPU", "COURSE_MODE=cpu asks for it", "cpu", interpreting=True)
    if not asked and environ.get("TRITON_INTERPRET") == "1":
        reason = "TRITON_INTERPRET=1 asks for it"
        return Mode("CPU", reason, "cpu", interpreting=True, by_triton=True)

    gpu, reason = find_gpu()
    if gpu and not asked and (capability := driver_capability()) < OLDEST:
        reason = (
            f"this GPU has compute capability {capability[0]}.{capability[1]}, and Triton no longer"
            f" supports any below {OLDEST[0]}.{OLDEST[1]} (COURSE_MODE=gpu tries it all the same)"
        )
        return Mode("CPU", reason, "cpu", interpreting=True)
    if gpu:
        return Mode("GPU", reason, "cuda", interpreting=False)
    if asked == "gpu":
        raise CourseError(
            f"COURSE_MODE=gpu, but {reason}: unset COURSE_MODE, or run `course doctor` to see what"
            " is missing."
        )
    return Mode("CPU", reason, "cpu", interpreting=True)


def find_gpu() -> tuple[bool, str]:
    """Whether an NVIDIA GPU answers and PyTorch can use it, and the reason as half a sentence."""
    count, reason = driver_devices()
    if count == 0:
        return False, reason
    needs = torch_cuda()
    if needs is None:
        return False, "this PyTorch is the CPU build"
    supports = driver_cuda()
    if supports[0] < int(needs.split(".")[0]):
        newest = f"{supports[0]}.{supports[1]}"
        return False, f"the NVIDIA driver supports CUDA {newest} and this PyTorch needs {needs}"
    return True, "an NVIDIA GPU answers" if count == 1 else f"{count} NVIDIA GPUs answer"


def driver_devices() -> tuple[int, str]:
    """How many GPUs the CUDA driver shows this process (CUDA_VISIBLE_DEVICES applies), and the
    reason for none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0, "no NVIDIA driver is installed"
    error = driver.cuInit(0)
    if error:
        return 0, f"the NVIDIA driver finds no GPU (error {error})"
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    return count.value, "" if count.value else "the NVIDIA driver shows no GPU"


OLDEST = (8, 0)
"""The least compute capability that Triton supports."""


def driver_capability() -> tuple[int, int]:
    """The compute capability of the first GPU that the driver shows; it must show one."""
    driver, numbers = ctypes.CDLL("libcuda.so.1"), (ctypes.c_int(), ctypes.c_int())
    for attribute, number in zip((75, 76), numbers, strict=True):  # as cuda.h numbers them
        driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0)
    return numbers[0].value, numbers[1].value


def driver_cuda() -> tuple[int, int]:
    """The newest CUDA version that the installed driver supports; (0, 0) without a driver."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        return 0, 0
    return version.value // 1000, version.value % 1000 // 10


def torch_cuda() -> str | None:
    """The CUDA version that the installed PyTorch is built for; None for a CPU build and for no
    PyTorch.

    Read from its version file: importing PyTorch takes a second.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        text = (Path(spec.submodule_search_locations[0]) / "version.py").read_text()
    except OSError:
        return None
    found = re.search(r"^cuda\b[^=\n]*= *['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return found[1] if found else None


def activate(mode: Mode, environ: MutableMapping[str, str]) -> None:
    """Set what Triton reads from the environment, and check that it has not been read already.

    Raises CourseError where Triton was imported before in the other way, or the cache is not safe.
    """
    refuse_wrong_import(mode)
    if mode.interpreting:
        environ["TRITON_INTERPRET"] = "1"
    else:
        environ.pop("TRITON_INTERPRET", None)
    # Triton 3.9 warns on stderr unless this is set, and its default flips in 3.10: one setting for
    # all versions.
    environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    chosen = environ.get("TRITON_CACHE_DIR")
    if chosen is None:
        environ["TRITON_CACHE_DIR"] = str(private_folder(cache_folder(environ)) / "triton")
    elif os.path.isdir(chosen):
        refuse_shared(Path(chosen), "TRITON_CACHE_DIR")


def refuse_wrong_import(mode: Mode) -> None:
    """Raise CourseError where Triton is in this process already and its library was decorated for
    the other mode."""
    triton, language = sys.modules.get("triton"), sys.modules.get("triton.language")
    library_function = getattr(language, "cdiv", None)
    if triton is None or library_function is None:
        return
    interpreted = not isinstance(library_function, triton.JITFunction)
    if interpreted != mode.interpreting:
        was, needs = ("on", "off") if interpreted else ("off", "on")
        raise CourseError(
            f"Triton was imported before course, with its interpreter {was}, and this is"
            f" {mode.name} mode, which needs it {needs}: restart the session (Kernel > Restart) and"
            " put the course import first."
        )
