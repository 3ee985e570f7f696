"""What `profile` returns: a program's kernels, what there is to gain most first."""

import json
import math
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import triton

from course import DEVICE, MODE
from course.diagnosing.api import diagnose
from course.diagnosing.result import Diagnosis
from course.errors import CourseError
from course.files import write_whole
from course.lowering.api import Lowered, lower
from course.lowering.explorer import Explorer, explore
from course.lowering.passes import without_locations
from course.progress_bar import track
from course.table import numbers
from course.tracing.api import cost, replay
from course.tracing.copies import Filled
from course.tracing.recorder import Launch
from course.tracing.replay import Replay
from course.tracing.result import Cost, time_text
from course.type_names import AnyValue, Function
from course.verifying.result import Verified

from .against import compared
from .gpu_times import Timed
from .seen import Kind, Place

MOST_COUNTED = 100
"""Rows whose bytes and operations are counted, as that takes a second for each."""


class Row:
    """The launches of one kernel from one line with arguments of one kind."""

    def __init__(self, kind: Kind, target: str | None) -> None:
        self._kind, self._target = kind, target

    name = property(lambda self: self._kind.name, doc="The kernel's name.")
    launches = property(lambda self: self._kind.launches, doc="How often it was launched.")
    us = property(lambda self: self._kind.us, doc="Microseconds on the GPU; None if not measured.")

    @property
    def path(self) -> tuple[Place, ...]:
        """The program's lines that lead to the launch, the outermost first."""
        return self._kind.path

    @property
    def where(self) -> str:
        """The line that launches."""
        return str(self.path[-1]) if self.path else ""

    @property
    def launch(self) -> Launch:
        """The first of the launches, in outline: cost(*row.launch) and the like take it.

        Raises CourseError if it could not be recorded.
        """
        if self._kind.launch is None:
            why = self._kind.problem or "it had not ended"
            raise CourseError(f"The launch of {self.name} could not be recorded: {why}.")
        return self._kind.launch

    @property
    def arguments(self) -> str:
        """What it was given, in short."""
        return self._kind.launch.row()[2] if self._kind.launch else ""

    @cached_property
    def counted(self) -> Cost | str:
        """What `cost` counts of one launch, or why it cannot."""
        try:
            return self.cost()
        except CourseError as error:
            return str(error)

    @property
    def least_us(self) -> float | None:
        """The least that all the launches take by the GPU's roofs; None if that is not known."""
        return None if isinstance(self.counted, str) else self.launches * self.counted.least_us

    @property
    def gain_us(self) -> float:
        """What there is to gain: the time without that of the roofs; without a time, the least."""
        if self.us is None:
            return self.least_us or 0
        return float(self.us - (self.least_us or 0))

    def cost(self) -> Cost:
        """What one launch moves and computes: see `course.cost`."""
        return cost(*self.launch, target=self._target)

    def lower(self) -> Lowered:
        """The kernel through every stage of the compiler: see `course.lower`."""
        return lower(*self.launch, target=self._compiled_for())

    def explore(self) -> Explorer:
        """Source and stages side by side: see `course.explore`."""
        return explore(self.lower())

    def diagnose(self) -> Diagnosis:
        """What limits the launch: see `course.diagnose`."""
        filled = self._filled() if MODE.gpu else self.launch  # it is timed there
        return diagnose(*filled, target=self._target)

    def replay(self, **options: AnyValue) -> Replay:
        """The launch step by step: see `course.replay`. Numbers that were not kept are made up."""
        return replay(*self._filled("cpu"), **options)

    def verify(self, reference: Function, output: str | None = None) -> Verified:
        """Whether the launch computes what `reference` does: see `course.verify`.

        reference: a function in PyTorch of the floating-point tensors that the kernel reads, in the
            order of its parameters. Everything else stays as it was recorded.
        output: the parameter to compare; by default the first one that the kernel writes.
        """
        from .verified import verified

        return verified(self.launch, self.cost(), reference, output)

    def reproduce(self, path: str | Path, seed: int = 0) -> Path:
        """Write a file that repeats the launch by itself: see `to_file` of a recorded launch.

        The tensors' numbers lie beside it if they were kept: `course.profile(data=True)`. Otherwise
        they are made anew from the seed.
        """
        tensors = [each for each in self.launch.args if isinstance(each, torch.Tensor)]
        kept = not any(tensor.is_meta for tensor in tensors)
        return self.launch.to_file(path, None if kept else seed)

    def summary(self) -> dict[str, Any]:
        """All of it as JSON, times in microseconds."""
        known: dict[str, Any] = {}
        if isinstance(self.counted, Cost):
            used = self.counted.resources
            known = {
                "least_us": self.least_us,
                "bound": self.counted.bound,
                "bytes": _moved(self.counted),
                "operations": self.counted.flops,
                "resources": asdict(used) if used else None,
                "stages": self._stages() if used else {},
            }
        else:
            known["problem"] = self.counted
        return {
            "kernel": self.name,
            "arguments": self.arguments,
            "launches": self.launches,
            "us": self.us,
            "gain_us": self.gain_us,
            "where": self.where,
            "path": [f"{place} {place.function}" for place in self.path],
            **known,
        }

    def _stages(self) -> dict[str, str]:
        """A hash of each stage without its locations, and so of what the compiler made."""
        lowered = self.lower()
        texts = {name: without_locations(text) for name, text in lowered.texts.items()}
        return {name: sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}

    def _compiled_for(self) -> str:
        counted = self.counted
        return counted.gpu.target if isinstance(counted, Cost) else (self._target or "sm_90")

    def _filled(self, device: str = DEVICE) -> Launch:
        return self.launch.copied(Filled(device, seed=0))

    def __repr__(self) -> str:
        lines = [f"{self.name}, {self.launches:,} launches, {self.where}", f"    {self.arguments}"]
        return "\n".join([*lines, f"    {self.counted}"])


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

    def __init__(self, target: str | None = None) -> None:
        self._target = target
        self._kinds: list[Kind] = []
        self.others: list[Other] = []
        """Kernels of PyTorch and of libraries, each by its name."""
        self.notes: list[str] = []
        """What could not be seen, in sentences."""

    def take(self, kinds: Sequence[Kind], timed: Timed) -> None:
        """Take what was seen and what it took, once the program is over."""
        self._kinds = list(kinds)
        self.others = shared_out(self._kinds, timed)
        if timed.problem and MODE.gpu:
            self.notes.append(f"No time was measured: {timed.problem}.")
        self.__dict__.pop("rows", None)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows, in the order of what there is to gain."""
        rows = [Row(kind, self._target) for kind in self._kinds]
        rows.sort(key=lambda row: -(row.us or row.launches))
        for row in track(rows[:MOST_COUNTED], "Counting what kernels move and compute"):
            row.counted  # noqa: B018
        for row in rows[MOST_COUNTED:]:
            row.counted = f"only the first {MOST_COUNTED} rows are counted; p[n].cost() counts one"
        return sorted(rows, key=lambda row: -row.gain_us)

    @property
    def timed(self) -> bool:
        """Whether a GPU took the times."""
        return any(kind.us is not None for kind in self._kinds)

    @property
    def total_us(self) -> float:
        """What all kernels took together, or take at least where no time was measured."""
        if self.timed:
            return sum(row.us or 0 for row in self.rows) + sum(each.us for each in self.others)
        return sum(row.least_us or 0 for row in self.rows)

    def __getitem__(self, number: int) -> Row:
        return self.rows[number]

    def __len__(self) -> int:
        return len(self._kinds)

    def to_json(self, path: str | Path) -> Path:
        """Write all of it for machines, and for `against`."""
        return _written(path, json.dumps(self.summary(), indent=1) + "\n")

    def to_html(self, path: str | Path, most: int = 20) -> Path:
        """Write a page that stands alone, with the explorer of the first so many kernels."""
        from .page import page_of

        return _written(path, page_of(self, most))

    def against(self, before: str | Path) -> str:
        """What became slower or faster since a profile that `to_json` has written, and which
        kernels were compiled to something else."""
        try:
            old = json.loads(Path(before).read_bytes())
        except (OSError, ValueError) as error:
            raise CourseError(f"{before} is no profile: {error}.") from error
        return compared(old, self.summary())

    def summary(self) -> dict[str, Any]:
        """All of it as JSON."""
        rows = track(self.rows, "Compiling kernels")
        return {
            "made_by": made_by(),
            "timed": self.timed,
            "total_us": self.total_us,
            "rows": [row.summary() for row in rows],
            "others": [asdict(each) for each in self.others],
            "notes": self.all_notes(),
        }

    def table(self) -> list[tuple[str, ...]]:
        """The table's cells, its head first."""
        head = ("", "kernel", "launches", "time" if self.timed else "at best", "share")
        head += ("to gain", "of its roof") if self.timed else ("bound by",)
        head += ("bytes", "operations", "registers", "spilled", "line")
        return [head, *(self._cells(n, row) for n, row in enumerate(self.rows))]

    def _cells(self, number: int, row: Row) -> tuple[str, ...]:
        spent = row.us if self.timed else row.least_us
        counted = row.counted if isinstance(row.counted, Cost) else None
        used = counted.resources if counted else None
        cells = (str(number), row.name, f"{row.launches:,}", _time(spent), self._share(spent))
        if self.timed:
            of_roof = row.least_us / row.us if row.least_us and row.us else math.nan
            cells += (_time(row.gain_us), "" if math.isnan(of_roof) else f"{of_roof:.0%}")
        else:
            cells += (counted.bound if counted else "?",)
        moved = (f"{_moved(counted):,}", f"{counted.flops:,}") if counted else ("?", "?")
        kept = (str(used.registers), str(used.spill_bytes)) if used else ("?", "?")
        return (*cells, *moved, *kept, row.where)

    def _share(self, us: float | None) -> str:
        return "" if us is None or not self.total_us else f"{us / self.total_us:.0%}"

    def all_notes(self) -> list[str]:
        """What could not be seen or counted, in sentences."""
        notes = [*self.notes]
        for number, row in enumerate(self.rows):
            if isinstance(row.counted, str):
                notes.append(f"{number} {row.name} could not be counted: {row.counted}")
        if len(devices := set().union(*(kind.devices for kind in self._kinds))) > 1:
            listed = ", ".join(map(str, sorted(devices)))
            notes.append(f"Times are those of the GPUs {listed} together.")
        return notes

    def tree(self) -> str:
        """The program's lines that lead to launches, with what they come to below each."""
        return "\n".join(f"{'    ' * depth}{text}" for depth, text in self.branches())

    def branches(self) -> list[tuple[int, str]]:
        """The tree's lines with their depths, the one with the most to gain first."""
        spent = {id(row): row.us or row.least_us or 0 for row in self.rows}

        def below(rows: list[Row], depth: int) -> list[tuple[int, str]]:
            here = [row for row in rows if len(row.path) == depth]
            found = [
                (depth, f"[{self.rows.index(row)}] {row.name}, {row.launches:,} x, "
                 f"{time_text(spent[id(row)])}") for row in here
            ]  # fmt: skip
            groups: dict[Place, list[Row]] = {}
            for row in rows:
                if row not in here:
                    groups.setdefault(row.path[depth], []).append(row)
            for place, inside in groups.items():
                total = sum(spent[id(row)] for row in inside)
                found.append((depth, f"{place} in {place.function}: {time_text(total)}"))
                found += below(inside, depth + 1)
            return found

        return below(self.rows, 0)

    def __str__(self) -> str:
        if not self._kinds:
            return "\n".join(["No kernel was launched through Triton.", *self.all_notes()])
        parts = [aligned(self.table()), *self._other_lines(), "", self.tree()]
        return "\n".join([*parts, *(f"note: {note}" for note in self.all_notes())])

    __repr__ = __str__

    def _other_lines(self) -> list[str]:
        if not self.others:
            return []
        rows = [
            (each.name[:60], f"{each.launches:,}", time_text(each.us), self._share(each.us))
            for each in self.others
        ]
        return ["", aligned([("others", "launches", "time", "share"), *rows])]

    def _repr_html_(self) -> str:
        from .page import content_of

        return content_of(self)


def shared_out(kinds: Sequence[Kind], timed: Timed) -> list[Other]:
    """Give each kind the time of its kernels; what is nobody's is returned, by its name.

    A kernel's name and its grid say whose it is. Kinds that have both alike share their time by how
    often they were launched. A GPU that ran more of them than were launched had them from graphs.
    """
    named = {kind.gpu_name for kind in kinds}
    others: dict[str, list[float]] = {}
    whose: dict[tuple[str, tuple[int, ...]], list[Kind]] = {}
    for kind in kinds:
        if kind.launch:
            whose.setdefault((kind.gpu_name, (*kind.launch.grid, 1, 1)[:3]), []).append(kind)
    ran: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for kernel in timed.kernels:
        name = kernel.name
        if name in named and timed.is_trial(kernel):
            name = "trials of @triton.autotune"
        if mine := whose.get((name, kernel.grid)):
            ran[name, kernel.grid] += 1
            launched = sum(kind.launches for kind in mine)
            for kind in mine:
                kind.us = (kind.us or 0) + kernel.us * kind.launches / launched
                kind.devices.add(kernel.device)
        else:
            others.setdefault(name, []).append(kernel.us)
    for key, mine in whose.items():
        launched = sum(kind.launches for kind in mine)
        if ran[key] > launched:  # a graph repeats what was launched into it once
            for kind in mine:
                kind.launches = round(kind.launches * ran[key] / launched)
    found = [Other(name, len(times), sum(times)) for name, times in others.items()]
    return sorted(found, key=lambda each: -each.us)


def made_by() -> dict[str, str]:
    """The versions that a profile was made with."""
    gpu = torch.cuda.get_device_name() if MODE.gpu else "none"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "gpu": gpu,
    }


def _written(path: str | Path, text: str) -> Path:
    write_whole(Path(path), text)
    return Path(path)


def _moved(counted: Cost) -> int:
    return counted.distinct_loaded + counted.distinct_stored


def _time(us: float | None) -> str:
    return "?" if us is None else time_text(us)


WORDS = ("kernel", "others", "line", "bound by")


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """A table with its head: numbers to the right, words to the left."""
    columns = [
        [cell.ljust(max(map(len, column))) if column[0] in WORDS else cell for cell in column]
        for column in zip(*rows, strict=True)
    ]
    lines = numbers([*zip(*columns, strict=True)]).split("\n")
    return "\n".join(line.rstrip() for line in lines)
