"""What a child reports of a launch that it has run: what was touched, and the steps of programs.

These records cross the border between processes. A replay's script reads the panels and the steps
in JSON, with the same names; fields at their defaults are left out there.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
import numpy as np

from course.lowering.kernel_reference import Listing
from course.triton_internals.interpreter import Grid, Kind, Program


def grid_text(grid: Grid) -> tuple[int, ...]:
    """A grid without the axes of one program at its end."""
    return grid[: max((axis + 1 for axis in range(3) if grid[axis] > 1), default=1)]


def program_text(*programs: Program, grid: Grid = (1, 1, 1)) -> str:
    """Programs in a sentence, with the axes that their grid has, and where that is not known, with
    as many as they need: "0", "(1, 2)", "(0, 0) and (0, 2)"."""
    x, y, z = grid
    least = [(max(x, px + 1), max(y, py + 1), max(z, pz + 1)) for px, py, pz in programs]
    axes = max(len(grid_text(each)) for each in least)
    return " and ".join(str(each[:axes] if axes > 1 else each[0]) for each in programs)


@dataclass
class AccessCounts:
    """What one tl.load, tl.store or atomic did, over all programs."""

    file: str
    line: int
    kind: Kind
    tensor: int | None
    """The number of the tensor that it goes to; None for memory that is none of the arguments'."""
    masked: int = 0
    """Lanes that a mask keeps out."""
    bytes: int = 0
    requests: int = 0
    """Instructions of one warp that touch memory."""
    sectors: int = 0
    """Sectors of 32 bytes that the requests touch, each counted in each request."""
    least: int = 0
    """Sectors that the same bytes would take, request by request, side by side and aligned."""
    needed: int = 0
    """Sectors that the bytes of the blocks would take so, each once for each time that the call
    ran: what several warps ask for alike is needed once, but for a single element, which every warp
    needs."""
    aligned: int = 0
    """Sectors that the same runs of bytes would take, request by request, if each run began with a
    sector."""
    by_descriptor: bool = False
    by_sign: bool = False
    """Whether it is a maximum or minimum of floating-point numbers: an atomic for each sign."""
    guessed: bool = False
    """Whether no compiled kernel said which lanes ask together: 32 neighbors were taken."""
    call: tuple[str, int, int] = ("", 0, 0)
    """The file, line and column in which the call begins."""
    block: int = 0
    """Elements of the block, those that a mask keeps out among them."""
    bytes_per_thread: int = 0
    """Bytes of each thread that one compiled instruction moves; 0 if that is not known."""
    itemsize: int = 0
    """Bytes of an element."""
    executions: int = 0
    """How often the call ran, over all programs, …"""
    fewest: int = 0
    """… and in the program that was followed in which it ran least often, …"""
    most: int = 0
    """… and most often."""
    touched: int = 0
    """Sectors that the blocks touch, each counted once for each time that the call ran."""
    again: int = 0
    """How often the call came to the very places to which it had come before, in one program."""
    lines: int = 0
    """Lines of 128 bytes that the requests touch, each counted in each request."""
    together: int = 0
    """Bytes that lie in runs of 16 bytes or more of which a block moves every byte."""
    begin_wide: int = 0
    """Those of them in runs that begin at a multiple of 16 bytes, as a wide access must."""
    lanes: list[tuple[int, int]] = field(default_factory=list)
    """What each lane touches in the first request of the first program: its first byte and the one
    after its last, counted from where the tensor begins; equal if it asks for nothing."""


ADDED = (
    *("masked", "bytes", "requests", "sectors", "least", "needed", "aligned", "executions"),
    *("touched", "again", "lines", "together", "begin_wide"),
)
"""The fields of AccessCounts that are numbers of things, and so add up."""


def joined(each: list[AccessCounts | None], stand_for: np.ndarray) -> AccessCounts:
    """What one call did in some programs as what it did in the whole grid.

    each: its counts in each program; None where it never ran. stand_for: how many programs each of
        them stands for.
    """
    counts = [(one, weight) for one, weight in zip(each, stand_for, strict=True) if one is not None]
    first = next((one for one, _ in counts if one.lanes), counts[0][0])
    times = [one.executions if one else 0 for one in each]
    totals = {name: sum(getattr(one, name) * weight for one, weight in counts) for name in ADDED}
    return replace(
        first,
        **{name: round(total) for name, total in totals.items()},
        block=max(one.block for one, _ in counts),
        guessed=any(one.guessed for one, _ in counts),
        fewest=min(times),
        most=max(times),
    )


@dataclass(frozen=True)
class Distinct:
    """Memory that was touched, each byte and each sector of 32 bytes counted once."""

    bytes: int
    sectors: int


@dataclass(frozen=True)
class StorageCounts:
    """What was touched of one storage."""

    loaded: Distinct
    stored: Distinct


class TensorPanel(msgspec.Struct, frozen=True):
    """A tensor of the launch as a matrix of cells: see `downsample.Panel`.

    The arrays are packed by `downsample.packed`. Programs are numbered from 1 in the order in which
    they ran; 0 is none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    cells: tuple[int, int]
    """Rows and columns."""
    patch: tuple[int, int]
    """How many elements a cell stands for, down and across."""
    reader: bytes
    """For each cell the program that read its first such element first."""
    writer: bytes
    """For each cell the program that wrote its first such element last."""
    twice: bytes
    """The cells with an element that several programs wrote, not atomically."""
    shared: bytes
    """The cells with an element that several programs read."""
    unwritten: bytes
    """The cells with an element that was read, and written by nobody."""
    twice_elements: int
    unwritten_elements: int


@dataclass(frozen=True)
class LaunchCounts:
    """What the programs of a launch touch and compute.

    Where some of them were followed, they stand for all; where none came to its end, this is what
    the first one had done.
    """

    kernel: str
    programs: int
    """Those that came to their end."""
    accesses: list[AccessCounts]
    """In the order of the source."""
    storages: list[StorageCounts]
    tensors: list[TensorPanel]
    simple: dict[str, int]
    """Floating-point operations, by type, and tiles: see `operation_counts.Operations`."""
    special: dict[str, int]
    dot: dict[str, int]
    tiles: dict[str, int]
    all_programs: int = 1
    """Those of the grid."""
    stopped: str = ""
    """Why the launch was ended before its end, in a sentence; empty if it was not."""
    most_updated: dict[str, float] = field(default_factory=dict)
    """Tensor -> the requests of warps that update the line which most of them come to."""
    false_promise: str = ""
    """What a program promises the compiler that does not hold, in a sentence, where no access of
    the compiled kernel goes elsewhere by it."""


class Cells(msgspec.Struct, array_like=True, frozen=True):
    """A number for each cell, in a type that a script reads."""

    kind: Literal["u1", "i4", "f4", "f8"]
    data: bytes
    """Little-endian."""

    @classmethod
    def of(cls, values: np.ndarray) -> "Cells":
        return cls(kind := _kind(values), values.astype(f"<{kind}").tobytes())

    @property
    def numbers(self) -> np.ndarray:
        return np.frombuffer(self.data, dtype=f"<{self.kind}")


def _kind(values: np.ndarray) -> Literal["u1", "i4", "f4", "f8"]:
    """The smallest type that holds all values."""
    if values.dtype in (bool, np.uint8):
        return "u1"
    if values.dtype.kind == "f":
        return "f8" if values.itemsize == 8 else "f4"
    far = values.size and (values.min() < -(2**31) or values.max() >= 2**31)
    return "f8" if far else "i4"


def finite_range(numbers: np.ndarray) -> tuple[float, float] | tuple[None, None]:
    """The least and the greatest of the finite numbers; None for both if there are none."""
    finite = numbers[np.isfinite(numbers)]
    return (finite.min().item(), finite.max().item()) if finite.size else (None, None)


class Value(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """What a variable holds, or what is stored."""

    text: str | None = None
    """A value that is no block; a block has the other fields."""
    dtype: str = ""
    of: str = ""
    """The tensor whose elements the numbers count, if they were addresses."""
    shape: tuple[int, ...] = ()
    cells: tuple[int, int] = (0, 0)
    patch: tuple[int, int] = (0, 0)
    data: Cells | None = None
    """One element for each cell: its first NaN, else its first infinity, else its first."""
    least: int | float | None = None
    most: int | float | None = None
    """The extremes among finite numbers of lanes that no mask keeps out; None for truth values."""
    nan: int = 0
    inf: int = 0
    mask: Cells | None = None
    """1 for the cells that no mask keeps out and that are defined; None if all are so."""
    masked: int = 0
    """Lanes that the mask keeps out."""
    undefined: int = 0
    """Lanes that depend on what the language leaves undefined; -1 if some do and cells stand for
    several. They are missing in `mask`, `least` and `most`."""


class Touch(msgspec.Struct, omit_defaults=True, frozen=True):
    """A load, a store or an atomic of one program."""

    kind: Kind
    text: str
    """All of it in words."""
    tensor: int | None = None
    """The tensor's number; None for memory that is none of the arguments'."""
    outside: int = 0
    """Lanes beside the tensor's elements."""
    cells: Cells | None = None
    """A bit for each cell of the tensor's panel, the lowest first: whether it is touched."""
    value: Value | None = None
    """What is stored."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that has run."""

    row: int
    """Where it begins in the listing, counted from 0 over all functions."""
    line: int
    """… and in its file."""
    depth: int
    """0 in the kernel, 1 in a function that it calls, and so on."""
    sets: dict[str, Value] = {}
    """The variables that it has set."""
    touches: list[Touch] = []
    error: str = ""


@dataclass
class ProgramSteps:
    """The steps of one program."""

    program: Program
    steps: list[Step] = field(default_factory=list)
    cut: bool = False
    """Whether it went on after the last step that is kept."""


@dataclass(frozen=True)
class Failure:
    """Why a launch did not come to its end."""

    program: Program
    text: str
    line: int
    stopped: bool = False
    """At its limit of time, and not by an error."""
    lacking: bool = False
    """Whether it is the interpreter that lacks something, and not the kernel's fault."""


@dataclass(frozen=True)
class Element:
    """An element of a tensor, by the name of the kernel's parameter."""

    tensor: str
    index: tuple[int, ...]


@dataclass(frozen=True)
class Recording:
    """A launch of which some programs were recorded step by step."""

    kernel: str
    grid: Grid
    ran: list[Program]
    """In the order in which they ran."""
    functions: Listing
    """The text of the kernel and of what it calls."""
    loops: list[tuple[int, int]]
    """The rows of each loop's header and of its last line."""
    tensors: list[TensorPanel]
    programs: list[ProgramSteps]
    opened: Program | None = None
    """The program to be shown first, if one is better than others."""
    element: Element | None = None
    """The element to open at."""
    step: int = 0
    """The step to open at, where there is no such element and no failure."""
    failure: Failure | None = None
    notes: list[str] = field(default_factory=list)
