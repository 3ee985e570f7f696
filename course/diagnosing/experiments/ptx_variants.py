"""The variants of a kernel: each lets go of one thing, and leaves the rest as it is."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course.lowering.locations import Frame

from .edits import Edit, exchanged, guarded, multiplied, off, passed_on, product_off, with_never
from .read_ptx import Instruction, Ptx

MATH = {"ex2", "lg2", "sin", "cos", "tanh", "rcp", "rsqrt", "sqrt", "div"}
ARITHMETIC = {
    "add", "sub", "mul", "mad", "fma", "and", "or", "xor", "not", "shl", "shr", "shf", "min", "max",
    "neg", "abs", "bfe", "bfi", "prmt", "selp", "popc", "lop3",
}  # fmt: skip
ADDRESSES, ORDER, DIVISIONS = "addresses", "order of the programs", "divisions"
CLOCKS, EMPTY = "clocks", "empty"
MEMORY = ("loads", "stores", "atomics")
"""Kinds that are tried together too: where each takes as long, one alone saves nothing."""
MANY, MOST_LINES = 12, 3
"""A line is tried without its arithmetic if that takes so many instructions, and so many lines are
tried at most."""


@dataclass(frozen=True)
class Variant:
    """A kernel without one thing."""

    kind: str
    """What it lacks, as "loads"."""
    lines: tuple[Frame, ...]
    """The lines that lack it."""
    ptx: str
    places: frozenset[Frame] = frozenset()
    """The lines that machine code names for what it lacks."""
    removed: int = 0
    """The instructions that went."""
    cure: str = ""
    """The change that was made, where results stay as they were."""
    scratch: bool = False
    """Whether it uses memory of its own, whose address is the kernel's last parameter."""


@dataclass(frozen=True)
class Kind:
    """A thing that kernels can be tried without."""

    name: str
    holds: Callable[[Ptx, Instruction], bool]
    edit: Edit


def _exchanges(ptx: Ptx, each: Instruction) -> bool:
    moves = each.into_shared and each.operation != "cp"
    return each.operation == "shfl" or moves


def spins(ptx: Ptx, each: Instruction) -> bool:
    """Whether a branch leads back to an atomic, and the atomic's result decides it."""
    if each.operation != "bra" or not each.guard:
        return False
    labels = [number for number, row in enumerate(ptx.rows) if row.startswith(each.operands[0])]
    origins = ptx.origins([each.guard.lstrip("!")])
    return any(
        other.operation == "atom" and not origins.isdisjoint(other.results)
        for other in ptx.instructions
        if labels and labels[0] < other.row < each.row
    )


def _multiplies(ptx: Ptx, each: Instruction) -> bool:
    """Whether an instruction computes tl.dot, on the tensor cores or one product at a time."""
    one_by_one = each.operation == "fma" and each.place in ptx.dots
    return one_by_one or each.name.startswith(("mma.", "wgmma.mma"))


KINDS = (
    Kind("loads", lambda _, each: touches(each, "ld", "cp.async.c"), off),
    Kind("stores", lambda _, each: touches(each, "st"), off),
    Kind("atomics", lambda _, each: touches(each, "atom", "red"), off),
    Kind("waiting", spins, guarded),
    Kind("products", _multiplies, product_off),
    Kind("exchange", _exchanges, exchanged),
    Kind("math", lambda _, each: each.operation in MATH, multiplied),
    Kind("arithmetic", lambda _, each: each.operation in ARITHMETIC, passed_on),
)


def variants_of(ptx: Ptx) -> Iterator[Variant]:
    """The variants of a kernel: for each kind one without all of it, and one for each line."""
    memory: list[dict[Frame, dict[int, list[str]]]] = []
    locked = any(spins(ptx, each) for each in ptx.instructions)
    copied = any("mbarrier" in each.name for each in ptx.instructions)
    for kind in KINDS:
        # A lock that is never given back, or a copy that never comes, is waited for without an end.
        if (locked and kind.name in ("atomics", "stores")) or (copied and kind.name == "exchange"):
            continue
        by_line: dict[Frame, list[Instruction]] = defaultdict(list)
        for each in ptx.instructions:
            if each.line and kind.holds(ptx, each):
                by_line[each.line].append(each)
        if kind.name == "exchange":
            by_line = {line: _all_exchange(ptx, line) for line in by_line}
        if kind.name == "arithmetic":
            longest = sorted(by_line, key=lambda line: -len(by_line[line]))[:MOST_LINES]
            by_line = {line: by_line[line] for line in longest if len(by_line[line]) >= MANY}
        edited = {line: _edits(ptx, some, kind.edit) for line, some in by_line.items()}
        edits = {line: rows for line, rows in edited.items() if rows}
        if edits and kind.name in MEMORY:
            memory.append(edits)
        if len(edits) > 1:
            yield _together(ptx, kind.name, [edits])
        for line, rows in edits.items():
            yield variant_of(ptx, kind.name, (line,), rows)
    if len(memory) > 1:
        yield _together(ptx, "memory", memory)


def _together(ptx: Ptx, kind: str, edits: list[dict[Frame, dict[int, list[str]]]]) -> Variant:
    """The variant that holds for all lines of these edits."""
    lines = dict.fromkeys(line for each in edits for line in each)
    rows = {row: new for each in edits for some in each.values() for row, new in some.items()}
    return variant_of(ptx, kind, tuple(lines), rows)


def _all_exchange(ptx: Ptx, line: Frame) -> list[Instruction]:
    """What the threads of a program exchange in a line, and their barriers there."""
    return [
        each
        for each in ptx.instructions
        if each.line == line
        and (each.operation in ("shfl", "bar") or ".shared" in each.name)
        and each.operation not in ("cp", "fence")
    ]


def _edits(ptx: Ptx, instructions: list[Instruction], edit: Edit) -> dict[int, list[str]]:
    edits = {each.row: edit(ptx, each) for each in instructions}
    return {row: rows for row, rows in edits.items() if rows is not None}


def variant_of(
    ptx: Ptx, kind: str, lines: tuple[Frame, ...], edits: dict[int, list[str]]
) -> Variant:
    rows = [new for row, text in enumerate(ptx.rows) for new in edits.get(row, [text])]
    places = frozenset(each.place for each in ptx.instructions if each.place and each.row in edits)
    return Variant(kind, lines, with_never("\n".join(rows)), places, len(edits))


def touches(each: Instruction, *names: str) -> bool:
    """Whether an instruction of one of these names touches global memory."""
    return ".global" in each.name and each.name.startswith(names)
