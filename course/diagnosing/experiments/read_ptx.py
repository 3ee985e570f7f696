"""The instructions of a kernel's PTX, one for each row, and what they decide."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from course.brackets import split_outside_brackets
from course.lowering.call_sites import CallSites
from course.lowering.locations import Frame
from course.lowering.result import Lowered

_ROW = re.compile(r"^\s*(?:@(?P<guard>!?%\w+)\s+)?(?P<name>[a-z]\w*[\w.:]*)(?P<operands>[^;]*);")
_REGISTER = re.compile(r"%(?:p|r|rs|rd|f|fd|h|hh|rq)\d+\b")
_ADDRESS = re.compile(r"\[([^\]]*)\]")
NO_RESULT = ("st", "red", "bra", "bar", "barrier", "cp", "ret", "fence", "membar", "stmatrix")
MEMORY = ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix")
KINDS = {"ld": "load", "cp": "load", "st": "store", "atom": "update", "red": "update"}
SHARED = "shared memory"
"""Stands for a register: what is stored there is what is loaded from there."""


@dataclass(frozen=True)
class Instruction:
    """An instruction of PTX."""

    row: int
    """Its place in the text's lines, from 0."""
    guard: str
    """The predicate under which it takes effect, as "%p5" or "!%p5"; empty if it always does."""
    name: str
    """With its modifiers, as "ld.global.v4.b32"."""
    operands: tuple[str, ...]
    place: Frame | None = None
    """The innermost line of the reader's own that it comes from."""
    line: Frame | None = None
    """That line, or the one in which the call begins that touches memory there."""

    @property
    def operation(self) -> str:
        """Its name without modifiers."""
        return self.name.partition(".")[0]

    @cached_property
    def results(self) -> list[str]:
        """The registers that it writes."""
        writes = self.operation not in NO_RESULT and self.operands
        return _REGISTER.findall(self.operands[0]) if writes else []

    @cached_property
    def sources(self) -> list[str]:
        """The registers that it reads, without those of addresses."""
        # A matrix product may add to the registers that it writes.
        first = 1 if self.results and self.operation != "wgmma" else 0
        operands = _ADDRESS.sub("", " ".join(self.operands[first:]))
        return _REGISTER.findall(f"{self.guard} {operands}")

    @cached_property
    def deciding(self) -> list[str]:
        """The registers that decide where memory is touched, whether it is, or what runs next."""
        guard = _REGISTER.findall(self.guard)
        if self.operation == "bra":
            return guard
        if self.operation == "wgmma":  # where its operands lie in shared memory
            return [name for name in self.sources if name.startswith("%rd")]
        if self.operation not in MEMORY:
            return []
        return guard + _REGISTER.findall(" ".join(_ADDRESS.findall(" ".join(self.operands))))

    @property
    def into_shared(self) -> bool:
        """Whether it writes to shared memory."""
        return ".shared" in self.name and self.operation in ("st", "stmatrix", "cp")

    @property
    def gives(self) -> list[str]:
        """The registers that it writes, and shared memory if it writes there."""
        return [*self.results, *[SHARED] * self.into_shared]

    @property
    def from_shared(self) -> bool:
        """Whether it reads shared memory into registers."""
        return ".shared" in self.name and self.operation in ("ld", "ldmatrix")


PROGRAM_REGISTERS = "\t.reg .b32 %course_program, %course_size, %course_index;\n"
PROGRAM_NUMBER = """\
	mov.u32 %course_program, %ctaid.z;
	mov.u32 %course_size, %nctaid.y;
	mov.u32 %course_index, %ctaid.y;
	mad.lo.u32 %course_program, %course_program, %course_size, %course_index;
	mov.u32 %course_size, %nctaid.x;
	mov.u32 %course_index, %ctaid.x;
	mad.lo.u32 %course_program, %course_program, %course_size, %course_index;
"""
"""Instructions that number the programs of a grid, those of its first axis one after the other."""


class Ptx:
    """A kernel's PTX."""

    def __init__(self, lowered: Lowered) -> None:
        self.text = lowered.ptx
        self.rows = self.text.split("\n")
        self.instructions = [*_instructions(self.rows, _lines(lowered, self.rows))]
        texts = lowered.texts.get("ttir", "").split("\n")
        dots = [number for number, row in enumerate(texts, start=1) if " tt.dot " in row]
        found = [lowered.lines.back("ttir", number) for number in dots]
        self.dots = frozenset(line.frame for line in found if line)
        """The lines of tl.dot."""
        self._made_from: dict[str, set[str]] = defaultdict(set)
        for each in self.instructions:
            for result in each.gives:
                self._made_from[result] |= {*each.sources, *[SHARED] * each.from_shared}

    @cached_property
    def steering(self) -> frozenset[str]:
        """The registers from which addresses, masks and branches are computed, by whatever way.

        What passes through shared memory is taken to be all that is loaded from there; what passes
        through global memory is not followed.
        """
        return self.origins(name for each in self.instructions for name in each.deciding)

    def origins(self, registers: Iterable[str]) -> frozenset[str]:
        """These registers, and all from which they are computed."""
        known: set[str] = set()
        left = [*registers]
        while left:
            register = left.pop()
            if register not in known:
                known.add(register)
                left += self._made_from.get(register, ())
        return frozenset(known)

    def steers(self, each: Instruction) -> bool:
        """Whether what an instruction gives decides what is touched, or what runs."""
        return not self.steering.isdisjoint(each.gives)


def _lines(lowered: Lowered, rows: list[str]) -> dict[int, tuple[Frame, Frame]]:
    """A row of the PTX, from 0 -> the place and the line of its instruction."""
    calls, lines = CallSites(lowered.listing), {}
    for number, chain in lowered.lines.places("ptx"):
        match = _ROW.match(rows[number - 1])
        touches = match and ".global" in match["name"]
        kind = KINDS.get(match["name"].partition(".")[0]) if match and touches else None
        line = calls.path(chain, kind)[0] if kind else chain[0]
        lines[number - 1] = chain[0][:2], line[:2]
    return lines


def _instructions(rows: list[str], lines: dict[int, tuple[Frame, Frame]]) -> Iterable[Instruction]:
    for number, row in enumerate(rows):
        if row == "}":  # what follows is for debuggers
            return
        if match := _ROW.match(row):
            parts = split_outside_brackets(match["operands"], ",")
            operands = tuple(part.strip() for part in parts)
            where = lines.get(number, (None, None))
            yield Instruction(number, match["guard"] or "", match["name"], operands, *where)


def beginning(text: str) -> int:
    """The place in a kernel's PTX where its first instruction may stand."""
    begins = re.search(r"^\.visible \.entry [^{]*\{\n(?:\t\.reg [^\n]*\n)*", text, re.MULTILINE)
    assert begins, "a kernel has an entry"
    return begins.end()


def begun_with(text: str, made: str) -> str:
    """The PTX with more instructions before its first."""
    at = beginning(text)
    return text[:at] + made + text[at:]


def pointers(text: str) -> list[str]:
    """The kernel's parameters of 64 bits; the last is a profiler's buffer, which nobody uses."""
    _, _, entry = text[: beginning(text)].partition(".visible .entry")
    return re.findall(r"\.param \.u64[^\n]* (\w+_param_\d+)", entry)
