"""Programs as pictures: which slice of a vector each one owns, and how they queue for multiprocessors."""

import heapq
import math

from course.display.picture import GREY, LIGHT, PALETTE, Picture, ink, new_figure
from course.errors import CourseError

MOST_CELLS = 64
MOST_PROGRAMS = 64


def programs(n_elements: int, block_size: int) -> Picture:
    """A vector of `n_elements` cut into blocks: one colour a program, the masked tail of the last one hatched."""
    if n_elements < 1 or block_size < 1 or n_elements > MOST_CELLS:
        raise CourseError(
            f"draw.programs shows 1 to {MOST_CELLS} elements and a block of at least 1: take smaller numbers."
        )
    count = math.ceil(n_elements / block_size)
    cells = count * block_size
    figure = new_figure(8, 1.7)
    axes = figure.subplots()
    for i in range(cells):
        inside = i < n_elements
        colour = PALETTE[i // block_size % 4]
        axes.add_patch(cell(i, 0, colour if inside else "white", hatch=None if inside else "////"))
        if cells <= 40:
            axes.text(
                i + 0.5,
                0.5,
                str(i),
                ha="center",
                va="center",
                fontsize=8,
                color=ink(colour) if inside else "#555555",
            )
    for p in range(count):
        middle = (p + 0.5) * block_size
        axes.text(middle, 1.25, f"program {p}", ha="center", fontsize=9, color="black")
    axes.text(0, -0.6, f"{n_elements} elements", fontsize=9, va="center")
    if cells > n_elements:
        axes.text(
            cells, -0.6, f"{cells - n_elements} masked lanes", ha="right", va="center", fontsize=9
        )
    axes.set_xlim(-0.1, cells + 0.1)
    axes.set_ylim(-1, 1.8)
    axes.axis("off")
    alt = (
        f"{n_elements} elements in blocks of {block_size}: {count} programs, program i owning elements i * {block_size} to "
        f"i * {block_size} + {block_size - 1}; the last one has {cells - n_elements} masked lanes past the end."
    )
    return Picture.of(figure, alt)


def cell(x: float, y: float, colour: str, hatch: str | None = None, width: float = 1.0):
    """One element as a rectangle of height 1; hatched where a mask keeps it out."""
    from matplotlib.patches import Rectangle

    return Rectangle(
        (x, y),
        width,
        1,
        facecolor=colour,
        edgecolor=GREY if hatch else "white",
        hatch=hatch,
        lw=0.8,
    )


def queue(n_programs: int, multiprocessors: int = 4) -> Picture:
    """How a GPU works through a grid: each multiprocessor takes the next program when it has finished one.

    A sketch, with made-up durations: on a real GPU a multiprocessor holds several programs at a time.
    """
    if not 1 <= n_programs <= MOST_PROGRAMS or not 1 <= multiprocessors <= 8:
        raise CourseError(
            f"draw.queue shows 1 to {MOST_PROGRAMS} programs on 1 to 8 multiprocessors: take smaller numbers."
        )
    free = [(0.0, m) for m in range(multiprocessors)]
    heapq.heapify(free)
    figure = new_figure(8, 0.45 * multiprocessors + 0.9)
    axes = figure.subplots()
    end = 0.0
    for p in range(n_programs):
        start, m = heapq.heappop(free)
        duration = 1 + 0.35 * math.sin(12.9898 * (p + 1))  # uneven, and the same each time
        axes.add_patch(cell(start, -m, PALETTE[p % 4], width=duration))
        axes.text(
            start + duration / 2,
            -m + 0.5,
            str(p),
            ha="center",
            va="center",
            color=ink(PALETTE[p % 4]),
            fontsize=8,
        )
        heapq.heappush(free, (start + duration, m))
        end = max(end, start + duration)
    for m in range(multiprocessors):
        axes.text(-0.1, -m + 0.5, f"multiprocessor {m}", ha="right", va="center", fontsize=9)
    axes.axvline(end, color=LIGHT)
    axes.set_xlim(-1.6 * end / 8, end * 1.02)
    axes.set_ylim(-multiprocessors + 0.4, 1.2)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.set_xlabel("time (a sketch)")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    alt = (
        f"A sketch of {n_programs} programs on {multiprocessors} multiprocessors: each takes the next program in line when it "
        "has finished one, so programs that stand side by side in the tensor run at different times and places."
    )
    return Picture.of(figure, alt)
