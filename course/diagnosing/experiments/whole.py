"""Variants that are about a kernel as a whole, or change it and leave its results."""

import re
from collections.abc import Iterator
from dataclasses import replace

from .edits import NEVER, with_never
from .ptx_variants import ADDRESSES, DIVISIONS, EMPTY, ORDER, Variant, spins, touches, variant_of
from .read_ptx import PROGRAM_NUMBER, PROGRAM_REGISTERS, Instruction, Ptx, begun_with, pointers

PLACES, PLACE_BYTES = 16, 4096
"""Places from which loads are served in turn, and the bytes of each: 32 for each of 128 threads."""


def relaxed(ptx: Ptx) -> Iterator[Variant]:
    """The kernel with updates of blocks that are no fences, where there are such."""
    fences = [
        each
        for each in ptx.instructions
        if touches(each, "atom", "red") and "acq_rel" in each.name and not ptx.steers(each)
    ]
    edits = {each.row: [ptx.rows[each.row].replace("acq_rel", "relaxed")] for each in fences}
    lines = tuple(dict.fromkeys(each.line for each in fences if each.line))
    if edits and not any(spins(ptx, each) for each in ptx.instructions):
        yield replace(variant_of(ptx, "relaxed", lines, edits), cure='sem="relaxed"')


def narrow_divisions(ptx: Ptx) -> Iterator[Variant]:
    """The kernel that divides integers of 64 bits as such of 32, which gives the same where these
    are enough. All of them at once: what several lines divide is often divided in none of them."""
    edits = {}
    for each in ptx.instructions:
        divides = re.fullmatch(r"(div|rem)\.[su]64", each.name)
        if divides and not each.guard and all(name.startswith("%rd") for name in each.operands):
            result, *operands = each.operands
            operation, wide = each.name.split(".")
            narrow = f"{wide[0]}32"
            edits[each.row] = [
                "\t{ .reg .b32 %first, %second;",
                f"\tcvt.{narrow}.{wide} %first, {operands[0]};",
                f"\tcvt.{narrow}.{wide} %second, {operands[1]};",
                f"\t{operation}.{narrow} %first, %first, %second;",
                f"\tcvt.{wide}.{narrow} {result}, %first;",
                "\t}",
            ]
    if edits:
        yield replace(variant_of(ptx, DIVISIONS, (), edits), cure="divisions of 32 bits")


def from_one_place(ptx: Ptx) -> Iterator[Variant]:
    """The kernel with loads that are served by the L1 cache, and need no address of their own.

    A warp loads neighbors, as wide as before, from one of PLACES.
    """
    loads = [
        each
        for each in ptx.instructions
        if each.line and touches(each, "ld", "cp.async.c") and not ptx.steers(each)
    ]
    edits = {}
    for number, each in enumerate(loads):
        place = f"[ %course_place{_bytes(each)} + {number % PLACES * PLACE_BYTES} ]"
        head, _, tail = ptx.rows[each.row].rpartition("[")
        edits[each.row] = [head + place + tail.partition("]")[2]]
    if edits:
        variant = variant_of(
            ptx, ADDRESSES, tuple({each.line: 0 for each in loads if each.line}), edits
        )
        made = (
            "\t.reg .b32 %course_thread;\n\t.reg .b64 %course_base, %course_place<33>;\n"
            "\tmov.u32 %course_thread, %tid.x;\n\tand.b32 %course_thread, %course_thread, 127;\n"
            f"\tld.param.b64 %course_base, [{pointers(variant.ptx)[-1]}];\n"
        )
        for width in sorted({_bytes(each) for each in loads}):
            made += f"\tmad.wide.u32 %course_place{width}, %course_thread, {width}, %course_base;\n"
        yield replace(variant, ptx=begun_with(variant.ptx, made), scratch=True)


def _bytes(load: Instruction) -> int:
    """The bytes of a thread that an instruction loads."""
    if load.operation == "cp":
        return int(load.operands[2], 0)
    bits, several = re.search(r"(\d+)$", load.name), re.search(r"\.v(\d)", load.name)
    return int(bits[1] if bits else 32) // 8 * int(several[1] if several else 1)


_REVERSED = f"""\
{PROGRAM_REGISTERS}	.reg .b32 %course_x, %course_y, %course_z;
{PROGRAM_NUMBER}	mov.u32 %course_size, %nctaid.z;
	rem.u32 %course_z, %course_program, %course_size;
	div.u32 %course_program, %course_program, %course_size;
	mov.u32 %course_size, %nctaid.y;
	rem.u32 %course_y, %course_program, %course_size;
	div.u32 %course_x, %course_program, %course_size;
"""


def reversed_order(ptx: Ptx, grid: tuple[int, ...]) -> Iterator[Variant]:
    """The kernel whose programs of the last axis follow one another, and not those of the first."""
    if sum(size > 1 for size in grid) < 2:
        return
    renamed = re.sub(r"%ctaid\.([xyz])", r"%course_\1", ptx.text)
    cure = "the axes of the grid in the opposite order"
    yield Variant(ORDER, (), begun_with(renamed, _REVERSED), cure=cure)


def ended_at_once(ptx: Ptx) -> Variant:
    """The kernel whose programs end as soon as they begin."""
    text = with_never(ptx.text)
    made = f"setp.eq.b64 {NEVER}, %course_hidden, 1;\n"
    return Variant(EMPTY, (), text.replace(made, f"{made}\t@!{NEVER} ret;\n"))
