"""What stands in the place of an instruction of PTX that a variant is to lack.

What goes is put under a predicate that is never true, which the assembler cannot know: it compares
a parameter of the kernel with a number that no parameter is. So addresses, masks and values are
still computed, and nothing becomes dead code that was not meant to. What decides which memory is
touched, or what runs next, is left alone, since without it other things would change as well.
"""

import re
from collections.abc import Callable

from .read_ptx import SHARED, Instruction, Ptx, begun_with, pointers

NEVER = "%course_never"
WIDTHS = {"r": 32, "f": 32, "hh": 32, "rs": 16, "h": 16, "rd": 64, "fd": 64}
"""Bits of a register by the letters of its name."""

Edit = Callable[[Ptx, Instruction], list[str] | None]
"""The rows in place of an instruction; None where it is left as it is."""


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


def with_never(text: str) -> str:
    """The PTX with a predicate that is never true."""
    made = (
        f"\t.reg .pred {NEVER};\n\t.reg .b64 %course_hidden;\n"
        f"\tld.param.b64 %course_hidden, [{pointers(text)[-1]}];\n"
        f"\tsetp.eq.b64 {NEVER}, %course_hidden, 1;\n"
    )
    return begun_with(text, made)


def _letters(name: str) -> str:
    match = re.fullmatch(r"%([a-z]+)\d+", name)
    return match[1] if match else ""


def _under(each: Instruction, text: str) -> str:
    return f"\t@{each.guard} {text}" if each.guard else f"\t{text}"
