"""What a compiled kernel's binary says: SASS, registers, spills. Asks the disassemblers that come
with Triton."""

import re
from dataclasses import dataclass
from pathlib import Path

import triton

from course.errors import CourseError
from course.files import scratch
from course.gpus.limits import MOST_THREADS, Target
from course.isolate.commands import run_command
from course.triton_internals.compiler import refuse_full, refuse_half

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TIMEOUT_S = 60
RESERVED_SHARED_BYTES = 1024
"""Of a multiprocessor's shared memory, for each program, from sm_80 on (CUDA programming guide)."""


@dataclass(frozen=True)
class Resources:
    """What one program of a kernel needs, and how many fit a multiprocessor. Prints as a few
    lines."""

    target: str
    num_warps: int
    registers: int
    """Of each thread, 32 bits wide (AMD: vector registers)."""
    spill_bytes: int
    """Of each thread: what found no register and lies in memory."""
    shared_bytes: int
    """Of a program."""
    most_shared_bytes: int
    """What a program may have on the target."""
    programs_per_sm: int | None
    """None where it is not computed here, on AMD and for clusters; 0 where a program does not
    fit."""
    limit: str
    """What keeps more programs out: registers, shared memory, warps or programs."""
    occupancy: float | None
    """The warps that fit as a fraction of those that a multiprocessor can hold."""

    most_warps: int
    """What a program may have: 1,024 threads."""

    @property
    def fits(self) -> bool:
        return self.shared_bytes <= self.most_shared_bytes and self.num_warps <= self.most_warps

    def __str__(self) -> str:
        lines = [
            f"{self.registers} registers a thread, {self.spill_bytes} bytes spilled",
            f"{self.shared_bytes:,} bytes of shared memory a program, of {self.most_shared_bytes:,}"
            + (
                ": too much, it cannot be launched"
                if self.shared_bytes > self.most_shared_bytes
                else ""
            ),
        ]
        if self.num_warps > self.most_warps:
            lines.append(
                f"{self.num_warps} warps, and a program may have {self.most_warps}: it cannot be launched"
            )
        if self.occupancy is not None:
            warps = f"{self.num_warps} warp{'s' if self.num_warps != 1 else ''}"
            held = f"programs of {warps} on a multiprocessor: {self.programs_per_sm}"
            lines.append(f"{held}, occupancy {self.occupancy:.0%}, limited by {self.limit}")
        return "\n".join(lines)

    __repr__ = __str__


def sass_of(cubin: bytes, ptx: str, assembler: list[str], target: Target) -> str:
    """The machine code of a cubin as text, with a comment for each source line that instructions
    come from.

    ptx: what the cubin was assembled from, with the locations that are wanted; assembler: the command that did so. It is
    assembled once more for the sake of the locations, which do not touch the code.
    """
    if target.name == "sm_70":
        raise CourseError(
            "NVIDIA's disassembler in Triton does not know sm_70 any more: its stages end with the cubin."
        )
    with scratch() as folder:
        located = folder / "kernel.ptx.o"
        (folder / "kernel.ptx").write_text(ptx)
        command = [_placed(word, folder) for word in assembler]
        if command and run_command(command, TIMEOUT_S).how == "finished":
            refuse_half(located)
            cubin = located.read_bytes()
        else:
            refuse_full(folder)
    return _tool("nvdisasm", cubin, "-g", "-c", "-ndf")


def _placed(word: str, folder: Path) -> str:
    """A word of the assembler's command, with our files in place of Triton's."""
    if word.endswith(".ptx.o"):
        return str(folder / "kernel.ptx.o")
    return str(folder / "kernel.ptx") if word.endswith(".ptx") else word


def resources_of(
    binary: bytes,
    assembly: str,
    assembler_log: str,
    shared_bytes: int,
    num_warps: int,
    num_ctas: int,
    target: Target,
) -> Resources:
    """What a kernel needs.

    assembly: of an AMD kernel, whose resources stand there. assembler_log: what NVIDIA's assembler said of spills.
    shared_bytes: as the compiler has allocated them. num_ctas: programs of a cluster, for which no occupancy is computed.
    """
    if target.nvidia:
        used = _tool("cuobjdump", binary, "--dump-resource-usage")
        registers = _number(r"REG:(\d+)", used)
        spilled = _number(r"(\d+) bytes spill stores", assembler_log)
        programs, limit = (
            _programs_per_sm(registers, shared_bytes, num_warps, target)
            if num_ctas == 1
            else (None, "")
        )
    else:
        registers = _number(r"\.vgpr_count: +(\d+)", assembly)
        spilled = 4 * _number(r"\.vgpr_spill_count: +(\d+)", assembly)
        programs, limit = None, ""
    return Resources(
        target.name, num_warps, registers, spilled, shared_bytes, target.shared_bytes, programs, limit,
        None if programs is None else programs * num_warps / target.sm_warps, MOST_THREADS // target.warp_size,
    )  # fmt: skip


def _programs_per_sm(
    registers: int, shared_bytes: int, num_warps: int, target: Target
) -> tuple[int, str]:
    """How many programs a multiprocessor holds at once, and what the limit is.

    As NVIDIA's occupancy calculator has it: a multiprocessor has 65,536 registers, given to warps in units of 256, on each
    of its four partitions; shared memory is given in units of 128 bytes.
    """
    warp_registers = -(-registers * 32 // 256) * 256
    partition_warps = 65_536 // 4 // max(warp_registers, 256)
    reserved = RESERVED_SHARED_BYTES if int(target.name[3:]) >= 80 else 0
    program_shared = -(-(shared_bytes + reserved) // 128) * 128
    limits = {
        "registers": 4 * partition_warps // num_warps,
        "shared memory": target.sm_shared_bytes // program_shared
        if program_shared
        else target.sm_programs,
        "warps": target.sm_warps // num_warps,
        "programs": target.sm_programs,
    }
    if shared_bytes > target.shared_bytes:
        limits["shared memory"] = 0
    if num_warps * target.warp_size > MOST_THREADS:
        limits["warps"] = 0
    return min(limits.values()), min(reversed(limits), key=lambda name: limits[name])


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


def _tool(name: str, binary: bytes, *options: str) -> str:
    with scratch() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(binary)
        ended = run_command([str(TOOLS / name), *options, str(path)], TIMEOUT_S)
    if ended.how != "finished":
        raise CourseError(
            f"{name} could not read the kernel ({ended.how}): {ended.stderr.strip()[:200]}"
        )
    return ended.stdout
