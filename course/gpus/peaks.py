"""Peak figures of GPUs as published: they bound a kernel from below, and no machine reaches them.

Dense rates, a fused multiply-add counted as two operations. Sources:
    A100 (SXM, 80 GB)   NVIDIA A100 Tensor Core GPU Architecture (2020) and A100 datasheet
    H100 (SXM5)         NVIDIA H100 Tensor Core GPU Architecture (tables of the final clocks)
    H200 (SXM)          NVIDIA H200 datasheet; vector rates in 16 bits as the H100's, which has the
                        same multiprocessors
    B200 (HGX)          NVIDIA Blackwell Architecture Technical Brief and HGX B200 specification,
                        per GPU, sparse rates halved
    RTX 4090            NVIDIA Ada GPU Architecture, appendix A (v2.02, with correct fp8 rates)
    T4                  NVIDIA Turing GPU Architecture (2018) and T4 datasheet (which rounds the
                        bandwidth to 0.3 TB/s)
    MI300X              AMD CDNA 3 white paper and MI300X data sheet
The size of the L2 cache: the same papers; of the H200 it is the H100's.
Special functions: 16 results per clock and multiprocessor (NVIDIA, CUDA programming guide,
throughput of native arithmetic instructions) at the boost clock; AMD publishes none.
The L2 cache's speed is published for none of them: it is the recorded one, where there is a record.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from course.errors import CourseError
from course.table import columns

from .limits import KIB, TARGETS

SPECIAL_A_CLOCK = 16


@dataclass(frozen=True)
class Gpu:
    """One GPU. Rates in TFLOP/s, bandwidth in TB/s."""

    name: str
    device_names: tuple[str, ...]
    """What PyTorch calls it. Other GPUs of that name have less memory or another bus."""
    target: str
    """What to compile for; empty where that was not noted."""
    memory: float
    vector: dict[str, float]
    """Outside the tensor cores, by type."""
    dot: dict[str, float]
    """tl.dot in the tensor cores, by the type of what it multiplies."""
    multiprocessors: int
    clock_mhz: int
    special_published: bool = True
    memory_gb: int = 0
    """Memory in 10^9 bytes, as it is sold; 0 where it was not noted."""
    l2_mb: int = 0
    """The L2 cache in 10^6 bytes, as published; 0 where it was not noted."""
    l2: float | None = None
    """Speed of the L2 cache in TB/s: always a measured one. None where nobody has measured it."""
    measured: str = ""
    """The day on which memory and dot were measured; empty where they are published peaks."""

    @property
    def special(self) -> float | None:
        """Exponentials and the like, in 10^12 per second; None where nothing is published."""
        if not self.special_published:
            return None
        return SPECIAL_A_CLOCK * self.multiprocessors * self.clock_mhz / 1e6

    def vector_rate(self, kind: str) -> float:
        """Infinite where nothing is known, so that it bounds nothing."""
        return self.vector.get(kind, self.vector.get("fp32", math.inf))

    def dot_rate(self, kind: str) -> float | None:
        """None where the tensor cores do not take the type; then multiply-adds do the work."""
        if self.measured:
            return self.dot.get(kind)
        if kind.startswith(("fp4", "fp8")):  # where they lack it, the compiler converts it
            wider = (kind[:3], "fp8", "fp16")
            return next((self.dot[each] for each in wider if each in self.dot), None)
        return self.dot.get(kind.partition("x")[0])


_RECORDS = Path(__file__).parent / "recorded"
_L2_H200 = json.loads((_RECORDS / "nvidia-h200.json").read_text())["l2_tb_s"]
_HALF_H100 = {"bf16": 133.8, "fp16": 133.8}
_TENSOR_H100 = {"tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9, "int8": 1978.9}

# Three products of tf32 make one of tf32x3, or of bf16 one of bf16x3: their rate bounds that too.
_ALL = (
    Gpu(
        "A100", ("NVIDIA A100-SXM4-80GB",), "sm_80", memory=2.039,
        vector={"fp64": 9.7, "fp32": 19.5, "bf16": 39, "fp16": 78},
        dot={"fp64": 19.5, "tf32": 156, "bf16": 312, "fp16": 312, "int8": 624},
        multiprocessors=108, clock_mhz=1410, memory_gb=80, l2_mb=40,
    ),
    Gpu(
        "H100", ("NVIDIA H100 80GB HBM3",), "sm_90", memory=3.35,
        vector={"fp64": 33.5, "fp32": 66.9, **_HALF_H100},
        dot={"fp64": 66.9, **_TENSOR_H100},
        multiprocessors=132, clock_mhz=1980, memory_gb=80, l2_mb=50,
    ),
    Gpu(
        "H200", ("NVIDIA H200",), "sm_90", memory=4.8,
        vector={"fp64": 34, "fp32": 67, **_HALF_H100},
        dot={"fp64": 67, **_TENSOR_H100},
        multiprocessors=132, clock_mhz=1980, memory_gb=141, l2_mb=50, l2=_L2_H200,
    ),
    Gpu(
        "B200", ("NVIDIA B200",), "sm_100", memory=8.0,
        vector={"fp64": 40, "fp32": 80, "bf16": 160, "fp16": 160},
        dot={"fp64": 40, "tf32": 1100, "bf16": 2250, "fp16": 2250, "fp8": 4500, "int8": 4500,
             "fp4": 9000},
        multiprocessors=148, clock_mhz=1980, memory_gb=180,
    ),
    Gpu(
        "RTX 4090", ("NVIDIA GeForce RTX 4090",), "sm_89", memory=1.008,
        vector={"fp64": 1.29, "fp32": 82.6, "bf16": 82.6, "fp16": 82.6},
        dot={"tf32": 82.6, "bf16": 165.2, "fp16": 330.3, "fp8": 660.6, "int8": 660.6},
        multiprocessors=128, clock_mhz=2520, memory_gb=24, l2_mb=72,
    ),
    Gpu(
        "T4", ("Tesla T4", "NVIDIA T4"), "sm_75", memory=0.32,
        vector={"fp64": 0.254, "fp32": 8.1, "fp16": 16.2}, dot={},
        multiprocessors=40, clock_mhz=1590, memory_gb=16, l2_mb=4,
    ),
    Gpu(
        "MI300X", ("AMD Instinct MI300X",), "gfx942", memory=5.3,
        vector={"fp64": 81.7, "fp32": 163.4},
        dot={"fp64": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9,
             "int8": 2614.9},
        multiprocessors=304, clock_mhz=2100, special_published=False, memory_gb=192,
    ),
)  # fmt: skip
GPUS = {gpu.name: gpu for gpu in _ALL}


def gpu_of(name: str) -> Gpu:
    """The GPU of this name, as "H200", or as PyTorch names it. Raises CourseError for others."""
    plain = _plain(name)
    for gpu in _ALL:
        if plain in map(_plain, (gpu.name, *gpu.device_names)):
            return gpu
    if built := [gpu.name for gpu in _ALL if gpu.target == name]:
        raise CourseError(
            f"{name} is an architecture, and the speed is that of a GPU: take {' or '.join(built)}."
        )
    raise CourseError(
        f"There are no peak figures for {name!r}: there are some for {', '.join(GPUS)}."
    )


def _plain(name: str) -> str:
    return "".join(str(name).lower().split())


LISTED = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
SERIES = {"sm_86": "RTX 30 series", "sm_120": "RTX 50 series"}
"""Architectures of many GPUs, whose memory differs."""


class GpuLimits:
    """What GPUs of each NVIDIA architecture have. Prints as a table."""

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("", "GPU", "memory", "bandwidth", "shared memory", "loads while", "tl.dot becomes",
             "bfloat16"),
            ("", "", "", "", "of a program", "it computes", "", ""),
        ]  # fmt: skip
        for target in map(TARGETS.__getitem__, LISTED):
            gpus = [gpu for gpu in _ALL if gpu.target == target.name]
            sold = [(gpu.name, f"{gpu.memory_gb} GB", f"{gpu.memory:.2f} TB/s") for gpu in gpus]
            shared = f"{target.shared_bytes // KIB} KiB"
            bfloat16 = "yes" if target.capability >= 80 else "no"
            for cells in sold or [(SERIES[target.name], "", "")]:
                rows.append((target.name, *cells, shared, target.copies, target.dot, bfloat16))
        return columns(rows)

    __repr__ = __str__


def gpu_limits() -> GpuLimits:
    """What an NVIDIA GPU has, architecture by architecture: what a smaller one lacks."""
    return GpuLimits()
