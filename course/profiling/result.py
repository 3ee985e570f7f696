"""What `profile` returns: a program's kernels, what there is to gain most first."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from course.display.widget import write_page
from course.files import write_whole
from course.progress_bar import track
from course.table import numbers
from course.tracing.repeat_file import versions
from course.tracing.result import time_text

from .against import compared, read_summary
from .gpu_times import Timed
from .row import Row

MOST_COUNTED = 100
"""Rows whose bytes and operations are counted, as that takes a second for each."""
WORDS = ("kernel", "others", "line", "bound by")
"""The columns that hold words."""


@dataclass(frozen=True)
class Other:
    """What ran on the GPU beside the program's own Triton kernels, by its name."""

    name: str
    launches: int
    us: float


class Profile:
    """A program's Triton kernels, what there is to gain most first. Prints as a table and a tree.

    p[3] is the row of that number. Rows are counted when they are first asked for.
    """

    def __init__(self) -> None:
        self._seen: list[Row] = []
        self.others: list[Other] = []
        """Kernels of PyTorch and of libraries, each by its name."""
        self.notes: list[str] = []
        """What could not be seen, in sentences."""

    def take(
        self, seen: Sequence[Row], timed: Timed, lost: Mapping[str, int] | None = None
    ) -> None:
        """Take what was seen and what it took, once the program is over.

        lost: reasons why launches are in no row -> how many are not.
        """
        self._seen, self.others = list(seen), shared_out(seen, timed)
        if timed.problem:
            self.notes.append(f"No time was measured: {timed.problem}.")
        for why, launches in (lost or {}).items():
            self.notes.append(f"{launches:,} launches could not be looked at: {why}.")
        if len(devices := sorted(set().union(*(row.devices for row in seen)))) > 1:
            self.notes.append(f"Times are those of the GPUs {devices} together.")
        self.__dict__.pop("rows", None)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows, in the order of what there is to gain."""
        rows = sorted(self._seen, key=lambda row: -(row.us or row.launches))
        for row in track(rows[:MOST_COUNTED], "Counting what kernels move and compute"):
            row.counted  # noqa: B018
        for row in rows[MOST_COUNTED:]:
            row.counted = f"only {MOST_COUNTED} rows are counted; .cost() counts this one"
        return sorted(rows, key=lambda row: -row.gain_us)

    @property
    def timed(self) -> bool:
        """Whether a GPU took the times."""
        return any(row.us is not None for row in self._seen)

    def spent(self, row: Row) -> float | None:
        """What a row took, or takes at best where no time was measured."""
        return row.us if self.timed else row.least_us

    @property
    def total_us(self) -> float:
        """What all kernels took together, those of others too."""
        known = (*map(self.spent, self.rows), *(each.us for each in self.others))
        return sum(us or 0 for us in known)

    def __getitem__(self, number: int) -> Row:
        return self.rows[number]

    def __len__(self) -> int:
        return len(self._seen)

    def to_json(self, path: str | Path) -> Path:
        """Write all of it for machines, and for `against`."""
        write_whole(Path(path), json.dumps(self.summary(), indent=1) + "\n")
        return Path(path)

    def to_html(self, path: str | Path, most: int = 20) -> Path:
        """Write a page that stands alone, with the explorer of the first so many kernels."""
        from .page import page_of

        return write_page(path, page_of(self, most))

    def against(self, before: str | Path) -> str:
        """What became slower or faster since a profile that `to_json` has written, and which
        kernels were compiled to something else."""
        return compared(read_summary(before), self.summary())

    def summary(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "made_by": versions(),
            "timed": self.timed,
            "total_us": self.total_us,
            "rows": [row.summary() for row in track(self.rows, "Compiling kernels")],
            "others": [asdict(each) for each in self.others],
            "notes": self.all_notes(),
        }

    def table(self) -> list[tuple[str, ...]]:
        """The table's cells, its head first."""
        head = ["", "kernel", "launches", "time" if self.timed else "at best", "share"]
        head += ["to gain", "of its roof"] if self.timed else ["bound by"]
        head += ["bytes", "operations", "registers", "spilled", "line"]
        return [(*head,), *(self._cells(number, row) for number, row in enumerate(self.rows))]

    def _cells(self, number: int, row: Row) -> tuple[str, ...]:
        cost = None if isinstance(row.counted, str) else row.counted
        used = cost.resources if cost else None
        cells = [str(number), row.name, f"{row.launches:,}", *self._time(self.spent(row))]
        if self.timed:
            roof = (row.least_us or 0) / row.us if row.us else 0
            cells += [time_text(row.gain_us), f"{roof:.0%}" if roof else "?"]
        else:
            cells.append(cost.bound if cost else "?")
        moved = cost.distinct_loaded + cost.distinct_stored if cost else 0
        cells += [f"{moved:,}", f"{cost.flops:,}"] if cost else ["?", "?"]
        cells += [str(used.registers), str(used.spill_bytes)] if used else ["?", "?"]
        return (*cells, row.where)

    def _time(self, us: float | None) -> tuple[str, str]:
        """A time, and its share of all."""
        return ("?", "?") if us is None else (time_text(us), f"{us / (self.total_us or 1):.0%}")

    def others_table(self) -> list[tuple[str, ...]]:
        """The same of what others ran."""
        rows = [
            (each.name[:60], f"{each.launches:,}", *self._time(each.us)) for each in self.others
        ]
        return [("others", "launches", "time", "share"), *rows] if rows else []

    def all_notes(self) -> list[str]:
        """What could not be seen or counted, in sentences."""
        return self.notes + [
            f"[{number}] {row.name} is not counted: {row.counted}"
            for number, row in enumerate(self.rows)
            if isinstance(row.counted, str)
        ]

    def branches(self) -> list[tuple[int, str]]:
        """The tree of the program's lines that lead to launches: depths and texts. What takes most
        comes first; of lines that lead to nothing else the first and the last are named."""
        return [*self._below(self.rows, 0, 0)]

    def _below(self, rows: list[Row], start: int, depth: int) -> Iterator[tuple[int, str]]:
        groups: dict[Any, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.path[start] if len(row.path) > start else row, []).append(row)
        total = {key: sum(self.spent(row) or 0 for row in inside) for key, inside in groups.items()}
        for key in sorted(groups, key=lambda key: -total[key]):
            inside, end = groups[key], start + 1
            if isinstance(key, Row):
                number = self.rows.index(key)
                spent = self._time(self.spent(key))[0]
                yield depth, f"[{number}] {key.name}, {key.launches:,} x, {spent}"
                continue
            while len({row.path[: end + 1] for row in inside}) == 1 and len(inside[0].path) > end:
                end += 1
            last = inside[0].path[end - 1]
            chain = f"{key} … {last}" if end > start + 1 else str(key)
            yield depth, f"{chain} in {last.function}: {time_text(total[key])}"
            yield from self._below(inside, end, depth + 1)

    def __str__(self) -> str:
        parts = (
            [aligned(self.table())] if self._seen else ["No kernel was launched through Triton."]
        )
        if self.others:
            parts += ["", aligned(self.others_table())]
        parts += ["", *("    " * depth + text for depth, text in self.branches())]
        return "\n".join([*parts, *(f"note: {note}" for note in self.all_notes())]).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .page import content_of

        return content_of(self)


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """A table with its head: numbers to the right, words to the left."""
    columns = [
        [cell.ljust(max(map(len, column))) if column[0] in WORDS else cell for cell in column]
        for column in zip(*rows, strict=True)
    ]
    lines = numbers([*zip(*columns, strict=True)]).split("\n")
    return "\n".join(line.rstrip() for line in lines)


def shared_out(rows: Sequence[Row], timed: Timed) -> list[Other]:
    """Give each row the time of its kernels; what is nobody's is returned, by its name.

    A kernel's name and its grid say whose it is, and how often it ran, CUDA graphs included. Rows
    that have both alike share time and launches by how often they were seen to be launched. A row
    that was not recorded has no grid: it takes what has its name and is no other row's.
    """
    owners: dict[Any, list[Row]] = {}
    for row in rows:
        grid = (*row.recorded.grid, 1, 1)[:3] if row.recorded else None
        owners.setdefault((row.gpu_name, grid), []).append(row)
    names = {row.gpu_name for row in rows}
    others: dict[str, list[float]] = {}
    taken: dict[Any, list[float]] = {}
    for kernel in timed.kernels:
        key: Any = kernel.name, kernel.grid
        key = key if key in owners else (kernel.name, None)
        if kernel.name in names and timed.is_trial(kernel):
            others.setdefault("trials of @triton.autotune", []).append(kernel.us)
        elif key in owners:
            taken.setdefault(key, []).append(kernel.us)
            for row in owners[key]:
                row.devices.add(kernel.device)
        else:
            others.setdefault(kernel.name, []).append(kernel.us)
    for key, times in taken.items():
        launched = sum(row.launches for row in owners[key])
        for row in owners[key]:
            row.us = sum(times) * row.launches / launched
            row.launches = round(len(times) * row.launches / launched)
    found = [Other(name, len(times), sum(times)) for name, times in others.items()]
    return sorted(found, key=lambda each: -each.us)
