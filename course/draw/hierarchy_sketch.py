"""From the grid down to one thread: which elements a program, a warp and a thread hold."""

from matplotlib.axes import Axes

from course.display.colors import DARK, LIGHT, PROGRAMS, WARPS, ink, paler
from course.display.picture import Picture, new_axes
from course.display.shapes import box, cell, label
from course.errors import CourseError

from .arguments import check_index, check_whole

THREADS = 32
MOST_REGISTERS = 32
VECTOR = 4
"""float32 elements side by side that one thread moves at once: 16 bytes."""
PROGRAMS_SHOWN = 4
WIDTH = 32.0
"""Width of the picture, in threads."""
LEVEL = 2.6
"""From one level of the picture to the next."""


def hierarchy(
    block_size: int = 1024, num_warps: int = 4, *, program: int = 1, warp: int = 2, thread: int = 5
) -> Picture:
    """The grid, a program's block, its warps, a warp's 32 threads and the elements of one thread.

    block_size: elements of float32 in a block, a power of two of 32 * num_warps or more.
    program, warp, thread: the ones that are opened.

    The block is a vector that is loaded from memory side by side, which is how the compiler deals
    it out: up to 4 neighbors per thread, as they fit one instruction, thread after thread, warp
    after warp, and from the beginning again until all are held.
    """
    _check(block_size, num_warps, program, warp, thread)
    per_thread = block_size // (num_warps * THREADS)
    vector = min(VECTOR, per_thread)
    rounds = per_thread // vector
    axes = new_axes(9, 5.5)
    first = program * block_size
    pale = WARPS[warp]
    _draw_zoom(axes, 0, _draw_grid(axes, block_size, program), PROGRAMS[program])
    opened = _draw_block(axes, first, block_size, num_warps, warp, vector)
    _draw_zoom(axes, 1, opened, pale)
    span = _span(first, (warp * THREADS) * vector, THREADS * vector)
    _draw_threads(axes, span, thread, pale, vector)
    held = [
        first + (turn * num_warps * THREADS + warp * THREADS + thread) * vector + k
        for turn in range(rounds)
        for k in range(vector)
    ]
    end = _draw_registers(axes, held, pale, vector)
    _draw_zoom(axes, 2, (thread, thread + 1), pale, end)
    alt = (
        f"From the grid to one thread, for blocks of {block_size:,} float32 and {num_warps} warps. "
        f"Program {program} of the grid owns elements {first:,} to {first + block_size - 1:,}. "
        f"Its {num_warps} warps share them in pieces of {THREADS * vector}"
        + (f", {rounds} times over" if rounds > 1 else "")
        + f": warp {warp} begins at {span[0]:,}. In a warp, {THREADS} threads hold {vector} "
        f"{'neighbors' if vector > 1 else 'element'} each. "
        f"Thread {thread} of warp {warp} holds {_listed(held)}: {per_thread} in "
        f"{per_thread} register{'s' if per_thread > 1 else ''}."
    )
    return Picture.of_sketch(axes, (-4.6, WIDTH + 0.2), (-3 * LEVEL - 0.9, 1.7), alt, colors=32)


def _check(block_size: int, num_warps: int, program: int, warp: int, thread: int) -> None:
    """Raise CourseError for what cannot be drawn."""
    check_whole("hierarchy", block_size=block_size)
    if num_warps not in (1, 2, 4, 8):
        raise CourseError(f"draw.hierarchy shows 1, 2, 4 or 8 warps; num_warps is {num_warps!r}.")
    least, most = THREADS * num_warps, THREADS * num_warps * MOST_REGISTERS
    if not least <= block_size <= most or block_size & (block_size - 1):
        raise CourseError(
            f"draw.hierarchy shows blocks of {least:,} to {most:,} elements, a power of two, for "
            f"num_warps={num_warps}; block_size is {block_size:,}."
        )
    check_index("warp", warp, num_warps)
    check_index("thread", thread, THREADS)
    check_index("program", program, PROGRAMS_SHOWN)


Span = tuple[float, float]


def _span(first: int, start: int, length: int) -> tuple[int, int]:
    """The first and the last element of a piece of a block."""
    return first + start, first + start + length - 1


def _draw_name(axes: Axes, level: int, name: str, below: str) -> None:
    """The name of a level of the picture, at its left."""
    label(axes, -0.4, -level * LEVEL + 0.7, name, ha="right", fontsize=10, weight="bold")
    label(axes, -0.4, -level * LEVEL + 0.22, below, ha="right", color=DARK)


def _draw_grid(axes: Axes, block_size: int, opened: int) -> Span:
    """The programs of the grid; returns where the one that is opened lies."""
    _draw_name(axes, 0, "grid", "of programs")
    width = WIDTH / (PROGRAMS_SHOWN + 0.4)
    for program, color in enumerate(PROGRAMS[:PROGRAMS_SHOWN]):
        color = color if program == opened else paler(color, 0.65)
        cell(axes, program * width, 0, color, f"program {program}", width=width, size=10)
        first, last = _span(program * block_size, 0, block_size)
        middle = (program + 0.5) * width
        label(axes, middle, 1.3, f"elements {first:,} to {last:,}", color=DARK)
    label(axes, WIDTH - 0.2 * width, 0.5, "…", fontsize=14)
    return opened * width, (opened + 1) * width


def _draw_block(
    axes: Axes, first: int, block_size: int, num_warps: int, opened: int, vector: int
) -> Span:
    """A program's block in the pieces of its warps; returns the first piece of the one opened."""
    _draw_name(axes, 1, "program", f"{num_warps} warps, {block_size:,} elements")
    piece = THREADS * vector
    count = block_size // piece
    width = WIDTH / count
    for number in range(count):
        warp = number % num_warps
        color = WARPS[warp] if warp == opened else paler(WARPS[warp], 0.6)
        x, y = number * width, -LEVEL
        text = f"warp {warp}" if width > 3 else str(warp)
        cell(axes, x, y, color, text if width > 0.8 else "", width=width, size=9)
        if width > 3.9 or (warp == 0 and number % num_warps == 0 and width * num_warps > 3):
            label(axes, x, y - 0.3, f"{first + number * piece:,}", ha="left", color=DARK)
    return opened * width, (opened + 1) * width


def _draw_threads(axes: Axes, span: tuple[int, int], opened: int, color: str, vector: int) -> None:
    """The 32 threads of a warp."""
    _draw_name(axes, 2, "warp", f"{THREADS} threads")
    for thread in range(THREADS):
        shade = color if thread == opened else paler(color, 0.6)
        cell(axes, thread, -2 * LEVEL, shade, str(thread), size=8)
    begins, ends = span
    each = f"{vector} side by side in each thread" if vector > 1 else "one in each thread"
    elements = f"elements {begins:,} to {ends:,}: {each}"
    x, side = (0.0, "left") if opened > THREADS // 2 else (WIDTH, "right")
    label(axes, x, -2 * LEVEL - 0.35, elements, ha=side, color=DARK)


def _draw_registers(axes: Axes, held: list[int], color: str, vector: int) -> float:
    """The elements that one thread holds, register by register; returns where they end."""
    _draw_name(axes, 3, "thread", f"{len(held)} register{'s' if len(held) > 1 else ''}")
    width = min(2.6, WIDTH / len(held) * 0.97)
    y = -3 * LEVEL
    for register, element in enumerate(held):
        x = register * width + 0.25 * (register // vector) * (len(held) <= 16)
        if width > 1.5:
            cell(axes, x, y, color, f"{element:,}", width=width, size=9)
            label(axes, x + width / 2, y - 0.3, f"register {register}", color=DARK)
        else:  # too narrow for a number to lie down
            box(axes, x, y, width, 1, color, edgecolor="white", lw=0.8)
            middle = x + width / 2
            label(axes, middle, y + 0.5, str(element), rotation=90, color=ink(color), fontsize=7)
    return x + width


def _draw_zoom(axes: Axes, level: int, opened: Span, color: str, width: float = WIDTH) -> None:
    """A wedge from what is opened on a level to the whole of the next, which is so wide."""
    top, bottom = -level * LEVEL, -(level + 1) * LEVEL + 1
    xs = [opened[0], opened[1], width, 0]
    axes.fill(xs, [top, top, bottom, bottom], color=paler(color, 0.78), lw=0, zorder=0)
    for x, end in zip(opened, (0, width), strict=True):
        axes.plot([x, end], [top, bottom], color=LIGHT, lw=0.8, zorder=0.5)


def _listed(held: list[int]) -> str:
    shown = [f"{element:,}" for element in held]
    return ", ".join([*shown[:8], "…"] if len(shown) > 8 else shown)
