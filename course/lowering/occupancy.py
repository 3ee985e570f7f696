"""What a compiled kernel takes of a GPU, and how many of its programs a multiprocessor holds."""

import re
from dataclasses import dataclass

from course.gpus.limits import MOST_THREADS, Target

from .sass import nvidia_tool
from .worker import Compiled

RESERVED_SHARED_BYTES = 1024
"""Shared memory that each program takes beside its own, from sm_80 on (CUDA programming guide)."""
SM_REGISTERS = 65_536
SM_PARTITIONS = 4
"""Parts of a multiprocessor, each with its own registers and warps."""
REGISTER_UNIT = 256
"""Registers are given to a warp in units of so many."""
SHARED_UNIT_BYTES = 128
"""Shared memory is given to a program in units of so many bytes."""


@dataclass(frozen=True, repr=False)
class Resources:
    """What one program of a kernel needs, and how many fit a multiprocessor. Prints itself."""

    target: str
    num_warps: int
    registers: int
    """Registers per thread, 32 bits wide (AMD: vector registers)."""
    spill_bytes: int
    """Bytes per thread that found no register and lie in memory."""
    shared_bytes: int
    """Shared memory per program."""
    most_shared_bytes: int
    """Shared memory that a program may have on the target."""
    programs_per_sm: int | None
    """Programs that a multiprocessor holds; 0 if none fits. Not computed for AMD and clusters."""
    limit: str
    """What keeps more programs out: registers, shared memory, warps or programs."""
    occupancy: float | None
    """The warps that fit, as a fraction of those that a multiprocessor can hold."""
    most_warps: int
    """Warps that a program may have: 1,024 threads."""

    @property
    def fits(self) -> bool:
        """Whether it can be launched on the target."""
        return self.shared_bytes <= self.most_shared_bytes and self.num_warps <= self.most_warps

    def __str__(self) -> str:
        shared = f"{self.shared_bytes:,} bytes of shared memory per program"
        shared += f", of {self.most_shared_bytes:,}"
        if self.shared_bytes > self.most_shared_bytes:
            shared += ": too much, it cannot be launched"
        lines = [f"{self.registers} registers per thread, {self.spill_bytes} bytes spilled", shared]
        if self.num_warps > self.most_warps:
            lines.append(
                f"{self.num_warps} warps, and a program may have {self.most_warps}: "
                "it cannot be launched"
            )
        if self.occupancy is not None:
            warps = f"{self.num_warps} warp{'s' if self.num_warps != 1 else ''}"
            programs = f"programs of {warps} on a multiprocessor: {self.programs_per_sm}"
            lines.append(f"{programs}, occupancy {self.occupancy:.0%}, limited by {self.limit}")
        return "\n".join(lines)

    __repr__ = __str__


def resources_of(kernel: Compiled, target: Target) -> Resources:
    """What a kernel needs, from its machine code and from what its assembler said."""
    options = kernel.metadata["options"]
    shared_bytes, num_warps = options["shared"], options["num_warps"]
    programs, limit = None, ""
    if target.nvidia:
        usage = nvidia_tool("cuobjdump", kernel.binary, "--dump-resource-usage")
        registers = _number(r"REG:(\d+)", usage)
        spill_bytes = _number(r"(\d+) bytes spill stores", kernel.assembler.log)
        if options.get("num_ctas", 1) == 1:
            programs, limit = _programs_per_sm(registers, shared_bytes, num_warps, target)
    else:
        assembly = kernel.texts["amdgcn"]
        registers = _number(r"\.vgpr_count: +(\d+)", assembly)
        spill_bytes = 4 * _number(r"\.vgpr_spill_count: +(\d+)", assembly)
    return Resources(
        target=target.name,
        num_warps=num_warps,
        registers=registers,
        spill_bytes=spill_bytes,
        shared_bytes=shared_bytes,
        most_shared_bytes=target.shared_bytes,
        programs_per_sm=programs,
        limit=limit,
        occupancy=None if programs is None else programs * num_warps / target.sm_warps,
        most_warps=MOST_THREADS // target.warp_size,
    )


def _programs_per_sm(
    registers: int, shared_bytes: int, num_warps: int, target: Target
) -> tuple[int, str]:
    """How many programs a multiprocessor holds at once, and what the limit is.

    As NVIDIA's occupancy calculator has it: registers are given to warps, on each of the
    multiprocessor's partitions; shared memory is given to programs.
    """
    warp_registers = max(_rounded_up(registers * 32, REGISTER_UNIT), REGISTER_UNIT)
    partition_warps = SM_REGISTERS // SM_PARTITIONS // warp_registers
    reserved = RESERVED_SHARED_BYTES if target.capability >= 80 else 0
    program_shared = _rounded_up(shared_bytes + reserved, SHARED_UNIT_BYTES)
    limits = {
        "registers": SM_PARTITIONS * partition_warps // num_warps,
        "shared memory": target.sm_programs,
        "warps": target.sm_warps // num_warps,
        "programs": target.sm_programs,
    }
    if program_shared:
        limits["shared memory"] = target.sm_shared_bytes // program_shared
    if shared_bytes > target.shared_bytes:
        limits["shared memory"] = 0
    if num_warps * target.warp_size > MOST_THREADS:
        limits["warps"] = 0
    return min(limits.values()), min(reversed(limits), key=lambda name: limits[name])


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0
