"""Where a program's values lie: the registers of a thread, and shared memory, to scale."""

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course.display.colors import DARK, GRAY, GREEN, LIGHT, PALETTE, PINK, ink, paler
from course.display.picture import WIDTH, Picture, new_axes
from course.display.shapes import box, frame, label
from course.errors import CourseError
from course.lowering.passes import without_locations
from course.lowering.result import Lowered

from .arguments import check_kind
from .lanes import fitting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_REGISTERS = 255
"""A thread's, of 32 bits."""
MOST_VALUES = 4
BUFFER = re.compile(
    r"^\s*%(\w+?)(?:_\d+)? = ttg\.local_alloc.*allocation\.offset = (\d+).*memdesc<([\dx]+)x(\w+),",
    re.MULTILINE,
)
SCRATCH = re.compile(r"allocation\.offset = (\d+) : i32, allocation\.size = (\d+)")
LETTER = 0.075
"""Inches of a letter, about."""
SIDE = 1.1
"""Inches for the names of the bars."""


@dataclass(frozen=True)
class Buffer:
    """A block of shared memory, or several copies of it, one for each stage of a pipeline."""

    name: str
    start: int
    """Its first byte."""
    copies: int
    each: int
    """Bytes of one copy."""

    @property
    def end(self) -> int:
        """The byte after its last."""
        return self.start + self.copies * self.each


def room(lowered: Lowered, *values: str) -> Picture:
    """The registers of a thread and the shared memory of a program: what lies where, to scale.

    lowered: a kernel from `lower`. values: variables whose registers to show apart, up to 4, as
        "acc"; what they take follows from their layouts. All else is what the assembler has given
        beyond that.
    Shared memory is shown as the compiler has laid it out, in bytes from its beginning. What it
    only needs to move a block from one layout to another stands in a row of its own: that reuses
    the place of buffers whose time is over.
    """
    check_kind("room", lowered, Lowered, "a kernel from lower")
    for name in values:
        check_kind("room", name, str, 'the names of variables, as "acc"')
    if len(values) > MOST_VALUES or len({*values}) < len(values):
        raise CourseError(f"draw.room shows up to {MOST_VALUES} different values.")
    used = lowered.resources
    registers = [(name, _registers(lowered, name)) for name in values]
    buffers, scratch = shared_memory(lowered)
    height = max(rows_of(buffers), default=0) + (0.8 if scratch else 0)
    axes = new_axes(WIDTH, 1.6 + 0.5 * height)
    inch = WIDTH - SIDE - 0.15
    rest = max(0, used.registers - sum(count for _, count in registers))
    shares = [*registers, ("all else" if registers else "used", rest)]
    free = max(0, MOST_REGISTERS - sum(count for _, count in shares))
    colors = [*(GREEN, PINK, GREEN, PINK)[: len(registers)], paler(GRAY, 0.3), LIGHT]
    at = 0
    for (name, count), color in zip([*shares, ("free", free)], colors, strict=True):
        _segment(axes, 0, at, count, MOST_REGISTERS, f"{name} {count}", color, inch)
        at += count
    most = used.most_shared_bytes
    rows = rows_of(buffers)
    names = list(dict.fromkeys(buffer.name for buffer in buffers))
    for buffer, row in zip(buffers, rows, strict=True):
        color = PALETTE[(0, 1, 5, 4, 6)[names.index(buffer.name) % 5]]
        for copy in range(buffer.copies):
            text = f"{buffer.name} {_kib(buffer.each)}"
            start = buffer.start + copy * buffer.each
            _segment(axes, -1.2 - row, start, buffer.each, most, text, color, inch)
    end = max([used.shared_bytes, *(buffer.end for buffer in buffers)])
    left = max(0, most - end)
    _segment(axes, -1.2, end, left, most, f"free {_kib(left)}", LIGHT, inch)
    label(axes, -0.01, 0.4, "registers\nof a thread", ha="right", fontsize=9)
    label(axes, -0.01, -0.8, "shared memory", ha="right", fontsize=9)
    for row in range(1, max(rows, default=0) + 1):
        label(axes, -0.01, -0.8 - row, "the same place,\nat another time", ha="right", fontsize=9)
    if scratch:
        largest = max(scratch)
        bottom = -2.0 - max(rows, default=0)
        box(axes, 0, bottom, largest / most, 0.5, paler(GRAY, 0.3), edgecolor="white", lw=0.8)
        text = f"scratch, at other times: at most {_kib(largest)}"
        label(axes, largest / most + 0.01, bottom + 0.25, text, ha="left", color=DARK)
    spilled = f", and {used.spill_bytes:,} bytes are spilled" if used.spill_bytes else ""
    head = (
        f"{used.registers} of {MOST_REGISTERS} registers per thread{spilled}; "
        f"{_kib(used.shared_bytes)} of {_kib(most)} of shared memory per program, "
        f"{used.num_warps} warps, {used.target}"
    )
    axes.set_title(head, fontsize=9.5, loc="left")
    alt = _alt(head, registers, rest, buffers, scratch)
    return Picture.of_sketch(axes, (-SIDE / inch, 1.005), (-1.25 - height, 0.9), alt, colors=48)


def shared_memory(lowered: Lowered) -> tuple[list[Buffer], list[int]]:
    """The buffers in shared memory by their place, and the bytes of each scratch that reuses it."""
    placed = (each.after for each in lowered.passes if "allocation.offset" in each.after)
    text = without_locations(next(placed, ""))
    buffers = []
    for name, start, sizes, element in BUFFER.findall(text):
        *copies, rows, columns = (1, 1, *map(int, sizes.split("x")))
        bits = max(8, int(re.sub(r"\D*(\d+).*", r"\1", element)))
        if element == "i64":
            name = "barriers"
        buffers.append(Buffer(name, int(start), math.prod(copies), rows * columns * bits // 8))
    scratch = [int(size) for _, size in SCRATCH.findall(text)]
    return sorted(buffers, key=lambda buffer: buffer.start), scratch


def rows_of(buffers: list[Buffer]) -> list[int]:
    """A row for each buffer: those that take the same place, at different times, have two."""
    ends: list[int] = []
    rows = []
    for buffer in buffers:
        row = next((i for i, end in enumerate(ends) if end <= buffer.start), len(ends))
        ends[row:] = [buffer.end, *ends[row + 1 :]]
        rows.append(row)
    return rows


def _registers(lowered: Lowered, name: str) -> int:
    """The registers of a thread that a variable takes, by its layout."""
    layout = lowered.layouts[name]
    if layout.shared:
        raise CourseError(f"{name!r} lies in shared memory, and takes no registers.")
    bits: int = layout.elements_per_thread * layout.element_bits
    return -(-bits // 32)


def _segment(
    axes: "Axes", y: float, start: float, length: float, most: float, text: str, color: str,
    inch: float,
) -> None:  # fmt: skip
    """A part of a bar, with its words where they fit. inch: inches of the whole bar."""
    if not length:
        return
    box(axes, start / most, y, length / most, 0.8, color, edgecolor="white", lw=0.8)
    frame(axes, 0, y, 1, 0.8, edgecolor=GRAY, lw=0.8)
    words = fitting(text, length / most * inch, LETTER)
    label(axes, (start + length / 2) / most, y + 0.4, words, color=ink(color))


def _kib(count: int) -> str:
    return f"{count / 1024:.4g} KiB" if count >= 1024 else f"{count} bytes"


def _alt(
    head: str,
    registers: list[tuple[str, int]],
    rest: int,
    buffers: list[Buffer],
    scratch: list[int],
) -> str:
    parts = [*(f"{name} {count}" for name, count in registers), f"all else {rest}"]
    lying = [
        f"{each.name} " + (f"{each.copies} times " if each.copies > 1 else "") + _kib(each.each)
        + f" from byte {each.start:,}"
        for each in buffers
    ]  # fmt: skip
    shared = f" In shared memory: {', '.join(lying)}." if lying else ""
    again = f" Scratch of at most {_kib(max(scratch))} reuses their place." if scratch else ""
    return f"{head}. Registers: {', '.join(parts)}.{shared}{again}"
