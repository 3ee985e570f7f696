"""Two programs that add to one place in memory, side by side in time."""

from course.display.colors import DARK, LIGHT, PROGRAMS, VERMILION
from course.display.picture import Picture, new_axes
from course.display.shapes import arrow, cell, label

START, ADDED = 5, 1
"""What lies in memory at first, and what each program adds."""


def race(atomic: bool = False) -> Picture:
    """Two programs add 1 to the same place: how one of the additions is lost.

    atomic: draw it with tl.atomic_add, where the second program has to wait for the first.
    """
    # Each step: its program, when it begins, how many units it lasts, its text.
    if atomic:
        steps = [(0, 0, 3, f"atomic_add: {START} → 6"), (1, 3, 3, "atomic_add: 6 → 7")]
        memory = [(0, 3, "5"), (3, 6, "6"), (6, 7, "7")]  # from when to when it holds what
    else:
        steps = [
            (0, 0, 1, "load: 5"), (1, 1, 1, "load: 5"), (0, 2, 1, "add: 6"),
            (1, 3, 1, "add: 6"), (0, 4, 1, "store 6"), (1, 5, 1, "store 6"),
        ]  # fmt: skip
        memory = [(0, 5, "5"), (5, 6, "6"), (6, 7, "6")]
    axes = new_axes(8, 2.3)
    for program, start, units, text in steps:
        x, y = 2 * start, 1.3 - 1.3 * program
        cell(axes, x + 0.1, y, PROGRAMS[program], text, width=2 * units - 0.2, size=9)
    for start, stop, value in memory:
        cell(axes, 2 * start, -1.3, LIGHT, value, width=2 * (stop - start), size=10, height=0.8)
    for y, text in ((1.8, "program 0"), (0.5, "program 1"), (-0.9, "in memory")):
        label(axes, -0.2, y, text, ha="right", fontsize=9)
    wanted = START + 2 * ADDED
    end = "7: both additions are there" if atomic else f"{wanted} was due: one addition is lost"
    label(axes, 14.15, -0.9, end, ha="left", color=DARK if atomic else VERMILION, fontsize=9)
    arrow(axes, (0, -1.7), (14, -1.7), DARK, lw=1)
    label(axes, 7, -2.05, "time", color=DARK)
    return Picture.of_sketch(axes, (-2.4, 19.6), (-2.4, 2.5), _alt(atomic))


def _alt(atomic: bool) -> str:
    if atomic:
        return (
            "Two programs add 1 to a place in memory that holds 5, with tl.atomic_add. Program 0 "
            "turns 5 into 6 in one step that nothing can come between; program 1 waits and turns 6 "
            "into 7. Both additions are there."
        )
    return (
        "Two programs add 1 to a place in memory that holds 5. Program 0 loads 5; program 1 loads "
        "5 too, before anything was stored. Both compute 6. Program 0 stores 6, then program 1 "
        "stores 6: memory holds 6 where 7 was due. One addition is lost."
    )
