"""Sketches of vectors: which program owns which element, how programs queue, a running maximum."""

import heapq
import math
from collections.abc import Sequence

from course.display.colors import PROGRAMS, SKY
from course.display.picture import Picture, new_axes
from course.display.shapes import arrow, cell, cells, label, masked_cell
from course.errors import CourseError

from .arguments import check_lists, check_numbers, check_whole

MOST_ELEMENTS = 64
MOST_PROGRAMS = 64
MOST_MULTIPROCESSORS = 8
MOST_NUMBERS = 16
MOST_NUMBERED = 40
"""Cells of a vector that are wide enough for a number."""
MOST_NAMED = 5
"""Programs on each multiprocessor of a queue that are wide enough for "program 12"."""


def programs(n_elements: int, block_size: int) -> Picture:
    """A vector in blocks: one color a program, the masked tail of the last one hatched.

    Under each block stands the expression that gives its elements, where there is room for it.
    """
    check_whole("programs", MOST_ELEMENTS, n_elements=n_elements)
    check_whole("programs", block_size=block_size)
    count = math.ceil(n_elements / block_size)
    cells = count * block_size
    roomy, narrow = block_size / cells > 0.19, block_size / cells < 0.11
    axes = new_axes(8, 1.75 if roomy else 1.45)
    for i in range(cells):
        text = str(i) if cells <= MOST_NUMBERED else ""
        if i < n_elements:
            cell(axes, i, 0, PROGRAMS[i // block_size % len(PROGRAMS)], text, size=9)
        else:
            masked_cell(axes, i, 0, text)
    for program in range(count):
        middle = (program + 0.5) * block_size
        name = str(program) if narrow else f"program {program}"
        label(axes, middle, 1.35, name, fontsize=9)
        if roomy:
            offsets = f"{program} * {block_size} + arange(0, {block_size})"
            label(axes, middle, -0.4, offsets, fontsize=9, family="monospace")
    masked = cells - n_elements
    below, foot = f"{n_elements} elements", -1.1 if roomy else -0.45
    if not roomy:
        below += f"; a program owns pid * {block_size} + arange(0, {block_size})"
    label(axes, 0, foot, below, ha="left", fontsize=9)
    if masked:
        lanes = f"hatched: {masked} masked lane{'s' if masked > 1 else ''}"
        label(axes, cells, foot, lanes, ha="right", fontsize=9)
    alt = (
        f"{n_elements} elements in blocks of {block_size}: {count} "
        f"program{'s' if count > 1 else ''}, program i owning "
        f"elements i * {block_size} to i * {block_size} + {block_size - 1}; the last one has "
        f"{masked} masked lanes past the end."
    )
    return Picture.of_sketch(axes, (-0.1, cells + 0.1), (foot - 0.4, 1.8), alt)


def queue(n_programs: int, multiprocessors: int = 4) -> Picture:
    """How a GPU works through a grid: a multiprocessor that has finished takes the next program.

    Durations are made up: on a real GPU a multiprocessor holds several programs at a time.
    """
    check_whole("queue", MOST_PROGRAMS, n_programs=n_programs)
    check_whole("queue", MOST_MULTIPROCESSORS, multiprocessors=multiprocessors)
    free = [(0.0, row) for row in range(multiprocessors)]
    axes = new_axes(8, 0.42 * multiprocessors + 0.75)
    end = 0.0
    for program in range(n_programs):
        start, row = heapq.heappop(free)
        duration = 1 + 0.35 * math.sin(12.9898 * (program + 1))  # uneven, and the same each time
        cell(axes, start, -row + 0.06, SKY, "", width=duration, height=0.88)
        text = f"program {program}" if n_programs <= MOST_NAMED * multiprocessors else str(program)
        label(axes, start + duration / 2, -row + 0.5, text)
        heapq.heappush(free, (start + duration, row))
        end = max(end, start + duration)
    for row in range(multiprocessors):
        label(axes, -0.02 * end, -row + 0.5, f"multiprocessor {row}", ha="right", fontsize=9)
    axes.set(xlim=(-0.19 * end, end * 1.02), ylim=(-multiprocessors + 0.8, 1.1))
    axes.set(xticks=[], yticks=[], xlabel="time → (a sketch)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    alt = (
        f"A sketch of {n_programs} programs on {multiprocessors} multiprocessors: each takes the "
        "next program in line when it has finished one, so programs whose elements lie side by "
        "side run at different times and places."
    )
    return Picture.of_axes(axes, alt)


def online(values: Sequence[float], block: int) -> Picture:
    """A row in tiles of `block` elements; after each the maximum m and the total of exp(x - m).

    The total so far is scaled by exp(old m - new m) before the tile's own terms are added. An arrow
    stands for m and total going on to the next tile.
    (M. Milakov and N. Gimelshein, *Online normalizer calculation for softmax*, arXiv:1805.02867.)
    """
    check_lists("online", values=values)
    check_whole("online", block=block)
    check_numbers("online", values=values)
    row = [float(value) for value in values]
    if len(row) > MOST_NUMBERS:
        raise CourseError(f"draw.online shows 1 to {MOST_NUMBERS} finite numbers.")
    axes = new_axes(8, 1.75)
    maximum, total, sentences = -math.inf, 0.0, []
    for tile, start in enumerate(range(0, len(row), block)):
        part = row[start : start + block]
        new_maximum = max(maximum, *part)
        scale = math.exp(maximum - new_maximum)
        added = sum(math.exp(x - new_maximum) for x in part)
        total, maximum = total * scale + added, new_maximum
        cells(axes, start, 0, PROGRAMS[tile % 4], [f"{x:g}" for x in part], size=9)
        sum_text = f"total · {scale:.3f} + {added:.3f}\n= {total:.3f}"
        text = f"m = {maximum:g}\n" + (sum_text if tile else f"total = {total:.3f}")
        label(axes, start + len(part) / 2, -0.35, text, va="top", fontsize=9)
        if tile:  # both numbers go on to this tile
            arrow(axes, (start - 0.15 * block, -0.6), (start + 0.15 * block, -0.6), lw=1.2)
        scaled = f", the old total times {scale:.3f}" if tile else ""
        sentences.append(f"after tile {tile} m = {maximum:g} and total = {total:.3f}{scaled}")
    alt = f"{len(row)} numbers in tiles of {block}: {'; '.join(sentences)}."
    return Picture.of_sketch(axes, (-0.1, len(row) + 0.1), (-1.6, 1.1), alt, colors=24)
