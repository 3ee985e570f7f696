"""Which warp, thread and register holds which element of a block, or where in shared memory it
lies.

The compiler itself turns every layout into a linear layout: bases, one for each bit of the register, the thread, the warp
and the program in its cluster, each saying by how much that bit moves the element (K. Zhou and others, *Linear Layouts*,
arXiv:2505.23819). Bits combine by exclusive or. Nothing here knows how a layout of any one kind works.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from course.errors import CourseError

from .source_map import Origin

Index = tuple[int, ...]
Bases = dict[str, list[list[int]]]

BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True)
class Value:
    """A value of the TTGIR that has a layout."""

    operation: str
    name: str
    """The variable that it is, in the kernel or in a function that it calls; or nothing."""
    callers: tuple[str, ...]
    """The variables that the calls which led to that function were assigned to."""
    line: int
    """The kernel's line that it comes from; 0 where there is none."""
    order: int
    """Its place among all values."""


@dataclass(frozen=True)
class Holder:
    """A place that holds an element. `thread` is within the warp."""

    warp: int
    thread: int
    register: int

    def __str__(self) -> str:
        return f"warp {self.warp}, thread {self.thread}, register {self.register}"


@dataclass(frozen=True)
class Layout:
    """One layout of the TTGIR, for values of one shape. Prints as a small grid."""

    name: str
    """As the TTGIR calls it: `#blocked`. Empty for one that it writes in place."""
    attribute: str
    """The compiler's own words: `#ttg.blocked<{sizePerThread = [4], …}>`."""
    shape: Index
    element: str
    """The type of an element: `f32`."""
    bases: Bases = field(repr=False)
    """For registers "register", "lane", "warp", "block"; for shared memory "offset"; empty where
    this Triton gives none."""
    values: tuple[Value, ...] = field(repr=False)

    @property
    def kind(self) -> str:
        """blocked, slice, linear, nvidia_mma, dot_op, amd_mfma, amd_wmma, swizzled_shared,
        nvmma_shared …"""
        return self.attribute.partition(".")[2].partition("<")[0]

    @property
    def shared(self) -> bool:
        return self.kind.endswith("shared") or "shared" in self.kind

    @property
    def element_bits(self) -> int:
        found = re.search(r"\d+", self.element)
        return int(found[0]) if found else 32

    @property
    def names(self) -> list[str]:
        """The kernel's variables that have it."""
        return list(dict.fromkeys(value.name for value in self.values if value.name))

    @property
    def lines(self) -> list[int]:
        """The kernel's lines that make values of it."""
        return sorted({value.line for value in self.values if value.line})

    def last(self, key: str = "") -> int:
        """The place among all values of its last value, or of its last one of a name."""
        named = [
            value.order for value in self.values if not key or key in (value.name, *value.callers)
        ]
        return max(named, default=-1)

    @property
    def warps(self) -> int:
        return 2 ** len(self._registers["warp"])

    @property
    def threads(self) -> int:
        """Of a warp."""
        return 2 ** len(self._registers["lane"])

    @property
    def registers(self) -> int:
        """How many elements a thread holds, those counted more than once that lie in several
        registers."""
        return 2 ** len(self._registers["register"])

    @property
    def elements_per_thread(self) -> int:
        """How many different elements a thread holds."""
        return len(set(self.held_by(0, 0)))

    def held_by(self, warp: int, thread: int) -> list[Index]:
        """The elements that a thread of a warp holds, register by register."""
        bases = self._registers
        if not (0 <= warp < self.warps and 0 <= thread < self.threads):
            raise CourseError(
                f"There is no thread {thread} of warp {warp}: there are {self.warps} warps of {self.threads} threads."
            )
        start = _combine(self._zero, bases["warp"], warp)
        start = _combine(start, bases["lane"], thread)
        return [_combine(start, bases["register"], register) for register in range(self.registers)]

    def holders(self, *index: int) -> list[Holder]:
        """Every place that holds the element of this index; more than one where the layout keeps
        copies."""
        if len(index) != len(self.shape):
            raise CourseError(
                f"The shape is {self.shape}: an element has {len(self.shape)} numbers."
            )
        return self._holders[self._checked(index)]

    def offset(self, *index: int) -> int:
        """Where in shared memory the element lies, in elements from the start; of a part of a
        buffer, the part at the start."""
        return self._offsets[self._checked(index)]

    def bank(self, *index: int) -> int:
        """The bank of shared memory that the element's first byte lies in, of 32."""
        return self.offset(*index) * self.element_bits // 8 // BANK_BYTES % BANKS

    @cached_property
    def _registers(self) -> Bases:
        if "register" not in self.bases:
            why = (
                "lies in shared memory: ask offset() and bank()"
                if self.shared
                else "has no view in this version of Triton"
            )
            raise CourseError(f"{self.name or self.attribute} {why}.")
        if any(any(base) for base in self.bases["block"]):
            raise CourseError(
                f"{self.name or self.attribute} is spread over a cluster of programs, which is not shown here."
            )
        return self.bases

    @cached_property
    def _zero(self) -> Index:
        return (0,) * len(self.shape)

    @cached_property
    def _holders(self) -> dict[Index, list[Holder]]:
        found: dict[Index, list[Holder]] = {}
        for warp, thread in product(range(self.warps), range(self.threads)):
            for register, index in enumerate(self.held_by(warp, thread)):
                found.setdefault(index, []).append(Holder(warp, thread, register))
        return found

    @cached_property
    def _offsets(self) -> dict[Index, int]:
        if "offset" not in self.bases:
            why = (
                "has no view in this version of Triton"
                if self.shared
                else "lies in registers: ask holders() and held_by()"
            )
            raise CourseError(f"{self.name or self.attribute} {why}.")
        bases = self.bases["offset"]
        rank = len(bases[0]) if bases else 1
        return {_combine((0,) * rank, bases, offset): offset for offset in range(2 ** len(bases))}

    def _checked(self, index: Index) -> Index:
        shape = self.shape[-len(index) :]
        if len(index) != len(shape) or not all(
            0 <= i < size for i, size in zip(index, shape, strict=True)
        ):
            raise CourseError(f"There is no element {index}: the shape is {self.shape}.")
        return tuple(index)

    def __str__(self) -> str:
        sizes = " x ".join(map(str, self.shape))
        used = ", ".join(self.names) or "no variable"
        head = f"{self.name or self.attribute}, {sizes} {self.element}: {used}"
        return "\n".join([head, *(f"    {line}" for line in (self.attribute, *self._grid()))])

    __repr__ = __str__

    def _grid(self, rows: int = 8, columns: int = 8) -> Iterator[str]:
        """The corner of the block: for each element warp:thread:register, or its bank."""
        if not self.bases:
            yield "no view in this version of Triton"
            return
        shape = self.shape[-2:]
        matrix = shape if len(shape) == 2 else (1, *shape)
        yield "bank of each element" if self.shared else "warp:thread:register of each element"
        cells = []
        for row in range(min(rows, matrix[0])):
            indexes = [
                (row, column) if len(shape) == 2 else (column,)
                for column in range(min(columns, matrix[1]))
            ]
            cells.append(
                [
                    self._cell((0,) * (0 if self.shared else len(self.shape) - len(shape)) + index)
                    for index in indexes
                ]
            )
        width = max(len(cell) for line in cells for cell in line)
        for line in cells:
            yield " ".join(f"{cell:>{width}}" for cell in line) + (
                " …" if columns < matrix[1] else ""
            )
        if rows < matrix[0]:
            yield "…"

    def _cell(self, index: Index) -> str:
        if self.shared:
            return str(self.bank(*index))
        if any(any(base) for base in self.bases["block"]):
            return "?"
        first = self.holders(*index)[0]
        return f"{first.warp}:{first.thread}:{first.register}"


def _combine(start: Index, bases: list[list[int]], number: int) -> Index:
    """Exclusive or of `start` with the bases whose bits are set in `number`."""
    found = start
    for bit, base in enumerate(bases):
        if number >> bit & 1:
            found = tuple(one ^ other for one, other in zip(found, base, strict=True))
    return found


class Layouts(Sequence[Layout]):
    """Every layout of a TTGIR. A text gives the one of that name, `#blocked`, or of a variable,
    `x`."""

    def __init__(self, layouts: list[Layout]) -> None:
        self._all = layouts

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._all[key]
        found = self.all(key)
        if not found:
            known = [each.name for each in self._all] + [
                name for each in self._all for name in each.names
            ]
            known += [name for each in self._all for value in each.values for name in value.callers]
            names = ", ".join(dict.fromkeys(name for name in known if name))
            raise CourseError(
                f"Nothing is called {key!r} in the TTGIR: there is {names or 'no layout'}."
            )
        # Of a variable's values, the block itself rather than its addresses, its mask or its copy
        # in shared memory.
        best = [
            each
            for each in found
            if not each.shared and "ptr" not in each.element and each.element != "i1"
        ]
        if key.startswith("#"):  # the whole block rather than a row or a part of it
            return max(best or found, key=lambda each: (math.prod(each.shape[-2:]), each.last()))
        return max(best or found, key=lambda each: each.last(key))

    def all(self, key: str) -> list[Layout]:
        """All of that name: a variable's values may have several layouts. `[key]` gives that of the
        last value."""
        if found := [each for each in self._all if key in (each.name, *each.names)]:
            return found
        # The result of a call has the name that the function gives it; it is the last of what the
        # call has made.
        called = [each for each in self._all if any(key in value.callers for value in each.values)]
        return [max(called, key=lambda each: each.last(key))] if called else []

    def at(self, line: int) -> list[Layout]:
        """Those of values that come from this line of the kernel."""
        return [each for each in self._all if line in each.lines]

    def __len__(self) -> int:
        return len(self._all)

    def __str__(self) -> str:
        return "\n".join(map(str, self._all)) or "no layouts"

    __repr__ = __str__


def from_json(found: list[dict[str, Any]], origin_of: Callable[[str, str], Origin]) -> Layouts:
    """From what the child has found; `origin_of` says where a value comes from, by its two
    locations."""
    merged: dict[tuple[str, Index, str, str], dict[str, Any]] = {}
    for order, each in enumerate(found):
        # A part of a buffer lies otherwise than a buffer of the part's shape.
        key = each["attribute"], tuple(each["shape"]), each["element"], str(each["bases"])
        entry = merged.setdefault(key, {"name": each["name"], "bases": each["bases"], "values": []})
        origin = origin_of(each["location"], each["named"])
        entry["values"].append(
            Value(each["operation"], origin.name, origin.callers, origin.line, order)
        )
    return Layouts(
        [
            Layout(entry["name"], attribute, shape, element, entry["bases"], tuple(entry["values"]))
            for (attribute, shape, element, _), entry in merged.items()
        ]
    )
