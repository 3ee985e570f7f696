"""The 32 threads of a warp and the sectors that they touch, for elements at equal distances."""

from course.display.colors import WORK
from course.display.lane_arrows import draw_lane_arrows, lane_legend
from course.display.picture import Picture, new_figure
from course.errors import CourseError
from course.gpus.limits import SECTOR_BYTES

from .arguments import check_whole

LANES = 32
MOST = 2**20
ITEM_BYTES = (1, 2, 4, 8)


def sectors(*strides: int, start: int = 0, itemsize: int = 4) -> Picture:
    """Where the 32 threads of a warp read, each one element: an arrow from each to its sector.

    strides: how many elements thread i + 1 lies beyond thread i; a row of arrows each, 1 to 4 of
        them, by default 1. start: the element of thread 0.
    itemsize: bytes of an element, 1, 2, 4 or 8.
    """
    strides = strides or (1,)
    if len(strides) > 4:
        raise CourseError(f"draw.sectors shows up to 4 strides; these are {len(strides)}.")
    for stride in strides:
        check_whole("sectors", MOST, 0, start=start, stride=stride)
    if itemsize not in ITEM_BYTES:
        raise CourseError(f"draw.sectors: itemsize is {itemsize!r}, and must be 1, 2, 4 or 8.")
    figure = new_figure(9, 1.72 * len(strides) + 0.3)
    sentences = []
    rows = figure.subplots(len(strides), squeeze=False)[:, 0]
    for axes, stride in zip(rows, strides, strict=True):
        firsts = [(start + lane * stride) * itemsize for lane in range(LANES)]
        lanes = [(first, first + itemsize) for first in firsts]
        touched = draw_lane_arrows(axes, lanes, WORK["load"])
        moved, asked = len(touched) * SECTOR_BYTES, len(set(lanes)) * itemsize
        sectors_move = "sectors, which move" if len(touched) > 1 else "sector, which moves"
        head = f"stride {stride}" + (f", from element {start}" if start else "")
        counts = f"{len(touched)} {sectors_move} {moved:,} bytes for {asked:,} that are used"
        axes.set_title(f"{head}: {counts}", fontsize=9.5, loc="left")
        sentences.append(f"With {head}, the {LANES} threads of a warp touch {counts}.")
    legend = lane_legend({"load": WORK["load"]})
    figure.legend(handles=legend, loc="outside lower right", ncols=2, fontsize=8, frameon=False)
    what = f"Each thread reads one element of {itemsize} byte{'s' if itemsize > 1 else ''}."
    return Picture.of(figure, " ".join([what, *sentences]), colors=32)
