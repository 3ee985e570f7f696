"""NVIDIA's machine code as text, from the disassembler that comes with Triton."""

from pathlib import Path

import triton

from course.errors import CourseError
from course.files import scratch
from course.gpus.limits import Target
from course.isolate.commands import run_command
from course.triton_internals.compiler import refuse_full, refuse_half

from .control_codes import ControlCode, split_encodings

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


def nvidia_tool(name: str, binary: bytes, *options: str) -> str:
    """What one of NVIDIA's tools prints about a cubin. Raises CourseError if it cannot read it."""
    with scratch() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(binary)
        ended = run_command([str(TOOLS / name), *options, str(path)], TIMEOUT_S)
    if ended.how != "finished":
        words = ended.stderr.strip()[:200]
        raise CourseError(f"{ended.sentence(name)}{f'; it said: {words}' if words else ''}.")
    return ended.stdout
