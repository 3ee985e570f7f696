"""A layout as a picture: each element of a block in the color of its warp, or of its bank."""

import itertools
import re
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex

from matplotlib.patches import Patch

from course.display.colors import BANKS, WARPS, ink, paler
from course.display.picture import WIDTH, Picture, new_axes
from course.display.shapes import box, frame, label
from course.errors import CourseError
from course.triton_internals.ir import BlockType, block_types
from course.type_names import kind_of

from . import bank_conflicts
from .layout_boxes import (
    MOST_ROWS,
    Box,
    Thread,
    bank_boxes,
    boxes_of_one,
    rows_of,
    shared_small,
    thread_boxes,
)
from .layouts import NO_VIEW, Layout, aliases_of, expanded
from .passes import without_locations
from .result import Lowered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN = 0.12
"""Fraction of the picture's width for the rows' names."""
SMALLEST = 6.8
"""Points of a text; one that needs smaller letters is left out."""


def layout(
    shown: Lowered | Layout,
    of: str | int | None = None,
    *,
    thread: Thread | None = None,
    access: Layout | None = None,
    rows: int = MOST_ROWS,
) -> Picture:
    """Who holds which element of a block, or in which bank of shared memory it lies.

    shown: a kernel from `lower`, or one of its layouts.
    of: in a kernel, a variable, a value of the TTGIR as `%x_5`, a layout's name as `#blocked`, or
        the number of a line.
    thread: (warp, thread), to show what that thread alone holds.
    access: for a layout in shared memory, the layout in registers from or to which a warp moves it:
        what it moves in one go is framed, and bank conflicts are counted.
    rows: how many to draw at most, 1 to MOST_ROWS.

    A block of one dimension is drawn in rows as long as the run of its first warp; of a large one
    the corner is shown.
    """
    is_pair = isinstance(thread, tuple) and len(thread) == 2
    if thread is not None and not (is_pair and all(isinstance(n, SupportsIndex) for n in thread)):
        raise CourseError(
            f"draw.layout takes thread=(warp, thread), as (0, 5); this is {thread!r}."
        )
    if access is not None and not isinstance(access, Layout):
        kind = kind_of(access)
        raise CourseError(
            f"draw.layout takes a layout as access, as s.layouts['x']; this is {kind}."
        )
    if not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
        raise CourseError(
            f"draw.layout draws at most {MOST_ROWS} rows of a picture, so rows must be 1 to "
            f"{MOST_ROWS}; it is {rows!r}."
        )
    drawn = _layout(shown, of)
    if not drawn.bases:
        raise CourseError(f"{drawn.label} {NO_VIEW}.")
    return _picture(drawn, thread, access, rows)


def _picture(drawn: Layout, thread: Thread | None, access: Layout | None, rows: int) -> Picture:
    indexes = list(rows_of(drawn))[:rows]
    moved = bank_conflicts.access(drawn, access) if access is not None else None
    columns = len(indexes[0])
    names, lines = [], []
    for row in indexes:
        if drawn.shared:
            boxes = bank_boxes(drawn, row, moved.elements if moved else ())
        elif thread:
            boxes = boxes_of_one(drawn, row, thread)
        else:
            boxes = thread_boxes(drawn, row)
        boxes, registers = (boxes, "") if drawn.shared else shared_small(boxes)
        place = f"row {row[0][-2]}" if len(row[0]) > 1 else f"from {row[0][0]:,}"
        names.append(f"{place}  {registers}".strip())
        lines.append(boxes)
    if thread:
        names, lines = _without_empty(names, lines)
    inch = WIDTH * (1 - MARGIN) * 0.97 / columns
    if thread is None:
        lines = _fitting(lines, inch)
    tall = any(each.small for boxes in lines for each in boxes)
    title = _title(drawn, thread, lines[0], names[0])
    alt = _alt(drawn, thread, len(indexes), columns)
    if moved:
        title += f"\nFramed: what warp 0 moves in one request, {moved}"
        alt += f" An access by warp 0: {moved}."
    title = "\n".join(textwrap.fill(line, 118) for line in title.split("\n"))
    height = (0.36 if tall else 0.27) * len(lines)
    axes = new_axes(WIDTH, height + 0.75 + 0.17 * title.count("\n"))
    for y, (name, boxes) in enumerate(zip(names, lines, strict=True)):
        if thread:
            _draw_row_of_one(axes, -y, boxes, inch)
        else:
            _draw_row(axes, -y, boxes, size=_size(lines, inch), dimmed=moved is not None)
        label(axes, -0.01 * columns, -y + 0.5, name, ha="right")
    axes.set_title(title, fontsize=9.5, loc="left")
    shown = {each.color for boxes in lines for each in boxes}
    legend = [] if thread else [each for each in _legend(drawn) if each[1] in shown]
    if legend:
        swatches = [Patch(color=color, label=name) for name, color in legend]
        spacing = {"columnspacing": 1.2, "handlelength": 1.2, "handletextpad": 0.5}
        axes.figure.legend(
            handles=swatches, loc="outside lower center", ncols=8, fontsize=8, frameon=False,
            **spacing,
        )  # fmt: skip
    across, up = (-MARGIN * columns, columns), (1 - len(lines), 1.05)
    return Picture.of_sketch(axes, across, up, alt, 256 if drawn.shared else 48)


def _without_empty(names: list[str], lines: list[list[Box]]) -> tuple[list[str], list[list[Box]]]:
    """Rows of which a thread holds nothing are drawn as one: their names, and their boxes."""
    kept_names: list[str] = []
    kept: list[list[Box]] = []
    for empty, group in itertools.groupby(
        zip(names, lines, strict=True), lambda row: not any(each.text for each in row[1])
    ):
        rows = list(group)
        if empty and len(rows) > 1:
            (first, boxes), (last, _) = rows[0], rows[-1]
            rows = [(f"{first} … {last.split()[-1]}".replace("row ", "rows "), boxes)]
        kept_names += [name for name, _ in rows]
        kept += [boxes for _, boxes in rows]
    return kept_names, kept


def _legend(drawn: Layout) -> list[tuple[str, str]]:
    """What the colors mean: names and colors."""
    if drawn.shared:
        return [(f"banks {4 * i}-{4 * i + 3}", color) for i, color in enumerate(BANKS)]
    legend = []
    for first, color in enumerate(WARPS[: drawn.warps]):
        warps = [str(warp) for warp in range(first, drawn.warps, len(WARPS))]
        legend.append((f"warp{'s' if len(warps) > 1 else ''} {', '.join(warps)}", color))
    return legend


def _layout(shown: Lowered | Layout, of: str | int | None) -> Layout:
    if isinstance(shown, Layout):
        return shown
    if not isinstance(shown, Lowered):
        kind = kind_of(shown)
        raise CourseError(
            f"draw.layout takes a kernel from lower, or one of its layouts; this is {kind}."
        )
    if isinstance(of, int):
        at = shown.layouts.at(of)
        if not at:
            raise CourseError(f"No value with a layout comes from line {of}.")
        return at[-1]
    if not isinstance(of, str):
        raise CourseError('draw.layout needs to know of what: a variable, as draw.layout(s, "x").')
    drawn: Layout = _of_value(shown, of) if of.startswith("%") else shown.layouts[of]
    return drawn


def _of_value(lowered: Lowered, name: str) -> Layout:
    """The layout of a value by the name that the TTGIR gives it."""
    # The types of an operation with regions may stand where the last one closes.
    definition = re.compile(
        rf"^( *){re.escape(name)}(?::\d+)? = (?:.*\(\{{\n(?:.*\n)*?\1\}}\) )?.*$", re.MULTILINE
    )
    text = definition.search(without_locations(lowered.ttgir))
    types = block_types(text[0]) if text else []
    alike = _alike(lowered, types[-1]) if types else []
    if not alike:
        raise CourseError(f"No value with a layout is called {name} in the TTGIR.")
    return alike[0]


def _alike(lowered: Lowered, type: BlockType) -> list[Layout]:
    """The layouts of blocks that lie as those of a type do, first those with its elements."""
    attribute = expanded(type.layout, aliases_of(lowered.ttgir))
    alike = [
        each for each in lowered.layouts if (each.shape, each.attribute) == (type.shape, attribute)
    ]
    return sorted(alike, key=lambda each: each.element != type.element)


def _fitting(lines: list[list[Box]], inch: float) -> list[list[Box]]:
    """Boxes with texts that can all be read: else without registers, and threads without warps.

    inch: inches of a column.
    """
    boxes = [each for line in lines for each in line]
    small = all(_points(each.small, each.width * inch) >= SMALLEST for each in boxes)
    whole = all(_points(each.text, each.width * inch) >= SMALLEST for each in boxes)

    def fitted(each: Box) -> Box:
        text = each.text if whole else each.text.rpartition(":")[2]
        return replace(each, text=text, small=each.small if small else "")

    return [list(map(fitted, line)) for line in lines]


def _size(lines: list[list[Box]], inch: float) -> float:
    """Points of the letters in which every box has room for its text, at least the smallest."""
    boxes = (each for line in lines for each in line)
    return max(SMALLEST, min(_points(each.text, each.width * inch) for each in boxes))


def _points(text: str, inches: float) -> float:
    """How large the letters of a text may be in a box so wide."""
    return min(8.5, inches * 72 / (0.64 * max(len(text), 1)))


def _draw_row(axes: "Axes", y: float, boxes: list[Box], size: float, dimmed: bool) -> None:
    """A row's boxes. dimmed: whether those without a frame are paler."""
    x = 0
    for each in boxes:
        color = paler(each.color, 0.6) if dimmed and not each.framed else each.color
        box(axes, x, y, each.width, 0.94, color, edgecolor="white", lw=1)
        style = {"color": ink(color), "weight": "bold" if each.framed else "normal"}
        middle = x + each.width / 2
        label(axes, middle, y + (0.66 if each.small else 0.45), each.text, fontsize=size, **style)
        if each.small:
            label(axes, middle, y + 0.26, each.small, fontsize=SMALLEST, **style)
        if each.framed:  # above all boxes, and beside the text
            frame(axes, x, y, each.width, 0.94, edgecolor="black", lw=1.8, zorder=3)
        x += each.width


def _draw_row_of_one(axes: "Axes", y: float, boxes: list[Box], inch: float) -> None:
    """A row in which one thread's elements stand out, their numbers in them or beside them."""
    x = 0
    for number, each in enumerate(boxes):
        box(axes, x, y, each.width, 0.94, each.color, edgecolor="white", lw=1)
        if each.text:
            text = f"{each.text}\n{each.small}".strip()
            style: dict[str, Any] = {"linespacing": 1.1}
            if _points(each.text, each.width * inch) >= SMALLEST + 1:
                label(axes, x + each.width / 2, y + 0.45, text, **style)
            elif number + 1 < len(boxes):
                label(axes, x + each.width + 0.06 / inch, y + 0.45, text, ha="left", **style)
            else:
                label(axes, x - 0.06 / inch, y + 0.45, text, ha="right", **style)
        x += each.width


def _title(drawn: Layout, thread: Thread | None, boxes: list[Box], row: str) -> str:
    """What the picture shows. boxes, row: those of its first row, and its name."""
    shape, names = " x ".join(map(str, drawn.shape)), ", ".join(drawn.names) or "a value"
    name = f"{drawn.name or drawn.kind} of {names}, {shape} {drawn.element}"
    if drawn.shared:
        return f"{name}: the bank of each element"
    if thread:
        held = _held(drawn, thread, 16 if len(drawn.shape) == 1 else 6)
        return f"{name}: thread {thread[1]} of warp {thread[0]} holds {held}"
    who = "warp:thread that holds" if ":" in boxes[0].text else "thread that holds"
    registers = "; r: in which of its registers" if boxes[0].small or " r" in row else ""
    return f"{name}: the {who} each element{registers}"


def _alt(drawn: Layout, thread: Thread | None, rows: int, columns: int) -> str:
    shape = " x ".join(map(str, drawn.shape))
    head = f"The layout {drawn.attribute} of a block of {shape}."
    if drawn.shared:
        banks = ", ".join(str(drawn.bank(*index)) for index in next(rows_of(drawn))[:16])
        return f"{head} Bank of each element in the first row: {banks} …"
    if thread:
        return (
            f"{head} Thread {thread[1]} of warp {thread[0]} holds, register by register: "
            f"{_held(drawn, thread)}."
        )
    holders = drawn.holders(*(0,) * len(drawn.shape))
    copies = len({(holder.warp, holder.thread) for holder in holders})
    return (
        f"{head} {_counted(drawn.warps, 'warp')} of {_counted(drawn.threads, 'thread')}; each "
        f"thread holds {_counted(drawn.elements_per_thread, 'element')}"
        + (f", and every element is held by {copies} threads" if copies > 1 else "")
        + f". The picture shows {_counted(rows, 'row')} of {_counted(columns, 'element')}, "
        f"a color per warp{' (the first eight, and again)' if drawn.warps > len(WARPS) else ''}."
    )


def _held(drawn: Layout, thread: Thread, most: int = 32) -> str:
    """The elements of a thread, register by register."""
    held = [index if len(index) > 1 else index[0] for index in drawn.held_by(*thread)]
    return ", ".join(map(str, held[:most])) + (", …" if len(held) > most else "")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
