"""The page of recorded speeds: for each study a plot and a table, from course/benching/recorded.

The plots are SVG in the page itself, in colors of the style sheet, so that they can be read on a
light page and on a dark one.
"""

import html
import math
from pathlib import Path

from course.benching.result import Speeds
from course.gpus.recorded import EARLIER

from . import ROOT

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 32, 48
"""Room beside the axes, in pixels."""
MOST_COUNTED = 16
"""Sizes up to this are counted; larger ones stand on a logarithmic axis."""
MARKS = 8
"""Colors and marks in the style sheet and in `_mark`."""

STYLE = (
    "path{fill:none}text{fill:currentColor;font-size:12px}.source{font-size:10px}.grid{stroke:currentColor;opacity:.2}"
    ".roof{stroke:currentColor;stroke-dasharray:6 4}.line{stroke:var(--s);stroke-width:2}"
    ".band{fill:var(--s);opacity:.15}.mark{fill:var(--s);stroke:var(--s)}.series-0{--s:#0072b2}"
    ".series-1{--s:#e69f00}.series-2{--s:#009e73}.series-3{--s:#cc79a7}"
)
"""For a plot that is a file of its own."""

HEAD = """# Recorded speeds

What `make record` measured on a GPU: medians, with the L2 cache emptied before each call. The
lessons take their numbers from here, and `recorded("NAME")` gives you the same in a notebook. Each
plot names the machine, the versions and the date, and says where a kernel has changed since. Your
own GPU will differ: `course bench` measures it.
"""


def page(folder: Path) -> str:
    """The page, in Markdown. folder: where the records are."""
    records = [Speeds.from_json(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return "\n".join([HEAD, *map(entry, records)])


def entry(speeds: Speeds) -> str:
    """One record: its plot, its table, its source."""
    return f"## {speeds.name}\n\n{speeds.source}\n\n{figure(speeds)}\n\n{table(speeds)}\n"


def figure(speeds: Speeds) -> str:
    """The plot of a record with its legend."""
    names = "".join(
        f'<li class="series-{rank % MARKS}"><svg viewBox="-8 -8 16 16" aria-hidden="true">'
        f"{_mark(rank, 0, 0)}</svg>{html.escape(name)}</li>"
        for rank, name in enumerate(speeds.series)
    )
    return f'<figure class="speeds">{plot(speeds)}<ul class="legend">{names}</ul></figure>'


def table(speeds: Speeds) -> str:
    """The speeds, a row per size. A share is of the copy roof."""
    head, *rows = speeds.rows()
    roof = speeds.roof
    of = f" A percentage is the share of the copy roof, {roof:.2f} TB/s." if roof else ""
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["--:"] * len(head), *rows)]
    return f"In {speeds.unit}.{of}\n\n" + "\n".join(lines) + "\n"


class Axes:
    """Where sizes and speeds stand in a plot."""

    def __init__(self, speeds: Speeds) -> None:
        self.sizes = speeds.sizes
        self.roof = speeds.roof or 0.0
        most = max([self.roof, *(timing.speed for timing in speeds.timings)])
        self.step = _step(most)
        self.top = self.step * math.ceil(most / self.step + 0.05)

    def x(self, size: int) -> float:
        first, here, last = map(self._place, (self.sizes[0], size, self.sizes[-1]))
        share = (here - first) / ((last - first) or 1)
        return round(LEFT + 12 + share * (WIDTH - LEFT - RIGHT - 24), 1)

    def _place(self, size: int) -> float:
        return size if self.sizes[-1] <= MOST_COUNTED else math.log2(size)

    def y(self, speed: float) -> float:
        return round(HEIGHT - BOTTOM - speed / self.top * (HEIGHT - TOP - BOTTOM), 1)

    def drawn(self, x_name: str, unit: str) -> list[str]:
        """Lines, numbers and names of the axes, and the copy roof."""
        levels = [number * self.step for number in range(round(self.top / self.step) + 1)]
        below = HEIGHT - BOTTOM + 20
        parts = [_level("grid", self.y(level)) for level in levels]
        parts += [_text(LEFT - 6, self.y(level) + 4, f"{level:g}", "end") for level in levels]
        ticks = self.sizes[:: math.ceil(len(self.sizes) / 9)]
        parts += [_text(self.x(size), below, _short(size)) for size in ticks]
        parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, x_name))
        parts.append(_text(0, TOP - 14, unit, "start"))
        if self.roof:
            parts.append(_level("roof", self.y(self.roof)))
            parts.append(_text(LEFT + 4, self.y(self.roof) - 4, "copy roof", "start"))
        return parts


def plot(speeds: Speeds) -> str:
    """Medians over the size as SVG, each in a band from its slow to its fast calls."""
    axes = Axes(speeds)
    parts = axes.drawn(speeds.x_name, speeds.unit)
    for rank, name in reversed([*enumerate(speeds.series)]):  # the first lies on top
        timings = sorted(speeds.of(name), key=lambda timing: timing.x)
        points = [(axes.x(each.x), axes.y(each.speed)) for each in timings]
        slow = [(axes.x(each.x), axes.y(each.work / each.ms_high / 1e9)) for each in timings]
        fast = [(axes.x(each.x), axes.y(each.work / each.ms_low / 1e9)) for each in timings]
        band = f'<path class="band" d="{_path([*slow, *reversed(fast)])}Z"/>'
        line = f'<path class="line" d="{_path(points)}"/>'
        marks = "".join(_mark(rank, x, y) for x, y in points)
        parts.append(f'<g class="series-{rank % MARKS}">{band}{line}{marks}</g>')
    if speeds.outdated:
        parts.append(_text(WIDTH - RIGHT, TOP - 14, EARLIER, "end"))
    earlier = f", {EARLIER}" if speeds.outdated else ""
    label = html.escape(f"Speed over {speeds.x_name}{earlier}{speeds.tops(speeds.series)}")
    inside = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{inside}</svg>'


def standalone(speeds: Speeds) -> str:
    """The plot with its legend as a file, with colors that can be read on light and dark pages."""
    legend = "".join(
        f'<g class="series-{rank}">{_mark(rank, LEFT + 20 + 160 * rank, HEIGHT + 12)}'
        f"{_text(LEFT + 30 + 160 * rank, HEIGHT + 16, name, 'start')}</g>"
        for rank, name in enumerate(speeds.series)
    )
    drawn = plot(speeds).removesuffix("</svg>").replace(f'{HEIGHT}"', f'{HEIGHT + 44}"', 1)
    source = _text(0, HEIGHT + 38, speeds.source, "start").replace("<text", '<text class="source"')
    head = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" color="#888" '
    return f"{drawn.replace('<svg ', head, 1)}<style>{STYLE}</style>{legend}{source}</svg>\n"


def _level(kind: str, y: float) -> str:
    return f'<path class="{kind}" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _step(most: float) -> float:
    """The distance between lines of the grid: 1, 2 or 5 times a power of ten; at most six fit."""
    power = 10 ** math.floor(math.log10(most / 6))
    return next(factor * power for factor in (1, 2, 5, 10) if most / (factor * power) <= 6)


def _short(x: int) -> str:
    """A size as people say it: 4 Ki, 16 Mi."""
    for power, word in ((30, " Gi"), (20, " Mi"), (10, " Ki")):
        if x >= 1 << power and x % (1 << power) == 0:
            return f"{x >> power}{word}"
    return f"{x:,}"


def _path(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in points)


def _mark(rank: int, x: float, y: float) -> str:
    """A mark of one of eight forms, so that color is not all that tells series apart."""
    moves = (
        None,
        "m-3.5-3.5h7v7h-7z",
        "m0-4.5l4.5 8h-9z",
        "m0-5l5 5l-5 5l-5-5z",
        "m0 4.5l4.5-8h-9z",
        "m-4-4l8 8m0-8l-8 8",
        "m-5 0h10m-5-5v10",
        "m-1.5-5h3v10h-3z",
    )
    move = moves[rank % MARKS]
    if move is None:
        return f'<circle class="mark" cx="{x}" cy="{y}" r="3.5"/>'
    return f'<path class="mark" d="M{x} {y}{move}"/>'


if __name__ == "__main__":
    swiglu = (ROOT / "course" / "benching" / "recorded" / "swiglu.json").read_text()
    (ROOT / "docs" / "swiglu.svg").write_text(
        standalone(Speeds.from_json(swiglu)), encoding="utf-8"
    )
