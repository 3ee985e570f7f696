"""A kernel's SASS as a graph: its instructions in blocks, which follow one another, and its loops.

nvdisasm names for each instruction the line that it comes from and the lines from which that was
called, so nothing needs to be assembled a second time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from course.errors import CourseError
from course.gpus import throughput as unit
from course.lowering.call_sites import CallSites
from course.lowering.locations import Frame, base
from course.lowering.result import Lowered
from course.lowering.sass import nvidia_tool

_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?P<guard>@!?U?P\w+\s+)?(?P<name>[A-Z][\w.]*)(?P<rest>[^;]*);"
)
_LABEL = re.compile(r"^(\.L_\w+|\$?[\w$.]+):\s*$")
_TARGET = re.compile(r"`\(([^)]*)\)")
_LINE = re.compile(r'//## File "([^"]*)", line (\d+)')
_ENDS = ("BRA", "EXIT", "RET", "BRX", "JMX")
_DIVISION = re.compile(r"\$__cuda_sm\d+_(?:div|rem)_[su]64$")
"""The name of a function of NVIDIA's that divides integers of 64 bits."""
_FUNCTION = "$__"
"""In the names of NVIDIA's functions. The others handle denormals, infinities and the like."""

_UNITS = {
    unit.FLOAT32: "FADD FMUL FFMA FADD32I FMUL32I FFMA32I FSWZADD",
    unit.FLOAT64: "DADD DMUL DFMA DSETP DMNMX",
    unit.FLOAT16: "HADD2 HMUL2 HFMA2 HMNMX2 HSETP2 HSET2",
    unit.INTEGER: (
        "IADD3 IADD LEA LOP3 LOP SHF SHL SHR ISETP IMNMX VIMNMX VIADD VIADDMNMX SEL FSEL PRMT IABS "
        "FSETP FMNMX FCHK PLOP3 MOV BMSK SGXT P2R R2P I2FP F2FP IADD32I MOV32I LOP32I"
    ),
    unit.MULTIPLY: "IMAD IMUL IMUL32I XMAD IDP IMAD32I",
    unit.SPECIAL: "MUFU POPC FLO BREV",
    unit.CONVERSION: "F2F F2I I2F I2I FRND",
    unit.SHUFFLE: "SHFL REDUX MOVM",
    unit.SHARED: "LDS STS LDSM STSM ATOMS",
    unit.LOCAL: "LDL STL",
    unit.GLOBAL: "LDG STG LDGSTS ATOMG ATOM RED REDG LD ST LDGDEPBAR",
}
_UNIT_OF = {name: each for each, names in _UNITS.items() for name in names.split()}
_ACCESSES = {
    "LDG": "load", "LDGSTS": "load", "STG": "store", "ATOMG": "update", "RED": "update",
    "REDG": "update",
}  # fmt: skip
_IN_PTX = re.compile(r"\b(ld|st|atom|red)\.(?:\w+\.)*?global\b|\b(cp)\.async\.\w+\.shared\.global")
_LOC = re.compile(r"\.loc\s+\d+ (\d+) ")


@dataclass(frozen=True)
class Instruction:
    """An instruction of SASS."""

    name: str
    """With its modifiers, as "IMAD.WIDE.U32"."""
    frames: tuple[Frame, ...] = ()
    """The line that it comes from, and those from which that was called, the innermost first."""
    target: str = ""
    """The label that it jumps to, or the function that it calls."""
    guarded: bool = False
    """Whether a predicate may keep it from taking effect; it is issued all the same."""

    @property
    def operation(self) -> str:
        """Its name without modifiers."""
        return self.name.partition(".")[0]

    @property
    def unit(self) -> str:
        """What computes it, as `gpus.throughput` calls it."""
        each = _UNIT_OF.get(self.operation, unit.OTHER)
        if each == unit.CONVERSION and re.search(r"[FSUI]64", self.name):
            return unit.WIDE_CONVERSION
        return each

    @property
    def accesses(self) -> bool:
        """Whether it loads from global memory or stores there."""
        return self.operation in _ACCESSES

    @property
    def divides(self) -> bool:
        """Whether it calls a function that divides integers of 64 bits."""
        return self.operation == "CALL" and bool(_DIVISION.search(self.target))

    @property
    def fences(self) -> bool:
        """Whether it waits until all that its thread has stored can be seen by the whole GPU."""
        return bool(re.match(r"MEMBAR(\.\w+)*\.(GPU|SYS)\b", self.name))

    @property
    def file(self) -> str:
        """The name of the file that it comes from: of Triton's library, or of the reader's."""
        return base(self.frames[0][0]) if self.frames else ""

    @property
    def bytes(self) -> int:
        """Bytes of each thread that it moves, if it moves some."""
        bits = re.search(r"\.(?:U|S)?(8|16|64|128)\b", self.name)
        return int(bits[1]) // 8 if bits else 4


@dataclass
class BasicBlock:
    """Instructions that run one after the other, from the first to the last."""

    label: str = ""
    instructions: list[Instruction] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    """The numbers of the blocks that may follow."""

    @property
    def handles_special_cases(self) -> bool:
        """Whether it calls what handles denormals and the like, which is hardly ever run."""
        return any(
            each.operation == "CALL" and _FUNCTION in each.target and not each.divides
            for each in self.instructions
        )


@dataclass(frozen=True)
class CodeLoop:
    """A loop of SASS."""

    header: int
    blocks: frozenset[int]
    """The numbers of all its blocks, those of inner loops among them."""


@dataclass(frozen=True)
class MachineCode:
    """The blocks of a kernel, in the order of their addresses."""

    blocks: list[BasicBlock]

    @cached_property
    def reached(self) -> list[int]:
        """The blocks that can be reached from the first one, in an order of discovery."""
        return _reached(0, [block.after for block in self.blocks])

    @cached_property
    def loops(self) -> list[CodeLoop]:
        """The loops, an inner one before the one around it."""
        after = [block.after for block in self.blocks]
        before: list[list[int]] = [[] for _ in self.blocks]
        for number in self.reached:
            for following in after[number]:
                before[following].append(number)
        found = {number: place for place, number in enumerate(self.reached)}
        bodies: dict[int, set[int]] = {}
        for number, place in found.items():
            for header in after[number]:
                # A way back to a block through which every way to here leads closes a loop.
                if found[header] <= place and number not in _reached(0, after, around=header):
                    body = _reached(number, before, around=header)
                    bodies.setdefault(header, {header}).update(body)
        loops = [CodeLoop(header, frozenset(body)) for header, body in bodies.items()]
        return sorted(loops, key=lambda loop: len(loop.blocks))

    def called(self, call: Instruction) -> list[Instruction]:
        """The instructions of the function that a call runs; none where it stands elsewhere."""
        after = [block.after for block in self.blocks]
        starts = [n for n, block in enumerate(self.blocks) if block.label == call.target]
        numbers = [number for start in starts for number in _reached(start, after)]
        return [each for number in numbers for each in self.blocks[number].instructions]

    def loop_of(self, number: int) -> CodeLoop | None:
        """The innermost loop around a block."""
        return next((loop for loop in self.loops if number in loop.blocks), None)


def _reached(start: int, ways: list[list[int]], around: int | None = None) -> list[int]:
    """The blocks that some ways lead to from one, itself among them, without passing `around`."""
    order: dict[int, None] = {}
    left = [start]
    while left:
        number = left.pop()
        if number not in order and number != around:
            order[number] = None
            left += reversed(ways[number])
    return list(order)


def disassembled(lowered: Lowered) -> str:
    """What `nvdisasm -gi -c` prints of a kernel; "" where no disassembler reads it."""
    if not lowered.target.nvidia or lowered.target.name == "sm_70":
        return ""
    try:
        return nvidia_tool("nvdisasm", lowered.cubin, "-gi", "-c", "-ndf")
    except CourseError:
        return ""


def machine_code_of(lowered: Lowered, listing: str) -> MachineCode | None:
    """The machine code of a kernel, from what `disassembled` gives; None where that is nothing."""
    return parsed(listing, _accesses_of(lowered)) if listing else None


_Accesses = dict[tuple[str, Frame], tuple[Frame, ...]]
"""(kind of access, the line that the assembler was told) -> the lines that it comes from."""


def _accesses_of(lowered: Lowered) -> _Accesses:
    """Where the accesses to global memory come from.

    Triton writes them as inline assembly, whose lines LLVM counts on, so that the assembler is told
    a line some lines below the call's. PTX shows which ones these are.
    """
    calls, chains = CallSites(lowered.listing), dict(lowered.lines.places("ptx"))
    kinds = {"ld": "load", "cp": "load", "st": "store"}
    accesses: _Accesses = {}
    told = 0
    for number, row in enumerate(lowered.ptx.split("\n"), start=1):
        if loc := _LOC.search(row):
            told = int(loc[1])
        elif number in chains and (match := _IN_PTX.search(row)):
            kind = kinds.get(match[1] or match[2], "update")
            frames = tuple(call[:2] for call in calls.path(chains[number], kind))
            accesses[kind, (frames[0][0], told)] = frames
    return accesses


def parsed(listing: str, accesses: _Accesses | None = None) -> MachineCode | None:
    """The blocks of what `nvdisasm -gi -c` prints; None if there are no instructions."""
    blocks = list(_blocks(listing, accesses or {}))
    numbers = {block.label: number for number, block in enumerate(blocks) if block.label}
    for number, block in enumerate(blocks):
        last = block.instructions[-1]
        ends = last.operation in _ENDS and ".DIV" not in last.name
        if ends and last.operation == "BRA" and last.target in numbers:
            block.after.append(numbers[last.target])
        if (not ends or last.guarded) and number + 1 < len(blocks):
            block.after.append(number + 1)
    return MachineCode(blocks) if blocks else None


def _blocks(listing: str, accesses: _Accesses) -> Iterator[BasicBlock]:
    block = BasicBlock()
    frames: list[Frame] = []
    fresh = True
    for row in listing.split("\n"):
        if match := _LINE.search(row):
            frames = [] if fresh else frames
            path = base(match[1]) if "/<" in match[1] else match[1]  # a cell is put in a folder
            frames.append((path, int(match[2])))
            fresh = False
            continue
        label, match = _LABEL.match(row), _INSTRUCTION.match(row)
        fresh = fresh or match is not None
        if match and match["name"] != "NOP":
            block.instructions.append(_instruction(match, frames, accesses))
        ended = block.instructions and block.instructions[-1].operation in _ENDS
        if block.instructions and (label or ended):
            yield block
            block = BasicBlock()
        if label:
            block.label = label[1]
    if block.instructions:
        yield block


def _instruction(match: re.Match[str], frames: list[Frame], accesses: _Accesses) -> Instruction:
    target = _TARGET.search(match["rest"])
    # `@P0 BRA P1, …` and `BRA P1, …` are conditional, and so is `BRA.DIV`.
    condition = re.match(r"\s*!?U?P\w*,", match["rest"])
    instruction = Instruction(
        match["name"], tuple(frames), target[1] if target else "", bool(match["guard"] or condition)
    )
    # A fence is one of the instructions that an atomic becomes.
    kind = "update" if instruction.fences else _ACCESSES.get(instruction.operation, "")
    comes_from = accesses.get((kind, frames[0])) if frames else None
    return replace(instruction, frames=comes_from) if comes_from else instruction
