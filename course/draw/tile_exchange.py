"""exchange: a tile on its way through shared memory, from who loads to who stores."""

from matplotlib.axes import Axes

from course.display.colors import VERMILION
from course.display.picture import Picture, new_axes
from course.display.shapes import arrow, cell, frame, label

from .arguments import check_index
from .memory_ruler import THREADS, thread_color

SIDE = 8
"""Elements on a side of the tile: a row of float32 is one sector."""
EACH = SIDE * SIDE // THREADS
APART = 13.5
"""From panel to panel, in elements."""

Index = tuple[int, int]
"""Row and column."""


def exchange(thread: int = 5) -> Picture:
    """How one warp transposes a tile of 8 x 8 float32 so that it loads and stores neighbors.

    Each thread loads two neighbors of `x`, puts them into shared memory, takes from there the two
    that it stores, and these are neighbors in `out`. thread: the one whose elements are framed.
    """
    check_index("thread", thread, THREADS)
    axes = new_axes(9, 2.8)
    loaded = [divmod(thread * EACH + k, SIDE) for k in range(EACH)]
    taken = [(column, row) for row, column in loaded]
    _panel(axes, 0, "x: who loads it")
    _panel(axes, 1, "shared memory: who put it there")
    _panel(axes, 2, "out: who stores it")
    for panel, indices, dashed in ((0, loaded, 0), (1, loaded, 0), (1, taken, 1), (2, loaded, 0)):
        _framed(axes, panel, indices, "--" if dashed else "-")
    for panel, words in enumerate(("written by rows", "read by columns")):
        left = panel * APART + SIDE + 0.6
        arrow(axes, (left, SIDE / 2), (left + APART - SIDE - 1.2, SIDE / 2))
        label(axes, panel * APART + (SIDE + APART) / 2, SIDE / 2 - 0.8, words, fontsize=9)
    return Picture.of_sketch(
        axes, (-0.4, 2 * APART + SIDE + 0.4), (SIDE + 0.4, -1.5), words_of(thread), colors=128
    )


def _owner(index: Index) -> int:
    """The thread that has an element, where threads go along the rows."""
    return (index[0] * SIDE + index[1]) // EACH


def _panel(axes: Axes, panel: int, title: str) -> None:
    """The tile: each element has the color of the thread that loaded it, wherever it lies, and the
    number of the thread that handles it there. A row in memory is a sector, with a bold border."""
    left, is_out = panel * APART, panel == 2
    label(axes, left + SIDE / 2, -0.7, title, fontsize=9)
    for row in range(SIDE):
        for column in range(SIDE):
            loader = _owner((column, row) if is_out else (row, column))
            cell(axes, left + column, row, thread_color(loader), str(_owner((row, column))))
        if panel != 1:
            frame(axes, left, row, SIDE, 1, edgecolor="black", lw=1.5)


def _framed(axes: Axes, panel: int, indices: list[Index], line: str) -> None:
    for row, column in indices:
        place = (panel * APART + column + 0.08, row + 0.08, 0.84, 0.84)
        frame(axes, *place, edgecolor="white", lw=3.2)
        frame(axes, *place, edgecolor=VERMILION, lw=2, ls=line)


def words_of(thread: int) -> str:
    """The picture in words."""
    stored = [divmod(thread * EACH + k, SIDE) for k in range(EACH)]
    taken = [(column, row) for row, column in stored]
    loaded, placed = (" and ".join(f"{name}[{r}, {c}]" for r, c in stored) for name in ("x", "out"))
    picked = " and ".join(f"x[{r}, {c}]" for r, c in taken)
    by = " and ".join(str(_owner(index)) for index in taken)
    return (
        f"A tile of 8 x 8 float32, and a warp whose threads have 2 elements each. Thread {thread} "
        f"loads {loaded}, and puts them into shared memory. From there it takes {picked}, which "
        f"threads {by} loaded, and stores them as {placed}. Each row of x and of out is a sector, "
        "and is read or written whole."
    )
