"""The boxes of a layout's picture: neighbors in a row that the same threads hold, or one bank."""

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from course.display.colors import BANKS, LIGHT, WARPS

from .layouts import Holder, Index, Layout

MOST_ROWS = 32
MOST_COLUMNS = 128

Thread = tuple[int, int]
"""A warp, and a thread of it."""
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Box:
    """Neighbors in a row that are drawn as one."""

    width: int
    """Columns."""
    color: str
    text: str = ""
    small: str = ""
    """A second line."""
    framed: bool = False


def rows_of(drawn: Layout) -> Iterator[list[Index]]:
    """The elements that are drawn, row by row; of more than two dimensions the first matrix.

    A vector's rows are as long as the run of its first warp.
    """
    shape = drawn.copy_shape
    if len(shape) == 1:
        (length,) = shape
        run = length
        if not drawn.shared:
            warps = [drawn.holders(i)[0].warp for i in range(min(length, MOST_COLUMNS))]
            run = next((i for i, warp in enumerate(warps) if warp != warps[0]), len(warps))
        width = max(run, min(16, length))
        for start in range(0, min(length, width * MOST_ROWS), width):
            yield [(i,) for i in range(start, min(start + width, length))]
        return
    outer = (0,) * (len(shape) - 2)
    height, width = min(shape[-2], MOST_ROWS), min(shape[-1], MOST_COLUMNS // 2)
    for row in range(height):
        yield [(*outer, row, column) for column in range(width)]


def thread_boxes(drawn: Layout, row: list[Index]) -> list[Box]:
    """A box for neighbors that the same threads hold: warp:thread, and below their registers."""

    def box(group: list[Index], threads: tuple[Thread, ...]) -> Box:
        registers = [_register(drawn.holders(*index), threads[0]) for index in group]
        color = WARPS[threads[0][0] % len(WARPS)]
        return Box(len(group), color, _threads_text(threads), f"r{ranges(registers)}")

    return _grouped(row, lambda index: _threads(drawn.holders(*index)), box)


def boxes_of_one(drawn: Layout, row: list[Index], thread: Thread) -> list[Box]:
    """What one thread holds: the elements' numbers in a vector, and their registers; gray the rest.

    In a matrix the numbers are those of columns.
    """

    def box(group: list[Index], held: bool) -> Box:
        if not held:
            return Box(len(group), LIGHT)
        registers = [_register(drawn.holders(*index), thread) for index in group]
        numbers = ranges([index[-1] for index in group])
        color = WARPS[thread[0] % len(WARPS)]
        return Box(len(group), color, numbers, f"r{ranges(registers)}")

    return _grouped(row, lambda index: thread in _threads(drawn.holders(*index)), box)


def bank_boxes(drawn: Layout, row: list[Index], moved: Iterable[Index] = ()) -> list[Box]:
    """A box for neighbors in one bank, framed where all of them are among those `moved`."""
    marked = set(moved)

    def box(group: list[Index], bank: int) -> Box:
        framed = bool(marked) and marked.issuperset(group)
        return Box(len(group), BANKS[bank // 4], str(bank), framed=framed)

    return _grouped(row, lambda index: drawn.bank(*index), box)


def shared_small(boxes: list[Box]) -> tuple[list[Box], str]:
    """Where all boxes of a row have the same second line, it is taken out of them, once."""
    texts = {box.small for box in boxes if box.color != LIGHT}
    if len(texts) != 1:
        return boxes, ""
    return [replace(box, small="") for box in boxes], texts.pop()


def ranges(numbers: Iterable[int]) -> str:
    """0-3 for 0, 1, 2, 3; 0-1,4-5 with a gap; 0,8…24 where there are more than three runs."""
    ordered = sorted(numbers)
    runs: list[tuple[int, int]] = []
    for number in ordered:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    if len(runs) > 3:
        return f"{ordered[0]},{runs[1][0]}…{ordered[-1]}"
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _grouped(
    row: list[Index], key: Callable[[Index], Key], box: Callable[[list[Index], Key], Box]
) -> list[Box]:
    """A box for each run of neighbors of the same key."""
    return [box(list(group), same) for same, group in itertools.groupby(row, key)]


def _threads(holders: list[Holder]) -> tuple[Thread, ...]:
    return tuple(dict.fromkeys((holder.warp, holder.thread) for holder in holders))


def _threads_text(threads: tuple[Thread, ...]) -> str:
    """0:5, or 0:0-7 if several threads hold the same."""
    warps, lanes = ({thread[place] for thread in threads} for place in (0, 1))
    return f"{ranges(warps)}:{ranges(lanes)}"


def _register(holders: list[Holder], thread: Thread) -> int:
    """In which register a thread holds an element."""
    return next(each.register for each in holders if (each.warp, each.thread) == thread)
