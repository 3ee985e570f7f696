"""Bank conflicts of the loads and stores between shared memory and registers that a TTGIR names.

Only those are told whose instructions are known to be the ones that `bank_conflicts` counts: all
that PTX has for such a row are ld.shared or st.shared of the predicted width, and as many of them
as move the whole block. Others (ldmatrix, what a conversion of layouts does, operands that the
tensor cores read themselves) are left out.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from course.lowering.bank_conflicts import access
from course.lowering.layouts import Layout
from course.lowering.locations import Chain
from course.lowering.result import Lowered
from course.lowering.source_map import SourceLine
from course.triton_internals.ir import BlockType, block_types

_MOVE = re.compile(r"\bttg\.local_(load|store)\b")
_SHARED = re.compile(r"\b(ld|st)\.shared(?:::\w+)?(?:\.v(\d))?\.[bfus](\d+)\b")
_ANY_SHARED = re.compile(r"\.shared\b")
DIRECTIONS = {"load": "ld", "store": "st"}


@dataclass(frozen=True)
class Conflict:
    """One load or store of a block in shared memory that takes several cycles for each request."""

    kind: str
    """"load" or "store"."""
    line: SourceLine
    cycles: int
    """Cycles of a request, where 1 would do."""


def conflicts_of(lowered: Lowered) -> Iterator[Conflict]:
    """The bank conflicts that are certain, in the TTGIR's order."""
    if not lowered.target.nvidia:
        return
    widths = _widths(lowered)
    rows = lowered.ttgir.split("\n")
    moves = [
        (row, chain, match[1])
        for row, chain in lowered.lines.places("ttgir")
        if (match := _MOVE.search(rows[row - 1]))
    ]
    for row, chain, kind in moves:
        types = block_types(rows[row - 1])
        memory, registers = (_layout(lowered, types, shared) for shared in (True, False))
        line = lowered.lines.back("ttgir", row)
        if not (memory and registers and line) or memory.shape != registers.shape:
            continue
        if [each for _, each, _ in moves].count(chain) > 1:
            continue
        request = access(memory, registers)
        bytes = registers.elements_per_thread * memory.element_bits // 8
        instructions = bytes // request.bytes_per_thread
        expected = [(DIRECTIONS[kind], request.bytes_per_thread)] * instructions
        if request.cycles > 1 and widths[chain] == expected:
            yield Conflict(kind, line, request.cycles)


def _layout(lowered: Lowered, types: list[BlockType], shared: bool) -> Layout | None:
    """The layout that a move's block has in shared memory, or in registers, if it is known."""
    for type in types:
        for layout in lowered.layouts.all(type.layout) if type.shared == shared else ():
            if layout.shape == type.shape and layout.shared == shared and layout.bases:
                return layout
    return None


def _widths(lowered: Lowered) -> dict[Chain, list[tuple[str, int]]]:
    """A place in the kernel -> its instructions that touch shared memory: what each does, and the
    bytes of each thread that it moves; 0 where it is another one."""
    rows = lowered.ptx.split("\n")
    widths: dict[Chain, list[tuple[str, int]]] = defaultdict(list)
    for row, chain in lowered.lines.places("ptx"):
        if match := _SHARED.search(rows[row - 1]):
            widths[chain].append((match[1], int(match[2] or 1) * int(match[3]) // 8))
        elif _ANY_SHARED.search(rows[row - 1]):
            widths[chain].append(("", 0))
    return widths
