"""What each kernel took on the GPU, as CUPTI tells PyTorch's profiler: of all kernels, whoever
launched them, from whatever thread or CUDA graph."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course import MODE
from course.triton_internals.driver import trials_noted


@dataclass(frozen=True)
class GpuKernel:
    """One kernel that has run on a GPU."""

    name: str
    start_ns: float
    """Since 1970."""
    us: float
    device: int
    grid: tuple[int, ...]
    """Empty for a copy or a fill."""


@dataclass
class Timed:
    """What ran on GPUs while it was watched."""

    kernels: list[GpuKernel] = field(default_factory=list)
    trials: list[tuple[int, int]] = field(default_factory=list)
    """When `@triton.autotune` measured: from, to, in nanoseconds since 1970."""
    problem: str = ""
    """Why there are no times where there is a GPU; else empty."""

    def is_trial(self, kernel: GpuKernel) -> bool:
        return any(start <= kernel.start_ns <= end for start, end in self.trials)


@contextlib.contextmanager
def gpu_timed() -> Iterator[Timed]:
    """While active, kernels are timed, if there is a GPU. They are there once it is over."""
    timed = Timed()
    if not MODE.gpu:
        yield timed
        return
    from torch.profiler import ProfilerActivity, profile

    # Without what the CPU does: that would slow every operation.
    profiler = profile(activities=[ProfilerActivity.CUDA])
    try:
        profiler.start()
    except RuntimeError as error:  # another one is at work
        timed.problem = str(error)
    try:
        with trials_noted(timed.trials):
            yield timed
    finally:
        if not timed.problem:
            profiler.stop()
            with tempfile.TemporaryDirectory(prefix="course-profile-") as folder:
                path = Path(folder) / "trace.json"
                profiler.export_chrome_trace(str(path))
                timed.kernels = kernels_of(json.loads(path.read_bytes()))


def kernels_of(trace: dict[str, Any]) -> list[GpuKernel]:
    """The GPU's part of a trace as PyTorch's profiler exports it."""
    base = trace.get("baseTimeNanoseconds", 0)
    found = []
    for each in trace["traceEvents"]:
        if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            device, grid = each["args"].get("device", 0), tuple(each["args"].get("grid", ()))
            start_ns = base + 1000 * each["ts"]
            found.append(GpuKernel(each["name"], start_ns, each["dur"], device, grid))
    return found
