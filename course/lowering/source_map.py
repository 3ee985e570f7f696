"""Which line of a kernel became which lines of each stage.

Of the lines that a stage's line comes from, the innermost that is the reader's own counts.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course.errors import CourseError

from .locations import READERS, Chain, Frame, base


@dataclass(frozen=True)
class SourceLine:
    """A line of the kernel, or of a jitted function that it calls."""

    file: str
    number: int
    """In its file or cell, from 1."""
    text: str

    @property
    def frame(self) -> Frame:
        return self.file, self.number


class LineMap:
    """From lines of the kernel to lines of each stage, and back. All lines are counted from 1.

    A line that is given without a file is one of the kernel's own file.
    """

    def __init__(self, source: list[SourceLine], stages: dict[str, Callable[[], str]]) -> None:
        """stages: stage name -> function that returns its text; called when first needed, because
        disassembly is slow."""
        self.source = source
        self.stages = list(stages)
        self._texts = stages
        self._own = {line.frame: line for line in source}
        files = sorted({line.file for line in source}, reverse=True)
        # A file may be given by its name alone; of several, the first in order is meant.
        self._files = {name: file for file in files for name in (file, base(file))}
        self._frames: dict[str, dict[int, Frame]] = {}
        """For each stage that was asked for, the frames that its lines come from."""

    def of(self, line: int, file: str | None = None) -> dict[str, list[int]]:
        """The lines that came from this line of the kernel, by stage."""
        rows = {stage: self.rows(stage, line, file) for stage in self.stages}
        return {stage: numbers for stage, numbers in rows.items() if numbers}

    def rows(self, stage: str, line: int, file: str | None = None) -> list[int]:
        """The lines of one stage that came from this line of the kernel."""
        own = self.source[0].file if file is None else self._files.get(file, file)
        return [row for row, frame in self._frames_of(stage).items() if frame == (own, line)]

    def back(self, stage: str, row: int) -> SourceLine | None:
        """The line of the kernel that a stage's line came from; None if it came from none."""
        frame = self._frames_of(stage).get(row)
        return self._own[frame] if frame else None

    def places(self, stage: str) -> Iterator[tuple[int, Chain]]:
        """For each line of a stage its places in the kernel, the innermost first."""
        for row, chain in READERS[stage](self._texts[stage]()):
            own = tuple(place for place in chain if place[:2] in self._own)
            if own:
                yield row, own

    def _frames_of(self, stage: str) -> dict[int, Frame]:
        if stage not in self._texts:
            raise CourseError(f"There is no stage {stage!r}: there is {', '.join(self.stages)}.")
        if stage not in self._frames:
            self._frames[stage] = {row: chain[0][:2] for row, chain in self.places(stage)}
        return self._frames[stage]

    def __str__(self) -> str:
        """A table: for each line of the kernel how many lines of each stage came from it."""
        rows = [" line " + "".join(f"{stage:>8}" for stage in self.stages)]
        counts = [Counter(self._frames_of(stage).values()) for stage in self.stages]
        for line in self.source:
            cells = "".join(f"{count[line.frame] or '':>8}" for count in counts)
            rows.append(f"{line.number:5} {cells}  {line.text}")
        return "\n".join(rows)

    __repr__ = __str__
