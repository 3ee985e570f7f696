"""GPUs to compile for, by name."""

from dataclasses import dataclass

from triton.backends.compiler import GPUTarget

from course.errors import CourseError


@dataclass(frozen=True)
class Target:
    """A GPU architecture as the compiler and a kernel's resources need to know it."""

    name: str
    shared_bytes: int
    """Shared memory that one program may have."""

    @property
    def triton(self) -> GPUTarget:
        if self.name.startswith("sm_"):
            return GPUTarget("cuda", int(self.name[3:]), 32)
        return GPUTarget("hip", self.name, 64 if self.name.startswith("gfx9") else 32)


# From the table of compute capabilities in NVIDIA's CUDA programming guide, and AMD's table of GPU specifications (ROCm).
_SHARED_KIB = {
    "sm_70": 96, "sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99, "sm_90": 227,
    "sm_100": 227, "sm_103": 227, "sm_120": 99,
    "gfx90a": 64, "gfx942": 64, "gfx950": 160, "gfx1100": 64, "gfx1201": 64,
}  # fmt: skip
TARGETS = {name: Target(name, kib * 1024) for name, kib in _SHARED_KIB.items()}


def target_of(name: str) -> Target:
    """The target of this name, as "sm_90" or "gfx942". Raises CourseError where it is not known."""
    if name not in TARGETS:
        raise CourseError(f"There is no target {name!r}: there is {', '.join(TARGETS)}.")
    return TARGETS[name]
