"""NVIDIA's machine code as text, from the disassembler that comes with Triton, and what the
assembler decided for each instruction: how long to wait, and for what.

The hardware does not check whether an operand is ready: the assembler writes into each instruction
how many cycles later the next may start, and for results of unknown latency which of six barriers
to set and to wait for. The bits are those that the CuAssembler project and the paper "Dissecting
the NVIDIA Volta GPU Architecture via Microbenchmarking" (Jia et al., 2018) describe; NVIDIA
documents none. They hold from sm_70 on.
"""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import triton

from course.errors import CourseError
from course.files import scratch
from course.gpus.limits import Target
from course.isolate.commands import run_command
from course.triton_internals.compiler import refuse_full, refuse_half

from .locations import from_octal

LEGEND = "[barriers waited for:set when Read:set when Written:Yields:Stalls, in cycles]"
BARRIERS = 6
NO_BARRIER = 7

# The first half of an instruction stands beside it, the second in a line of its own.
_FIRST = re.compile(r"\s*/\* 0x[0-9a-f]{16} \*/$")
_SECOND = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/$")


@dataclass(frozen=True)
class ControlCode:
    """The control bits of an instruction. Prints as `[0-2---:R-:W1:Y:S04]`."""

    stall: int
    """Cycles until the warp may issue its next instruction."""
    yields: bool
    """Whether another warp is preferred for the next issue."""
    set_when_read: int | None
    """The barrier that is freed when the operands have been read."""
    set_when_written: int | None
    """The barrier that is freed when the result is there."""
    waits_for: tuple[int, ...]
    """The barriers that must be free before the instruction is issued."""

    @classmethod
    def of(cls, word: int) -> "ControlCode":
        """Read from the upper 64 of an instruction's 128 bits."""
        read, written, waits = word >> 49 & 7, word >> 46 & 7, word >> 52 & 0x3F
        return cls(
            word >> 41 & 15,
            not word >> 45 & 1,
            None if read == NO_BARRIER else read,
            None if written == NO_BARRIER else written,
            tuple(barrier for barrier in range(BARRIERS) if waits >> barrier & 1),
        )

    def __str__(self) -> str:
        waits = "".join(str(n) if n in self.waits_for else "-" for n in range(BARRIERS))
        sets = (self.set_when_read, self.set_when_written)
        read, written = ("-" if barrier is None else barrier for barrier in sets)
        return f"[{waits}:R{read}:W{written}:{'Y' if self.yields else '-'}:S{self.stall:02}]"


def split_encodings(listing: str) -> tuple[str, dict[int, ControlCode]]:
    """What `nvdisasm -hex` prints, as the text without encodings, and by row the control codes.

    Rows of the text are counted from 1.
    """
    rows: list[str] = []
    codes = {}
    for line in listing.split("\n"):
        if second := _SECOND.match(line):
            codes[len(rows)] = ControlCode.of(int(second[1], 16))
        else:
            rows.append(_FIRST.sub("", line))
    return "\n".join(rows), codes


TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TIMEOUT_S = 60


def disassembled(
    cubin: bytes, ptx: str, assembler: list[str], target: Target
) -> tuple[str, dict[int, ControlCode]]:
    """The machine code of a cubin as text, with a comment for each source line that instructions
    come from; and what each instruction waits for and sets, by its row, from 1.

    ptx: what the cubin was assembled from, with the locations that are wanted. assembler: the
    command that did so. It is run once more for the sake of the locations, which do not touch the
    code.
    """
    if target.name == "sm_70":
        raise CourseError(
            "NVIDIA's disassembler in Triton does not know sm_70 any more: its stages end with the "
            "cubin."
        )
    with scratch() as folder:
        source, located = folder / "kernel.ptx", folder / "kernel.ptx.o"
        source.write_text(ptx)
        files = {".ptx": str(source), ".o": str(located)}  # in place of those of the first run
        command = [files.get(Path(word).suffix, word) for word in assembler]
        if command and run_command(command, TIMEOUT_S).how == "finished":
            refuse_half(located)
            cubin = located.read_bytes()
        else:
            refuse_full(folder)
    return split_encodings(nvidia_tool("nvdisasm", cubin, "-g", "-c", "-ndf", "-hex"))


@functools.lru_cache(maxsize=64)
def nvidia_tool(name: str, binary: bytes, *options: str) -> str:
    """What one of NVIDIA's tools prints about a cubin. Raises CourseError if it cannot read it.

    The last answers are kept: the disassembler takes 0.2 s to start, however short the code.
    """
    with scratch() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(binary)
        ended = run_command([str(TOOLS / name), *options, str(path)], TIMEOUT_S)
    if ended.how != "finished":
        words = ended.stderr.strip()[:200]
        raise CourseError(f"{ended.sentence(name)}{f'; it said: {words}' if words else ''}.")
    return from_octal(ended.stdout)
