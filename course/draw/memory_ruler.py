"""ruler: memory under the threads of a warp, with sliders; what they ask for, what comes along.

memory_ruler.js computes and draws the same, since a slider must move where no session is.
"""

import html
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.display.colors import BANKS, DARK, GRAY, ink, paler, rgb
from course.display.picture import Picture, image_html, new_axes
from course.display.shapes import box, frame, label
from course.display.widget import script, style, with_static
from course.errors import CourseError
from course.gpus.limits import SECTOR_BYTES
from course.type_names import AnyValue

from .arguments import check_whole

SCRIPT = Path(__file__).with_suffix("")
KIND = "ruler"
THREADS = 32
MOST = 2**16
DTYPES = {1: "int8", 2: "float16", 4: "float32", 8: "float64"}
WIDEST = 16
"""Bytes that a thread can load at once."""

IN_A_ROW = 4
"""Sectors in a row of the ruler: 32 float32 side by side lie just under their threads."""
MOST_SLOTS = 16 * IN_A_ROW
LEFT, BYTE, CELL, ROW, TOP, ACROSS = 94, 6.25, 18, 23, 36, 900
"""Pixels: where the ruler begins, a byte's width, a cell's height, from row to row, down to the
first row, and the width of all."""
WASTED = paler(GRAY, 0.2)
LEGEND = "Bold: a sector of 32 bytes. Gray: moved for nothing. Blank: not touched."

Slot = tuple[int, int]
"""Sectors in a place of the ruler, the first and how many: one, or those that are left out."""


def ruler(
    *strides: int, per_thread: int = 1, itemsize: int = 4, start: int = 0, threads: int = THREADS
) -> "Ruler":
    """Which bytes the 32 threads of a warp ask for, and which are moved along with them.

    Memory lies under the threads as a ruler of elements, with a bold border around each sector of
    32 bytes. It has sliders for all that follows.

    strides: how far apart neighboring threads read; the widget opens at the first, by default 1,
        and what is read without a script shows each of them, 1 to 4.
    per_thread: neighboring elements that each thread takes, 16 bytes at most. The strides then
        count such groups.
    itemsize: bytes of an element, 1, 2, 4 or 8. start: the first element of thread 0.
    threads: how many of the 32 a mask leaves on, the first ones.
    """
    strides = strides or (1,)
    if len(strides) > 4:
        raise CourseError(f"draw.ruler shows up to 4 strides; these are {len(strides)}.")
    for stride in strides:
        check_whole("ruler", MOST, 0, start=start, stride=stride)
    check_whole("ruler", THREADS, threads=threads)
    if type(itemsize) is not int or itemsize not in DTYPES:
        raise CourseError(f"draw.ruler: itemsize is {itemsize!r}, and must be 1, 2, 4 or 8.")
    allowed = [count for count in (1, 2, 4, 8, 16) if count * itemsize <= WIDEST]
    if type(per_thread) is not int or per_thread not in allowed:
        raise CourseError(
            f"draw.ruler: per_thread is {per_thread!r}, and must be one of "
            f"{', '.join(map(str, allowed))}: a thread loads up to {WIDEST} bytes at once."
        )
    return Ruler(WarpAccess(strides[0], per_thread, itemsize, start, threads), strides)


@dataclass(frozen=True)
class WarpAccess:
    """What the threads of a warp ask for: the settings of `ruler`."""

    stride: int
    per_thread: int
    itemsize: int
    start: int
    threads: int

    def first(self, thread: int) -> int:
        """The first element of a thread."""
        return self.start + thread * self.stride * self.per_thread

    @cached_property
    def owners(self) -> dict[int, int]:
        """The elements that are asked for, each with a thread that does so."""
        group = range(self.per_thread)
        return {self.first(t) + k: t for t in reversed(range(self.threads)) for k in group}

    @cached_property
    def touched(self) -> list[int]:
        """The sectors that are touched, in order."""
        return sorted({self._sector(element) for element in self.owners})

    def _sector(self, element: int) -> int:
        return element * self.itemsize // SECTOR_BYTES

    @property
    def slots(self) -> list[Slot]:
        """The places of the ruler, whole rows of them. More than one sector is left out in a gap,
        and more than three before the first."""
        slots: list[Slot] = []
        begin = 0
        for sector in self.touched:
            gap = sector - begin
            if gap > (1 if slots else IN_A_ROW - 1):
                slots.append((begin, gap))
            else:
                slots += [(begin + skipped, 1) for skipped in range(gap)]
            slots.append((sector, 1))
            begin = sector + 1
        slots += [(begin + more, 1) for more in range(-len(slots) % IN_A_ROW)]
        if len(slots) <= MOST_SLOTS:
            return slots
        rest = slots[MOST_SLOTS - 1][0]
        return [*slots[: MOST_SLOTS - 1], (rest, self.touched[-1] + 1 - rest)]

    @property
    def sentence(self) -> str:
        """What is touched, moved and wanted, and whether it is loaded at once."""
        count, wanted = len(self.touched), len(self.owners) * self.itemsize
        on = "touch" if self.threads == THREADS else "that are on touch"
        one = self.threads == 1
        who = "The 1 thread that is on touches" if one else f"The {self.threads} threads {on}"
        sectors = "1 sector" if count == 1 else f"{count} sectors"
        told = (
            f"{who} {sectors}: {count * SECTOR_BYTES:,} bytes are moved, and {wanted:,} are wanted."
        )
        if self.per_thread == 1:
            return told
        wide = self.per_thread * self.itemsize
        if self.start % self.per_thread == 0:
            return f"{told} Each thread takes its {wide} bytes in one load."
        requests = sum(
            len({self._sector(self.first(thread) + k) for thread in range(self.threads)})
            for k in range(self.per_thread)
        )
        return (
            f"{told} Thread 0 begins at byte {self.start * self.itemsize:,}, which is no multiple "
            f"of {wide}, so the load cannot be wide: "
            f"{self.per_thread} loads touch {requests} sectors."
        )

    @property
    def alt(self) -> str:
        """The picture in words."""
        what = DTYPES[self.itemsize]
        each = f"{self.per_thread} neighboring {what}" if self.per_thread > 1 else f"one {what}"
        head = f"Stride {self.stride}, from element {self.start}; each thread takes {each}."
        return f"{head} {self.sentence}"


class Ruler(anywidget.AnyWidget):
    """The widget: its state is the settings that its script begins with."""

    _esm = script(SCRIPT)
    _css = style(SCRIPT)

    settings: Any = traitlets.Dict().tag(sync=True)

    def __init__(self, opened: WarpAccess, strides: tuple[int, ...]) -> None:
        """opened: what is shown first. strides: those shown where no script runs."""
        self.shown = [replace(opened, stride=stride) for stride in strides]
        colors = [[color, ink(color)] for color in map(thread_color, range(THREADS))]
        super().__init__(settings={**vars(opened), "strides": strides, "colors": colors})

    @property
    def pictures(self) -> list[Picture]:
        """A picture for each stride."""
        return [draw_access(access) for access in self.shown]

    def _repr_mimebundle_(self, **kwargs: AnyValue) -> Any:
        parts = [
            f"<p>stride {access.stride}: {html.escape(access.sentence)}</p>"
            + image_html(picture.source, picture.alt, picture.width)
            for access, picture in zip(self.shown, self.pictures, strict=True)
        ]
        static = {"text/html": "\n".join(parts), "text/plain": str(self)}
        own = super()._repr_mimebundle_
        return with_static(KIND, lambda: {"settings": self.settings}, static, lambda: own(**kwargs))

    def __str__(self) -> str:
        return "\n".join(access.alt for access in self.shown)

    __repr__ = __str__


def thread_color(thread: int) -> str:
    """A thread's color: from dark to light, as banks have it, in 32 steps."""
    step, part = divmod(thread * (len(BANKS) - 1), THREADS - 1)
    before, after = rgb(BANKS[step]), rgb(BANKS[min(step + 1, len(BANKS) - 1)])
    mixed = (a + round((b - a) * part / (THREADS - 1)) for a, b in zip(before, after, strict=True))
    return "#" + "".join(f"{channel:02X}" for channel in mixed)


def draw_access(access: WarpAccess) -> Picture:
    """The ruler as a picture."""
    slots = access.slots
    end = TOP + ROW * len(slots) // IN_A_ROW
    axes = new_axes(ACROSS / 100, (end + ROW) / 100)
    label(axes, LEFT - 6, CELL / 2, "thread", ha="right")
    for thread in range(THREADS):
        color = thread_color(thread) if thread < access.threads else "white"
        x, word = LEFT + thread * 4 * BYTE, ink(color) if thread < access.threads else GRAY
        box(axes, x, 0, 4 * BYTE, CELL, color, edgecolor="white" if word != GRAY else GRAY, lw=0.5)
        label(axes, x + 2 * BYTE, CELL / 2, str(thread), color=word)
    for place, slot in enumerate(slots):
        row, column = divmod(place, IN_A_ROW)
        x, y = LEFT + column * SECTOR_BYTES * BYTE, TOP + row * ROW
        if column == 0:
            label(axes, LEFT - 6, y + CELL / 2, f"byte {slot[0] * SECTOR_BYTES:,}", ha="right")
        _draw_slot(axes, access, slot, x, y)
    label(axes, LEFT, end + CELL / 2, LEGEND, ha="left", color=DARK)
    return Picture.of_sketch(axes, (0, ACROSS), (end + ROW, -2), access.alt)


def _draw_slot(axes: Any, access: WarpAccess, slot: Slot, x: float, y: float) -> None:
    """A sector, element by element, or the mark in place of those that are left out."""
    sector, count = slot
    if count > 1:
        left_out = f"… {count * SECTOR_BYTES:,} bytes …"
        label(axes, x + SECTOR_BYTES * BYTE / 2, y + CELL / 2, left_out, color=DARK)
        return
    width, elements = access.itemsize * BYTE, SECTOR_BYTES // access.itemsize
    for place in range(elements):
        owner = access.owners.get(sector * elements + place)
        waste = WASTED if sector in access.touched else "white"
        color, left = waste if owner is None else thread_color(owner), x + place * width
        edge = "white" if color != "white" else GRAY
        box(axes, left, y, width, CELL, color, edgecolor=edge, lw=0.4)
        if owner is not None and access.itemsize > 1:
            text, size = str(owner) if access.stride else "all", 7 if access.itemsize > 2 else 6.5
            label(axes, left + width / 2, y + CELL / 2, text, color=ink(color), fontsize=size)
    # A halo, since dark cells would hide a dark border; no halo is above a border.
    for color, thick, above in (("white", 3, 1.1), ("black", 1.5, 1.2)):
        frame(axes, x, y, SECTOR_BYTES * BYTE, CELL, edgecolor=color, lw=thick, zorder=above)
