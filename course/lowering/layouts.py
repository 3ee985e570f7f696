"""Which thread holds which element of a block, or where in shared memory it lies; and which of the
kernel's variables the block is.

The compiler itself turns every layout into a linear layout: bases, one for each bit of the
register, the thread, the warp and the program in its cluster, each saying by how much that bit
moves the element (K. Zhou and others, *Linear Layouts*, arXiv:2505.23819). Bits combine by
exclusive or. Nothing here knows how a layout of any one kind works.
"""

import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from course.errors import CourseError
from course.triton_internals.ir import Bases, LaidOutValue

from .locations import Frame, printed_frames


@dataclass(frozen=True)
class Value:
    """A value of the TTGIR that has a layout."""

    operation: str
    name: str
    """The variable that it is, in the kernel or in a function that it calls; or nothing."""
    callers: tuple[str, ...]
    """The variables that the calls which led to that function were assigned to."""
    line: int
    """The kernel's line that it comes from; 0 if it comes from none."""
    order: int
    """Its place among all values."""

    @classmethod
    def of(cls, value: LaidOutValue, order: int, own: Set[Frame], returns: Set[Frame]) -> "Value":
        """own: the reader's own lines. returns: those of `return` statements, whose values are the
        caller's."""
        lines = [line for (file, line), _ in printed_frames(value.location) if (file, line) in own]
        names = [(frame, name) for frame, name in printed_frames(value.named) if frame in own]
        while names and not names[0][1] and names[0][0] in returns:
            names.pop(0)
        if names and not names[0][1]:  # as what a call of tl.store makes on its way
            names = []
        name, *callers = [name for _, name in names] or [""]
        line = lines[0] if lines else 0
        return cls(value.operation, name, tuple(filter(None, callers)), line, order)


Index = tuple[int, ...]

BANKS = 32
BANK_BYTES = 4
CORNER = 8
"""Rows and columns of a block that a layout prints."""
NO_VIEW = "has no view in this version of Triton"


@dataclass(frozen=True)
class Holder:
    """A place that holds an element. `thread` is within the warp."""

    warp: int
    thread: int
    register: int

    def __str__(self) -> str:
        return f"warp {self.warp}, thread {self.thread}, register {self.register}"


@dataclass(frozen=True, repr=False)
class Layout:
    """One layout of the TTGIR, for values of one shape. Prints as a small grid."""

    name: str
    """As the TTGIR calls it: `#blocked`. Empty for one that it writes in place."""
    attribute: str
    """The compiler's own words: `#ttg.blocked<{sizePerThread = [4], …}>`."""
    shape: Index
    element: str
    """The type of an element: `f32`."""
    bases: Bases
    """For registers "register", "lane", "warp", "block"; for shared memory "offset"; empty if this
    Triton gives none."""
    values: tuple[Value, ...]

    @property
    def kind(self) -> str:
        """blocked, slice, linear, nvidia_mma, dot_op, amd_mfma, swizzled_shared, nvmma_shared …"""
        return self.attribute.partition(".")[2].partition("<")[0]

    @property
    def label(self) -> str:
        """Its name, or its attribute if it has none."""
        return self.name or self.attribute

    @property
    def shared(self) -> bool:
        """Whether it is one of shared memory."""
        return "shared" in self.kind

    @property
    def copy_shape(self) -> Index:
        """The shape that an index is of: of a buffer in shared memory that of one copy, where a
        pipeline keeps several."""
        offsets = self.bases.get("offset")
        return self.shape[-len(offsets[0]) :] if offsets else self.shape

    @property
    def element_bits(self) -> int:
        digits = re.search(r"\d+", self.element)
        return int(digits[0]) if digits else 32

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
        orders = [
            value.order for value in self.values if not key or key in (value.name, *value.callers)
        ]
        return max(orders, default=-1)

    @property
    def warps(self) -> int:
        return 1 << len(self._register_bases["warp"])

    @property
    def threads(self) -> int:
        """Threads per warp."""
        return 1 << len(self._register_bases["lane"])

    @property
    def registers(self) -> int:
        """Elements that a thread holds; one that lies in several registers counts several times."""
        return 1 << len(self._register_bases["register"])

    @property
    def elements_per_thread(self) -> int:
        """How many different elements a thread holds."""
        return len(set(self.held_by(0, 0)))

    def held_by(self, warp: int, thread: int) -> list[Index]:
        """The elements that a thread of a warp holds, register by register."""
        bases = self._register_bases
        if not (0 <= warp < self.warps and 0 <= thread < self.threads):
            threads = f"{self.warps} warps of {self.threads} threads"
            raise CourseError(f"There is no thread {thread} of warp {warp}: there are {threads}.")
        start = _moved((0,) * len(self.shape), bases["warp"], warp)
        start = _moved(start, bases["lane"], thread)
        return [_moved(start, bases["register"], register) for register in range(self.registers)]

    def holders(self, *index: int) -> list[Holder]:
        """Every place that holds the element of this index; several if the layout keeps copies."""
        return self._holders[self._checked(index)]

    def offset(self, *index: int) -> int:
        """Where in shared memory the element lies, in elements from the start of the buffer."""
        return self._offsets[self._checked(index)]

    def bank(self, *index: int) -> int:
        """The bank of shared memory that the element's first byte lies in, of 32."""
        return self.offset(*index) * self.element_bits // 8 // BANK_BYTES % BANKS

    @property
    def spans_cluster(self) -> bool:
        """Whether it is spread over several programs."""
        return any(any(base) for base in self.bases["block"])

    @cached_property
    def _register_bases(self) -> Bases:
        if "register" not in self.bases:
            why = "lies in shared memory: ask offset() and bank()" if self.shared else NO_VIEW
            raise CourseError(f"{self.label} {why}.")
        self._refuse_cluster()
        return self.bases

    @cached_property
    def _holders(self) -> dict[Index, list[Holder]]:
        holders: dict[Index, list[Holder]] = {}
        for warp, thread in product(range(self.warps), range(self.threads)):
            for register, index in enumerate(self.held_by(warp, thread)):
                holders.setdefault(index, []).append(Holder(warp, thread, register))
        return holders

    @cached_property
    def _offsets(self) -> dict[Index, int]:
        if "offset" not in self.bases:
            why = NO_VIEW if self.shared else "lies in registers: ask holders() and held_by()"
            raise CourseError(f"{self.label} {why}.")
        self._refuse_cluster()
        bases, zero = self.bases["offset"], (0,) * len(self.copy_shape)
        return {_moved(zero, bases, offset): offset for offset in range(2 ** len(bases))}

    def _refuse_cluster(self) -> None:
        if self.spans_cluster:
            raise CourseError(
                f"{self.label} is spread over a cluster of programs, which is not shown here."
            )

    def _checked(self, index: Index) -> Index:
        shape = self.copy_shape
        if len(index) != len(shape):
            raise CourseError(f"The shape is {shape}: an element has {len(shape)} numbers.")
        if not all(0 <= i < size for i, size in zip(index, shape, strict=True)):
            raise CourseError(f"There is no element {index}: the shape is {shape}.")
        return tuple(index)

    def __str__(self) -> str:
        sizes = " x ".join(map(str, self.shape))
        names = ", ".join(self.names) or "no variable"
        head = f"{self.label}, {sizes} {self.element}: {names}"
        return "\n    ".join([head, self.attribute, *self._grid()])

    __repr__ = __str__

    def _grid(self) -> Iterator[str]:
        """The corner of the block: for each element warp:thread:register, or its bank."""
        if not self.bases:
            yield NO_VIEW.removeprefix("has ")
            return
        yield "bank of each element" if self.shared else "warp:thread:register of each element"
        shape = self.copy_shape
        *_, height, width = (1, *shape)
        outer = (0,) * (len(shape) - 2)
        rows, columns = range(min(CORNER, height)), range(min(CORNER, width))
        cells = [
            [self._cell((*outer, row, column)[-len(shape) :]) for column in columns] for row in rows
        ]
        longest = max(len(cell) for line in cells for cell in line)
        more = " …" if width > CORNER else ""
        for line in cells:
            yield " ".join(f"{cell:>{longest}}" for cell in line) + more
        if height > CORNER:
            yield "…"

    def _cell(self, index: Index) -> str:
        if self.spans_cluster:
            return "?"
        if self.shared:
            return str(self.bank(*index))
        first = self.holders(*index)[0]
        return f"{first.warp}:{first.thread}:{first.register}"


def _moved(start: Index, bases: list[list[int]], number: int) -> Index:
    """Exclusive or of `start` with the bases whose bits are set in `number`."""
    index = start
    for bit, base in enumerate(bases):
        if number >> bit & 1:
            index = tuple(one ^ other for one, other in zip(index, base, strict=True))
    return index


class Layouts(list[Layout]):
    """Every layout of a TTGIR. A text gives that of a name, `#blocked`, or of a variable, `x`."""

    # As in every list, a number gives a layout and a slice a list of them.
    def __getitem__(self, key: Any) -> Any:
        return self._named(key) if isinstance(key, str) else super().__getitem__(key)

    def _named(self, key: str) -> Layout:
        layouts = self.all(key)
        if not layouts:
            known = [layout.name for layout in self]
            known += [name for layout in self for name in layout.names]
            known += [name for layout in self for value in layout.values for name in value.callers]
            names = ", ".join(dict.fromkeys(filter(None, known))) or "no layout"
            raise CourseError(f"Nothing is called {key!r} in the TTGIR: there is {names}.")
        # The block itself rather than its addresses, its mask or its copy in shared memory. It may
        # lie there alone, beside numbers that its addresses are made of.
        buffered = {layout.element for layout in layouts if layout.shared}
        parts = {"i1", "i32", "i64"} - buffered if buffered else {"i1"}
        blocks = [
            layout
            for layout in layouts
            if not layout.shared and "ptr" not in layout.element and layout.element not in parts
        ]
        if key.startswith("#"):  # the whole block rather than a row or a part of it
            return max(
                blocks or layouts, key=lambda each: (math.prod(each.shape[-2:]), each.last())
            )
        return max(blocks or layouts, key=lambda each: each.last(key))

    def all(self, key: str) -> list[Layout]:
        """All of that name: a variable's values may have several. `[key]` gives the last one."""
        if named := [layout for layout in self if key in (layout.name, *layout.names)]:
            return named
        # The result of a call has the name that the function gives it; it is the last of what the
        # call has made.
        called = [layout for layout in self if any(key in value.callers for value in layout.values)]
        return [max(called, key=lambda layout: layout.last(key))] if called else []

    def at(self, line: int) -> list[Layout]:
        """Those of values that come from this line of the kernel."""
        return [layout for layout in self if line in layout.lines]

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no layouts"

    __repr__ = __str__


def layouts_from(
    ttgir: str, values: Sequence[LaidOutValue], own: Set[Frame], returns: Set[Frame]
) -> Layouts:
    """The layouts of a TTGIR's values, each layout once. own, returns: as for `Value.of`."""
    aliases = aliases_of(ttgir)
    names = {expanded(text, aliases): name for name, text in reversed(aliases.items())}
    layouts: dict[tuple[Hashable, ...], Layout] = {}
    for order, value in enumerate(values):
        type = value.type
        # A part of a buffer lies otherwise than a buffer of the part's shape.
        key = type.layout, type.shape, type.element, str(value.bases)
        name = names.get(type.layout, "")
        new = Layout(name, type.layout, type.shape, type.element, value.bases, ())
        layout = layouts.setdefault(key, new)
        this = Value.of(value, order, own, returns)
        layouts[key] = replace(layout, values=(*layout.values, this))
    return Layouts(layouts.values())


def aliases_of(ttgir: str) -> dict[str, str]:
    """The names that a TTGIR gives to layouts: name -> the compiler's own words."""
    return dict(re.findall(r"^(#\w+) = (#\w+\..*)$", ttgir, re.MULTILINE))


def expanded(attribute: str, aliases: Mapping[str, str]) -> str:
    """An attribute with the aliases in it written out."""
    return re.sub(r"#\w+\b(?![.\w])", lambda match: aliases.get(match[0], match[0]), attribute)
