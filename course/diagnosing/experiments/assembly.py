"""Variants as machine code, and whether each lost only what it was to lose."""

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from course.errors import CourseError
from course.files import scratch
from course.gpus import throughput as unit
from course.isolate.commands import run_command
from course.lowering.locations import Frame, relocated
from course.lowering.result import Lowered
from course.lowering.sass import nvidia_tool

from ..machine_code import MachineCode, parsed
from .ptx_variants import ADDRESSES, Variant

TIMEOUT_S = 20
KEPT = 0.5
"""The part of a line's instructions of one kind that a variant must keep. One is enough where the
assembler no longer unrolls a loop: what has become of no use is gone as a whole."""
MORE = 1.1
"""How many times as many instructions for spills a variant may have."""
KEPT_OF_ALL = 0.6
"""The part of all instructions that a variant must keep: those that only served what is taken out
may go with it."""
PRODUCTS, ANYWHERE = "products", ("", 0)
FEW = 4
"""So many special functions or operations in float64 may go, since a scalar takes no more;
and so many instructions for spills may come."""
WATCHED = (unit.GLOBAL, unit.SHARED, unit.SHUFFLE, unit.SPECIAL, unit.FLOAT64, PRODUCTS)
"""Kinds of instructions that a variant must keep, but for those that it is about."""
MEANT = {
    "exchange": {unit.SHUFFLE, unit.SHARED},
    "math": {unit.SPECIAL, unit.FLOAT64},
    "products": {PRODUCTS, unit.SHARED},
}
"""A kind of variant -> the instructions that go with it, whatever line the assembler names."""


def assembled(lowered: Lowered, before: MachineCode, variant: Variant) -> bytes | str:
    """A variant in machine code, or why it is none that says something.

    before: the kernel's machine code as it is. Where nothing is to go, nothing is compared.
    """
    try:
        cubin = assemble(lowered, variant.ptx)
        if variant.cure or not variant.removed:
            return cubin
        return lost_besides(before, code_of(cubin), variant) or cubin
    except CourseError as error:
        return str(error)


def assemble(lowered: Lowered, ptx: str) -> bytes:
    """The machine code of an edited PTX, which names the reader's own lines alone.

    Raises CourseError where the assembler refuses it.
    """
    with scratch() as folder:
        source, output = folder / "kernel.ptx", folder / "kernel.ptx.o"
        source.write_text(relocated(ptx, lowered.own))
        files = {".ptx": str(source), ".o": str(output)}  # in place of those of the first run
        command = [files.get(Path(word).suffix, word) for word in lowered.assembler.command]
        ended = run_command(command, TIMEOUT_S)
        if ended.how != "finished":
            said = (ended.stderr.strip().splitlines() or [""])[0]
            raise CourseError(f"{ended.sentence('the assembler')}: {said}")
        return output.read_bytes()


def code_of(cubin: bytes) -> MachineCode:
    """Machine code as instructions with their lines. Raises CourseError if it cannot be read."""
    if code := parsed(nvidia_tool("nvdisasm", cubin, "-g", "-c", "-ndf")):
        return code
    raise CourseError("the machine code holds no instructions")


def lost_besides(before: MachineCode, after: MachineCode, variant: Variant) -> str:
    """What an edited kernel has lost beside what was meant, in words; empty if nothing."""
    was, left = (_counts(code, variant.places) for code in (before, after))
    meant = MEANT.get(variant.kind, set())
    room = variant.removed
    rolled = len(after.loops) > len(before.loops)
    for (line, kind), number in was.items():
        lost = number - left[line, kind]
        if kind in meant:
            lost, room = lost - room, room - min(lost, room)
        least = 1 if rolled else KEPT * number
        few = FEW if kind in (unit.SPECIAL, unit.FLOAT64) else 0
        if kind in WATCHED and lost > few and left[line, kind] < least:
            return f"{lost} of {number} instructions for {kind} in line {line[1]} went with it"
    spilled = [
        sum(n for (_, kind), n in each.items() if kind == unit.LOCAL) for each in (was, left)
    ]
    if spilled[1] > MORE * spilled[0] + FEW:
        return "it spills more"
    least = KEPT_OF_ALL * was.total() - variant.removed * bool(meant)
    if not rolled and variant.kind != ADDRESSES and left.total() < least:
        return f"{was.total() - left.total()} of {was.total()} instructions went with it"
    return ""


def _counts(code: MachineCode, lines: Collection[Frame]) -> Counter[tuple[Frame, str]]:
    """The instructions by their line and kind, those of these lines left out."""
    others = (
        (each, each.line)
        for block in code.blocks
        for each in block.instructions
        if each.line and each.line not in lines
    )
    # The assembler tells of few products where they come from.
    return Counter(
        (ANYWHERE, PRODUCTS) if "MMA" in each.operation else (line, each.unit)
        for each, line in others
    )
