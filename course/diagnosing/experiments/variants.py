"""The variants of a kernel: each lets go of one thing, and leaves the rest as it is.

What goes is put under a predicate that is never true, which the compiler cannot know: it compares a
parameter of the kernel with a number that no parameter is. So addresses, masks and values are still
computed, and nothing becomes dead code that was not meant to. What decides which memory is touched,
or what runs next, is left alone, since without it other things would change as well.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from course.lowering.locations import Frame

from .ptx import SHARED, Instruction, Ptx, beginning, pointers

NEVER = "%course_never"
WIDTHS = {"r": 32, "f": 32, "hh": 32, "rs": 16, "h": 16, "rd": 64, "fd": 64}
"""Bits of a register by the letters of its name."""
MATH = {"ex2", "lg2", "sin", "cos", "tanh", "rcp", "rsqrt", "sqrt", "div"}
ARITHMETIC = {
    "add", "sub", "mul", "mad", "fma", "and", "or", "xor", "not", "shl", "shr", "shf", "min", "max",
    "neg", "abs", "bfe", "bfi", "prmt", "selp", "popc", "lop3",
}  # fmt: skip
ADDRESSES, ORDER, EMPTY = "addresses", "order of the programs", "empty"
PLACES, PLACE_BYTES = 16, 2048
"""Places from which loads are served in turn, and the bytes of each: 16 for each of 128 threads."""
MEMORY = ("loads", "stores", "atomics")
"""Kinds that are tried together too: where each takes as long, one alone saves nothing."""
MANY, MOST_LINES = 12, 3
"""Instructions of arithmetic from which on a line is tried without them, and how many lines are."""

Edit = Callable[[Ptx, Instruction], list[str] | None]
"""The rows in place of an instruction; None where it is left as it is."""


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


def off(ptx: Ptx, each: Instruction) -> list[str] | None:
    """The instruction under a predicate that is never true, and zeros for what it would give."""
    if ptx.steers(each):
        return None
    zeros = [f"\tmov.b{WIDTHS[_letters(name)]} {name}, 0;" for name in each.results]
    return [*zeros, *guarded(ptx, each)]


def guarded(ptx: Ptx, each: Instruction) -> list[str]:
    """The instruction under a predicate that is never true."""
    row = ptx.rows[each.row]
    if not each.guard:
        at = row.index(each.name)
        return [f"{row[:at]}@{NEVER} {row[at:]}"]
    negated, own = each.guard.startswith("!"), each.guard.lstrip("!")
    invert = [f"\tnot.pred %off, {own};"] if negated else []
    joined = f"\tand.pred %off, {'%off' if negated else own}, {NEVER};"
    return ["\t{ .reg .pred %off;", *invert, joined, row.replace(f"@{each.guard}", "@%off"), "\t}"]


def passed_on(ptx: Ptx, each: Instruction) -> list[str] | None:
    """The first operand of the same width in place of a result."""
    if ptx.steers(each) or len(each.results) != 1:
        return None
    (result,) = each.results
    # What was added up is what a multiply-add passes on.
    sources = reversed(each.operands[1:]) if each.operation in ("fma", "mad") else each.operands[1:]
    fitting = [name for name in sources if _letters(name) == _letters(result)]
    width = WIDTHS.get(_letters(result))
    return [_under(each, f"mov.b{width} {result}, {fitting[0]};")] if fitting and width else None


def multiplied(ptx: Ptx, each: Instruction) -> list[str] | None:
    """One multiplication in place of a division, a root or an exponential."""
    kind = re.search(r"\.(f32|f64)$", each.name)
    if ptx.steers(each) or not kind:
        return None
    result, *operands = each.operands
    return [_under(each, f"mul.{kind[1]} {result}, {operands[0]}, {operands[-1]};")]


def exchanged(ptx: Ptx, each: Instruction) -> list[str] | None:
    """What a thread has in place of what it would get from another, and no wait for it."""
    if SHARED in ptx.steering:  # without a barrier it could be read too early
        return None
    return passed_on(ptx, each) if each.operation == "shfl" else off(ptx, each)


def product_off(ptx: Ptx, each: Instruction) -> list[str] | None:
    """What was there in place of a product that is added to it."""
    if each.operation == "fma":
        return passed_on(ptx, each)
    if each.operation == "wgmma":
        return guarded(ptx, each)
    sums = re.findall(r"%\w+", each.operands[-1])
    pairs = zip(each.results, sums, strict=False)
    return [*(f"\tmov.b32 {new}, {old};" for new, old in pairs), *guarded(ptx, each)]


def not_waiting(ptx: Ptx, each: Instruction) -> list[str] | None:
    """No way back to where an atomic is tried again."""
    return guarded(ptx, each)


def _exchanges(ptx: Ptx, each: Instruction) -> bool:
    moves = each.into_shared and each.operation != "cp"
    return each.operation == "shfl" or moves


def _spins(ptx: Ptx, each: Instruction) -> bool:
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
    Kind("loads", lambda _, each: _global(each, "ld", "cp.async.c"), off),
    Kind("stores", lambda _, each: _global(each, "st"), off),
    Kind("atomics", lambda _, each: _global(each, "atom", "red"), off),
    Kind("waiting", _spins, not_waiting),
    Kind("products", _multiplies, product_off),
    Kind("exchange", _exchanges, exchanged),
    Kind("math", lambda _, each: each.operation in MATH, multiplied),
    Kind("arithmetic", lambda _, each: each.operation in ARITHMETIC, passed_on),
)


def variants_of(ptx: Ptx) -> Iterator[Variant]:
    """The variants of a kernel: for each kind one without all of it, and one for each line."""
    memory: dict[str, dict[int, list[str]]] = {}
    touching: dict[Frame, None] = {}
    spins = any(_spins(ptx, each) for each in ptx.instructions)
    copied = any("mbarrier" in each.name for each in ptx.instructions)
    for kind in KINDS:
        # A lock that is never given back, or a copy that never comes, is waited for without an end.
        if (spins and kind.name in ("atomics", "stores")) or (copied and kind.name == "exchange"):
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
        together = {row: new for rows in edits.values() for row, new in rows.items()}
        if kind.name in MEMORY:
            memory[kind.name] = together
            touching |= dict.fromkeys(edits)
        if len(edits) > 1:
            yield _variant(ptx, kind.name, tuple(edits), together)
        for line, rows in edits.items():
            yield _variant(ptx, kind.name, (line,), rows)
    if sum(map(bool, memory.values())) > 1:
        rows = {row: new for each in memory.values() for row, new in each.items()}
        yield _variant(ptx, "memory", tuple(touching), rows)


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


def _variant(ptx: Ptx, kind: str, lines: tuple[Frame, ...], edits: dict[int, list[str]]) -> Variant:
    rows = [new for row, text in enumerate(ptx.rows) for new in edits.get(row, [text])]
    places = frozenset(each.place for each in ptx.instructions if each.place and each.row in edits)
    return Variant(kind, lines, with_never("\n".join(rows)), places, len(edits))


def with_never(text: str) -> str:
    """The PTX with a predicate that is never true."""
    made = (
        f"\t.reg .pred {NEVER};\n\t.reg .b64 %course_hidden;\n"
        f"\tld.param.b64 %course_hidden, [{pointers(text)[-1]}];\n"
        f"\tsetp.eq.b64 {NEVER}, %course_hidden, 1;\n"
    )
    return text[: beginning(text)] + made + text[beginning(text) :]


def relaxed(ptx: Ptx) -> Iterator[Variant]:
    """The kernel with updates of blocks that are no fences, where there are such."""
    fences = [
        each
        for each in ptx.instructions
        if _global(each, "atom", "red") and "acq_rel" in each.name and not ptx.steers(each)
    ]
    edits = {each.row: [ptx.rows[each.row].replace("acq_rel", "relaxed")] for each in fences}
    lines = tuple(dict.fromkeys(each.line for each in fences if each.line))
    if edits and not any(_spins(ptx, each) for each in ptx.instructions):
        yield replace(_variant(ptx, "relaxed", lines, edits), cure='sem="relaxed"')


def from_one_place(ptx: Ptx) -> Iterator[Variant]:
    """The kernel with loads that are served by the L1 cache, and need no address of their own."""
    loads = [
        each
        for each in ptx.instructions
        if each.line and _global(each, "ld", "cp.async.c") and not ptx.steers(each)
    ]
    edits = {}
    for number, each in enumerate(loads):
        place = f"[ %course_place + {number % PLACES * PLACE_BYTES} ]"
        head, _, tail = ptx.rows[each.row].rpartition("[")
        edits[each.row] = [head + place + tail.partition("]")[2]]
    if edits:
        lines = tuple(dict.fromkeys(each.line for each in loads if each.line))
        variant = _variant(ptx, ADDRESSES, lines, edits)
        made = (
            "\t.reg .b32 %course_thread;\n\t.reg .b64 %course_place;\n"
            "\tmov.u32 %course_thread, %tid.x;\n\tand.b32 %course_thread, %course_thread, 127;\n"
            f"\tld.param.b64 %course_place, [{pointers(variant.ptx)[-1]}];\n"
            "\tmad.wide.u32 %course_place, %course_thread, 16, %course_place;\n"
        )
        at = beginning(variant.ptx)
        yield replace(variant, ptx=variant.ptx[:at] + made + variant.ptx[at:], scratch=True)


_REVERSED = """\
	.reg .b32 %course_x, %course_y, %course_z, %course_n;
	mov.u32 %course_z, %ctaid.z;
	mov.u32 %course_n, %nctaid.y;
	mov.u32 %course_y, %ctaid.y;
	mad.lo.u32 %course_y, %course_z, %course_n, %course_y;
	mov.u32 %course_n, %nctaid.x;
	mov.u32 %course_x, %ctaid.x;
	mad.lo.u32 %course_x, %course_y, %course_n, %course_x;
	mov.u32 %course_n, %nctaid.z;
	rem.u32 %course_z, %course_x, %course_n;
	div.u32 %course_x, %course_x, %course_n;
	mov.u32 %course_n, %nctaid.y;
	rem.u32 %course_y, %course_x, %course_n;
	div.u32 %course_x, %course_x, %course_n;
"""


def reversed_order(ptx: Ptx, grid: tuple[int, ...]) -> Iterator[Variant]:
    """The kernel whose programs of the last axis follow one another, and not those of the first."""
    if sum(size > 1 for size in grid) < 2:
        return
    text = "\n".join(ptx.rows)
    at = beginning(text)
    body = re.sub(r"%ctaid\.([xyz])", r"%course_\1", text[at:])
    cure = "the axes of the grid in the opposite order"
    yield Variant(ORDER, (), text[:at] + _REVERSED + body, cure=cure)


def ended_at_once(ptx: Ptx) -> Variant:
    """The kernel whose programs end as soon as they begin."""
    text = with_never("\n".join(ptx.rows))
    made = f"setp.eq.b64 {NEVER}, %course_hidden, 1;\n"
    return Variant(EMPTY, (), text.replace(made, f"{made}\t@!{NEVER} ret;\n"))


def _global(each: Instruction, *names: str) -> bool:
    return ".global" in each.name and each.name.startswith(names)


def _letters(name: str) -> str:
    match = re.fullmatch(r"%([a-z]+)\d+", name)
    return match[1] if match else ""


def _under(each: Instruction, text: str) -> str:
    return f"\t@{each.guard} {text}" if each.guard else f"\t{text}"
