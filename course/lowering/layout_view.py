"""A layout as a picture: the block with each element in the colour of its warp, or of its bank of
shared memory."""

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from matplotlib.patches import Rectangle

from course.display.picture import LIGHT, PALETTE, Picture, ink, new_figure
from course.errors import CourseError

from . import bank_conflicts as banks
from .api import Lowered
from .layouts import Holder, Index, Layout
from .passes import without_locations

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 32
MOST_COLUMNS = 128
WIDTH_INCHES = 10.5


def layout(
    shown: Lowered | Layout,
    of: str | int | None = None,
    *,
    thread: tuple[int, int] | None = None,
    access: Layout | None = None,
    rows: int = MOST_ROWS,
) -> Picture:
    """Who holds which element of a block, or in which bank of shared memory it lies.

    shown: a kernel from `lower`, or one of its layouts.
    of: in a kernel, a variable, a value of the TTGIR as `%x_5`, a layout's name as `#blocked`, or the number of a line.
    thread: (warp, thread), to show what that thread alone holds.
    access: for a layout in shared memory, the layout in registers from or to which a warp moves it: what it moves in one go is
        framed, and bank conflicts are counted.
    rows: how many to draw at most, 1 to MOST_ROWS.

    A block of one dimension is drawn in rows as long as the run of its first warp; of a large one the corner is shown.
    """
    if thread is not None and not (isinstance(thread, tuple) and len(thread) == 2):
        raise CourseError(
            f"draw.layout takes thread=(warp, thread), as (0, 5); this is {thread!r}."
        )
    if access is not None and not isinstance(access, Layout):
        raise CourseError(
            f"draw.layout takes a layout as access, as s.layouts['x']; this is a {type(access).__name__}."
        )
    if not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
        raise CourseError(
            f"draw.layout draws at most {MOST_ROWS} rows of a picture, so rows must be 1 to {MOST_ROWS}; it is {rows!r}."
        )
    found = _layout(shown, of)
    if not found.bases:
        raise CourseError(f"{found.name or found.attribute} has no view in this version of Triton.")
    indexes = list(_rows(found))[:rows]
    moved = banks.access(found, access) if access is not None else None
    if found.shared:
        boxes = [_bank_boxes(found, row) for row in indexes]
    else:
        boxes = [_thread_boxes(found, row, thread) for row in indexes]
    figure = new_figure(WIDTH_INCHES, 0.34 * len(indexes) + 0.9)
    axes = figure.subplots()
    columns = len(indexes[0])
    for y, row_boxes in enumerate(boxes):
        _draw_row(axes, -y, row_boxes, columns)
        for x, index in enumerate(indexes[y]):
            if moved and index in moved.elements:
                frame = Rectangle(
                    (x + 0.06, -y + 0.05),
                    0.88,
                    0.84,
                    facecolor="none",
                    edgecolor="black",
                    linewidth=1.8,
                )
                axes.add_patch(frame)
        label = f"row {indexes[y][0][-2]}" if len(found.shape) > 1 else f"from {indexes[y][0][0]}"
        axes.text(-0.01 * columns, -y + 0.5, label, ha="right", va="center", fontsize=8)
    axes.set_xlim(-0.09 * columns, columns)
    axes.set_ylim(1 - len(indexes), 1.9)
    told = f"; one request of warp 0 is framed: {moved}" if moved else ""
    axes.text(0, 1.25, _title(found, thread) + told, fontsize=10)
    axes.axis("off")
    return Picture.of(
        figure,
        _alt(found, thread, len(indexes), columns)
        + (f" An access by warp 0: {moved}." if moved else ""),
        24,
    )


def _layout(shown: Lowered | Layout, of: str | int | None) -> Layout:
    if isinstance(shown, Layout):
        return shown
    if not isinstance(shown, Lowered):
        raise CourseError(
            f"draw.layout takes a kernel from lower, or one of its layouts; this is a {type(shown).__name__}."
        )
    if isinstance(of, int):
        at = shown.layouts.at(of)
        if not at:
            raise CourseError(f"No value with a layout comes from line {of}.")
        return at[-1]
    if isinstance(of, str) and of.startswith("%"):
        return _of_value(shown, of)
    if not isinstance(of, str):
        raise CourseError('draw.layout needs to know of what: a variable, as draw.layout(s, "x").')
    found: Layout = shown.layouts[of]
    return found


def _of_value(made: Lowered, name: str) -> Layout:
    """The layout of a value by the name that the TTGIR gives it."""
    line = re.search(
        rf"^\s*{re.escape(name)}(?::\d+)? = .*$", without_locations(made.ttgir), re.MULTILINE
    )
    types = (
        re.findall(r"(?:tensor|memdesc)<((?:\d+x)+)([^,<>]*(?:<[^<>]*>)?), (#[\w.]+)", line[0])
        if line
        else []
    )
    if not types:
        raise CourseError(f"No value with a layout is called {name} in the TTGIR.")
    shape, element, layout_name = types[-1]
    wanted = tuple(int(size) for size in shape.split("x")[:-1])
    found = [each for each in made.layouts if (each.shape, each.element) == (wanted, element)]
    return next(
        (
            each
            for each in found
            if each.name == layout_name or each.attribute.startswith(f"{layout_name}<")
        ),
        found[0],
    )


def _rows(found: Layout) -> Iterator[list[Index]]:
    """The elements that are drawn, row by row. Of more than two dimensions the first matrix."""
    if len(found.shape) == 1:
        length = found.shape[0]
        warps = (
            [found.holders(i)[0].warp for i in range(min(length, MOST_COLUMNS))]
            if not found.shared
            else [0] * length
        )
        run = next((i for i, warp in enumerate(warps) if warp != warps[0]), len(warps))
        width = max(run, min(16, length))
        for start in list(range(0, length, width))[:MOST_ROWS]:
            yield [(i,) for i in range(start, min(start + width, length))]
        return
    before = () if found.shared else (0,) * (len(found.shape) - 2)
    for row in range(min(found.shape[-2], MOST_ROWS)):
        yield [(*before, row, column) for column in range(min(found.shape[-1], MOST_COLUMNS // 2))]


Box = tuple[int, str, str, str]
"""Columns wide, colour, and two lines of text."""


def _thread_boxes(found: Layout, row: list[Index], only: tuple[int, int] | None) -> list[Box]:
    """Neighbours that one thread holds make one box."""
    boxes: list[Box] = []
    holders = [_shown_holder(found, index, only) for index in row]
    start = 0
    for i in range(1, len(holders) + 1):
        if i < len(holders) and _same_thread(holders[i], holders[start]):
            continue
        first, last = holders[start], holders[i - 1]
        if first is None or last is None:
            boxes.append((i - start, LIGHT, "", ""))
        else:
            registers = _numbers([holder.register for holder in holders[start:i] if holder])
            boxes.append(
                (i - start, PALETTE[first.warp % 6], f"{first.warp}:{first.thread}", registers)
            )
        start = i
    return boxes


def _numbers(registers: list[int]) -> str:
    """r0, r0-3, or r0,2…14 where there are gaps."""
    first, last = registers[0], registers[-1]
    if len(registers) == 1:
        return f"r{first}"
    if registers == list(range(first, last + 1)):
        return f"r{first}-{last}"
    return f"r{first},{registers[1]}…{last}" if len(registers) > 2 else f"r{first},{last}"


def _shown_holder(found: Layout, index: Index, only: tuple[int, int] | None) -> Holder | None:
    holders = found.holders(*index)
    if only is None:
        return holders[0]
    return next((holder for holder in holders if (holder.warp, holder.thread) == only), None)


def _same_thread(one: Holder | None, other: Holder | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.warp, one.thread) == (other.warp, other.thread)


def _bank_boxes(found: Layout, row: list[Index]) -> list[Box]:
    """Neighbours in one bank make one box."""
    banks = [
        (bank, len(list(run)))
        for bank, run in itertools.groupby(found.bank(*index) for index in row)
    ]
    return [(width, PALETTE[bank // 4 % 6], str(bank), "") for bank, width in banks]


def _draw_row(axes: "Axes", y: float, boxes: list[Box], columns: int) -> None:
    x = 0
    for width, colour, text, small in boxes:
        axes.add_patch(
            Rectangle((x, y), width, 0.94, facecolor=colour, edgecolor="white", linewidth=1)
        )
        inches = width / columns * WIDTH_INCHES * 0.9
        size = min(8.0, inches * 72 / (0.62 * max(len(text), 1)))
        if size >= 4 and text:
            style: dict[str, Any] = {"ha": "center", "color": ink(colour)}
            two_lines = bool(small) and inches * 72 / (0.62 * len(small)) >= 4
            axes.text(x + width / 2, y + (0.55 if two_lines else 0.3), text, fontsize=size, **style)
            if two_lines:
                axes.text(
                    x + width / 2,
                    y + 0.12,
                    small,
                    fontsize=min(5.5, inches * 72 / (0.62 * len(small))),
                    **style,
                )
        x += width


def _title(found: Layout, thread: tuple[int, int] | None) -> str:
    shape = " x ".join(map(str, found.shape))
    name = f"{found.name or found.kind} of {', '.join(found.names) or 'a value'}, {shape} {found.element}"
    if found.shared:
        return f"{name}: the bank of each element"
    if thread:
        return f"{name}: what thread {thread[1]} of warp {thread[0]} holds, and in which register"
    return f"{name}: warp:thread, and registers"


def _alt(found: Layout, thread: tuple[int, int] | None, rows: int, columns: int) -> str:
    shape = " x ".join(map(str, found.shape))
    head = f"The layout {found.attribute} of a block of {shape}."
    if found.shared:
        banks = ", ".join(str(found.bank(*index)) for index in next(_rows(found))[:16])
        return f"{head} Bank of each element in the first row: {banks} …"
    if thread:
        held = ", ".join(
            str(index if len(index) > 1 else index[0]) for index in found.held_by(*thread)[:32]
        )
        return f"{head} Thread {thread[1]} of warp {thread[0]} holds, register by register: {held}."
    copies = len(found.holders(*(0,) * len(found.shape)))
    return (
        f"{head} {found.warps} warps of {found.threads} threads; each thread holds {found.elements_per_thread} elements"
        + (f", and every element is held {copies} times" if copies > 1 else "")
        + f". The picture shows {rows} rows of {columns} elements, a colour a warp."
    )
