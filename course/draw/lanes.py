"""Rows of bars: what the pictures of work in time have in common, and texts that fit a bar."""

from collections.abc import Mapping

from course.display.colors import ink
from course.display.picture import WIDTH, Picture, new_axes
from course.display.shapes import box, label, legend_below


def fitting(text: str, inches: float, letter: float) -> str:
    """The text, in one line or broken at its first space, if it is no wider; "" if neither is.

    letter: inches of a letter, about.
    """
    for words in (text, text.replace(" ", "\n", 1)):
        if max(map(len, words.split("\n"))) * letter < inches:
            return words
    return ""


class Lanes:
    """A sketch of who does what when: a row for each, and time from left to right."""

    def __init__(self, rows: Mapping[str, str], end: float, side: float, pitch: float) -> None:
        """rows: row -> its words at the left, from above. end: of the time that is shown.
        side: inches for the rows' words. pitch: inches from row to row."""
        self.rows, self.end, self.side = [*rows], end, side
        self.inch = (WIDTH - side) / end
        self.axes = new_axes(WIDTH, pitch * len(rows) + 1.0)
        for number, words in enumerate(rows.values()):
            label(self.axes, -0.01 * end, -number + 0.5, words, ha="right", fontsize=9)

    def bar(self, row: str, start: float, stop: float, color: str, text: str) -> None:
        """What a row does from `start` to `stop`."""
        y = -self.rows.index(row)
        box(self.axes, start, y + 0.07, stop - start, 0.86, color, edgecolor="white", lw=0.8)
        label(self.axes, (start + stop) / 2, y + 0.5, text, color=ink(color))

    def picture(
        self, what: str, colors: Mapping[str, str], columns: int, alt: str, above: float = 0.0
    ) -> Picture:
        """The picture of these lanes. what: its title. colors: words -> color, for a legend.
        above: room for words over the first row, in rows."""
        legend_below(self.axes, colors, columns)
        self.axes.set_title(what, fontsize=9.5, loc="left")
        across = (-self.side / self.inch, self.end * 1.01)
        return Picture.of_sketch(
            self.axes, across, (0.9 - len(self.rows), 1.05 + above), alt, colors=32
        )
