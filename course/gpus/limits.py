"""GPUs to compile for, by name, with the limits that a kernel meets there."""

from dataclasses import dataclass

from course import MODE
from course.errors import CourseError
from course.triton_internals.driver import GPUTarget

KIB = 1024
SECTOR_BYTES = 32
"""The least memory that an NVIDIA GPU moves, aligned (Nsight Compute, profiling guide)."""
LINE_SECTORS = 4
"""Sectors of a cache line."""
LINE_BYTES = LINE_SECTORS * SECTOR_BYTES
MOST_THREADS = 1024
"""The most threads of a program, on every GPU."""
MOST_GRID = (2**31 - 1, 65_535, 65_535)
"""The most programs along each axis of a grid (CUDA programming guide)."""
WIDEST_BYTES = 16
"""What one instruction moves for a thread at most."""


@dataclass(frozen=True)
class Target:
    """A GPU architecture as the compiler and a kernel's resources need to know it."""

    name: str
    shared_bytes: int
    """Shared memory that one program may have."""
    sm_warps: int = 0
    """Warps that one multiprocessor holds; 0 where it is not known here (AMD)."""
    sm_programs: int = 0
    """Programs that one multiprocessor holds."""
    sm_shared_bytes: int = 0
    """Shared memory of one multiprocessor."""

    @property
    def nvidia(self) -> bool:
        return self.name.startswith("sm_")

    @property
    def capability(self) -> int:
        """NVIDIA's compute capability times ten; 0 for others."""
        return int(self.name[3:]) if self.nvidia else 0

    @property
    def dot(self) -> str:
        """What Triton makes of tl.dot for operands of 16 bits, as `counts` calls it."""
        if not self.nvidia:
            return "mfma" if self.name.startswith("gfx9") else "wmma"
        if self.capability < 80:
            return "fp32 fused multiply-adds"
        return {9: "wgmma", 10: "tcgen05"}.get(self.capability // 10, "mma")

    @property
    def copies(self) -> str:
        """How it loads into shared memory while a program computes: "none", "cp.async" or "TMA"."""
        return "none" if self.capability < 80 else "cp.async" if self.capability < 90 else "TMA"

    @property
    def triton(self) -> GPUTarget:
        if self.nvidia:
            return GPUTarget("cuda", self.capability, 32)
        return GPUTarget("hip", self.name, self.warp_size)

    @property
    def warp_size(self) -> int:
        return 64 if self.name.startswith("gfx9") else 32


def _nvidia(capability: int, program_kib: int, warps: int, programs: int, sm_kib: int) -> Target:
    return Target(f"sm_{capability}", program_kib * KIB, warps, programs, sm_kib * KIB)


_ALL = (
    # NVIDIA's CUDA programming guide, technical specifications by compute capability.
    _nvidia(70, program_kib=96, warps=64, programs=32, sm_kib=96),
    _nvidia(75, program_kib=64, warps=32, programs=16, sm_kib=64),
    _nvidia(80, program_kib=163, warps=64, programs=32, sm_kib=164),
    _nvidia(86, program_kib=99, warps=48, programs=16, sm_kib=100),
    _nvidia(87, program_kib=163, warps=48, programs=16, sm_kib=164),
    _nvidia(89, program_kib=99, warps=48, programs=24, sm_kib=100),
    _nvidia(90, program_kib=227, warps=64, programs=32, sm_kib=228),
    _nvidia(100, program_kib=227, warps=64, programs=32, sm_kib=228),
    _nvidia(103, program_kib=227, warps=64, programs=32, sm_kib=228),
    _nvidia(120, program_kib=99, warps=48, programs=24, sm_kib=100),
    # AMD's table of accelerator and GPU hardware specifications (ROCm documentation): LDS.
    Target("gfx90a", 64 * KIB),
    Target("gfx942", 64 * KIB),
    Target("gfx950", 160 * KIB),
    Target("gfx1100", 64 * KIB),
    Target("gfx1201", 64 * KIB),
)
TARGETS = {target.name: target for target in _ALL}


def target_of(name: str | None) -> Target:
    """The target of this name, as "sm_90" or "gfx942", or of a GPU, as "H200".

    name: by default this machine's GPU, and sm_90 in CPU mode.

    Raises CourseError where it is not known.
    """
    if name is None:
        name = _this_gpu() if MODE.gpu else "sm_90"
    if name not in TARGETS:
        name = _architecture(name)
    return TARGETS[name]


def _architecture(product: str) -> str:
    """What a GPU that is sold under this name is compiled for."""
    from .peaks import GPUS, gpu_of

    try:
        return gpu_of(product).target
    except CourseError:
        raise CourseError(
            f"There is no target {product!r}: there is {', '.join(TARGETS)}, or a GPU by its name "
            f"({', '.join(GPUS)})."
        ) from None


def _this_gpu() -> str:
    import torch

    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"
