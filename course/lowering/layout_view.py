"""A layout as a picture: each element of a block in the colour of its warp, or of its bank."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.patches import Rectangle

from course.display.colours import LIGHT, PALETTE, ink
from course.display.picture import Picture, new_figure
from course.errors import CourseError
from course.triton_internals.ir import block_types

from . import bank_conflicts
from .layouts import NO_VIEW, Holder, Index, Layout
from .passes import without_locations
from .result import Lowered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 32
MOST_COLUMNS = 128
WIDTH_INCHES = 10.5

Thread = tuple[int, int]
"""A warp, and a thread of it."""


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
    if thread is not None and not (isinstance(thread, tuple) and len(thread) == 2):
        raise CourseError(
            f"draw.layout takes thread=(warp, thread), as (0, 5); this is {thread!r}."
        )
    if access is not None and not isinstance(access, Layout):
        kind = type(access).__name__
        raise CourseError(
            f"draw.layout takes a layout as access, as s.layouts['x']; this is a {kind}."
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
    indexes = list(_rows(drawn))[:rows]
    moved = bank_conflicts.access(drawn, access) if access is not None else None
    figure = new_figure(WIDTH_INCHES, 0.34 * len(indexes) + 0.9)
    axes = figure.subplots()
    columns = len(indexes[0])
    for y, row in enumerate(indexes):
        boxes = _bank_boxes(drawn, row) if drawn.shared else _thread_boxes(drawn, row, thread)
        _draw_row(axes, -y, boxes, columns)
        for x, index in enumerate(row):
            if moved and index in moved.elements:
                frame = Rectangle((x + 0.06, -y + 0.05), 0.88, 0.84, linewidth=1.8)
                frame.set(facecolor="none", edgecolor="black")
                axes.add_patch(frame)
        label = f"row {row[0][-2]}" if len(drawn.shape) > 1 else f"from {row[0][0]}"
        axes.text(-0.01 * columns, -y + 0.5, label, ha="right", va="center", fontsize=8)
    axes.set_xlim(-0.09 * columns, columns)
    axes.set_ylim(1 - len(indexes), 1.9)
    title, alt = _title(drawn, thread), _alt(drawn, thread, len(indexes), columns)
    if moved:
        title += f"; one request of warp 0 is framed: {moved}"
        alt += f" An access by warp 0: {moved}."
    axes.text(0, 1.25, title, fontsize=10)
    axes.axis("off")
    return Picture.of(figure, alt, 24)


def _layout(shown: Lowered | Layout, of: str | int | None) -> Layout:
    if isinstance(shown, Layout):
        return shown
    if not isinstance(shown, Lowered):
        kind = type(shown).__name__
        raise CourseError(
            f"draw.layout takes a kernel from lower, or one of its layouts; this is a {kind}."
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
    definition = re.compile(rf"^\s*{re.escape(name)}(?::\d+)? = .*$", re.MULTILINE)
    line = definition.search(without_locations(lowered.ttgir))
    types = block_types(line[0]) if line else []
    if not types:
        raise CourseError(f"No value with a layout is called {name} in the TTGIR.")
    type = types[-1]
    alike = [
        each for each in lowered.layouts if (each.shape, each.element) == (type.shape, type.element)
    ]
    layout_name = type.layout.partition("<")[0]
    named = (
        each
        for each in alike
        if each.name == layout_name or each.attribute.startswith(f"{layout_name}<")
    )
    return next(named, alike[0])


def _rows(drawn: Layout) -> Iterator[list[Index]]:
    """The elements that are drawn, row by row; of more than two dimensions the first matrix."""
    if len(drawn.shape) == 1:
        length = drawn.shape[0]
        run = length
        if not drawn.shared:
            warps = [drawn.holders(i)[0].warp for i in range(min(length, MOST_COLUMNS))]
            run = next((i for i, warp in enumerate(warps) if warp != warps[0]), len(warps))
        width = max(run, min(16, length))
        for start in range(0, min(length, width * MOST_ROWS), width):
            yield [(i,) for i in range(start, min(start + width, length))]
        return
    outer = () if drawn.shared else (0,) * (len(drawn.shape) - 2)
    height, width = min(drawn.shape[-2], MOST_ROWS), min(drawn.shape[-1], MOST_COLUMNS // 2)
    for row in range(height):
        yield [(*outer, row, column) for column in range(width)]


@dataclass(frozen=True)
class _Box:
    """Neighbours in a row that are drawn as one."""

    width: int
    """Columns."""
    colour: str
    text: str = ""
    small: str = ""
    """A second line, in smaller letters."""


def _thread_boxes(drawn: Layout, row: list[Index], only: Thread | None) -> list[_Box]:
    """Neighbours that one thread holds make one box."""
    holders = [_holder(drawn, index, only) for index in row]
    boxes = []
    for thread, run in itertools.groupby(holders, _thread):
        group = list(run)
        if thread is None:
            boxes.append(_Box(len(group), LIGHT))
            continue
        registers = _numbers([holder.register for holder in group if holder])
        text = f"{thread[0]}:{thread[1]}"
        boxes.append(_Box(len(group), PALETTE[thread[0] % 6], text, registers))
    return boxes


def _holder(drawn: Layout, index: Index, only: Thread | None) -> Holder | None:
    """The first holder of an element, or the thread `only` if it holds it."""
    holders = drawn.holders(*index)
    if only is None:
        return holders[0]
    return next((holder for holder in holders if _thread(holder) == only), None)


def _thread(holder: Holder | None) -> Thread | None:
    return (holder.warp, holder.thread) if holder else None


def _numbers(registers: list[int]) -> str:
    """r0, r0-3, or r0,2…14 if there are gaps."""
    first, last = registers[0], registers[-1]
    if len(registers) == 1:
        return f"r{first}"
    if registers == list(range(first, last + 1)):
        return f"r{first}-{last}"
    return f"r{first},{registers[1]}…{last}" if len(registers) > 2 else f"r{first},{last}"


def _bank_boxes(drawn: Layout, row: list[Index]) -> list[_Box]:
    """Neighbours in one bank make one box."""
    runs = itertools.groupby(drawn.bank(*index) for index in row)
    return [_Box(len(list(run)), PALETTE[bank // 4 % 6], str(bank)) for bank, run in runs]


def _draw_row(axes: "Axes", y: float, boxes: list[_Box], columns: int) -> None:
    x = 0
    for box in boxes:
        patch = Rectangle((x, y), box.width, 0.94, linewidth=1)
        patch.set(facecolor=box.colour, edgecolor="white")
        axes.add_patch(patch)
        points = box.width / columns * WIDTH_INCHES * 0.9 * 72
        size = min(8.0, points / (0.62 * max(len(box.text), 1)))
        if size >= 4 and box.text:
            centre, colour = x + box.width / 2, ink(box.colour)
            small_size = points / (0.62 * len(box.small)) if box.small else 0
            lift = 0.55 if small_size >= 4 else 0.3
            axes.text(centre, y + lift, box.text, fontsize=size, ha="center", color=colour)
            if small_size >= 4:
                size = min(5.5, small_size)
                axes.text(centre, y + 0.12, box.small, fontsize=size, ha="center", color=colour)
        x += box.width


def _title(drawn: Layout, thread: Thread | None) -> str:
    shape, names = " x ".join(map(str, drawn.shape)), ", ".join(drawn.names) or "a value"
    name = f"{drawn.name or drawn.kind} of {names}, {shape} {drawn.element}"
    if drawn.shared:
        return f"{name}: the bank of each element"
    if thread:
        return f"{name}: what thread {thread[1]} of warp {thread[0]} holds, and in which register"
    return f"{name}: warp:thread, and registers"


def _alt(drawn: Layout, thread: Thread | None, rows: int, columns: int) -> str:
    shape = " x ".join(map(str, drawn.shape))
    head = f"The layout {drawn.attribute} of a block of {shape}."
    if drawn.shared:
        banks = ", ".join(str(drawn.bank(*index)) for index in next(_rows(drawn))[:16])
        return f"{head} Bank of each element in the first row: {banks} …"
    if thread:
        held = [index if len(index) > 1 else index[0] for index in drawn.held_by(*thread)[:32]]
        listed = ", ".join(map(str, held))
        return (
            f"{head} Thread {thread[1]} of warp {thread[0]} holds, register by register: {listed}."
        )
    copies = len(drawn.holders(*(0,) * len(drawn.shape)))
    return (
        f"{head} {drawn.warps} warps of {drawn.threads} threads; each thread holds "
        f"{drawn.elements_per_thread} elements"
        + (f", and every element is held {copies} times" if copies > 1 else "")
        + f". The picture shows {rows} rows of {columns} elements, a colour a warp."
    )
