"""A kernel's SASS as a graph: its instructions in blocks, which follow one another, and its loops.

Each instruction has the innermost line of the reader's own that it comes from.
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


@dataclass(frozen=True)
class Instruction:
    """An instruction of SASS."""

    name: str
    """With its modifiers, as "IMAD.WIDE.U32"."""
    line: Frame | None = None
    """The line that it comes from."""
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
    """A kernel's SASS; "" where no disassembler reads it."""
    try:
        return lowered.sass if lowered.target.nvidia else ""
    except CourseError:
        return ""


def machine_code_of(lowered: Lowered, listing: str) -> MachineCode | None:
    """The machine code of a kernel, from what `disassembled` gives; None where that is nothing."""
    return parsed(listing, _accesses_of(lowered)) if listing else None


_Accesses = dict[tuple[str, Frame], Frame]
"""(kind of access, the line that it comes from) -> the line in which its call begins."""


def _accesses_of(lowered: Lowered) -> _Accesses:
    calls, own = CallSites(lowered.listing), lowered.own
    kinds = {"ld": "load", "cp": "load", "st": "store"}
    rows = lowered.ptx.split("\n")
    accesses: _Accesses = {}
    for number, chain in lowered.lines.places("ptx"):
        if match := _IN_PTX.search(rows[number - 1]):
            kind = kinds.get(match[1] or match[2], "update")
            line = next((place[:2] for place in chain if place[:2] in own), chain[0][:2])
            accesses[kind, line] = calls.path(chain, kind)[0][:2]
    return accesses


def parsed(listing: str, accesses: _Accesses | None = None) -> MachineCode | None:
    """The blocks of SASS; None if there are no instructions."""
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
    line: Frame | None = None
    for row in listing.split("\n"):
        if match := _LINE.search(row):
            path = base(match[1]) if "/<" in match[1] else match[1]  # a cell is put in a folder
            line = path, int(match[2])
            continue
        label, match = _LABEL.match(row), _INSTRUCTION.match(row)
        if match and match["name"] != "NOP":
            block.instructions.append(_instruction(match, line, accesses))
        ended = block.instructions and block.instructions[-1].operation in _ENDS
        if block.instructions and (label or ended):
            yield block
            block = BasicBlock()
        if label:
            block.label = label[1]
    if block.instructions:
        yield block


def _instruction(match: re.Match[str], line: Frame | None, accesses: _Accesses) -> Instruction:
    target = _TARGET.search(match["rest"])
    # `@P0 BRA P1, …` and `BRA P1, …` are conditional, and so is `BRA.DIV`.
    condition = re.match(r"\s*!?U?P\w*,", match["rest"])
    guarded = bool(match["guard"] or condition)
    instruction = Instruction(match["name"], line, target[1] if target else "", guarded)
    # A fence is one of the instructions that an atomic becomes.
    kind = "update" if instruction.fences else _ACCESSES.get(instruction.operation, "")
    began = accesses.get((kind, line)) if line else None
    return replace(instruction, line=began) if began else instruction
