"""What `cost` returns: a launch's traffic and arithmetic, and the roofs of a GPU over them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from course.gpus.limits import SECTOR_BYTES
from course.gpus.peaks import Gpu, gpu_of
from course.lowering.occupancy import Resources
from course.triton_internals.interpreter import Grid, Kind

L2 = "L2 cache"


@dataclass(frozen=True)
class AccessCost:
    """One tl.load, tl.store or atomic over the whole launch."""

    line: int
    text: str
    """The text of the line."""
    kind: Kind
    """An update is atomic."""
    tensor: str
    bytes: int
    masked: int
    """Lanes that a mask keeps out."""
    requests: int
    """Instructions of one warp."""
    sectors: int
    least: int
    """Sectors that the bytes would take, block by block, side by side and aligned; of a single
    element one for each warp that loads it."""
    by_descriptor: bool

    @property
    def times(self) -> float:
        """Sectors over the least: 1.0 is coalesced."""
        return self.sectors / self.least if self.least else 1.0


@dataclass(frozen=True)
class Roof:
    """A part of a GPU that the launch keeps busy for at least so many microseconds."""

    name: str
    work: float
    unit: str
    us: float


@dataclass(frozen=True)
class Cost:
    """What a launch moves and computes. Prints as a few lines."""

    kernel: str
    grid: Grid
    programs: int
    """Programs that came to their end in the interpreter. If they are not all, the other numbers
    are estimated from them; if none did, the numbers are of what the first one had done."""
    gpu: Gpu
    accesses: tuple[AccessCost, ...]
    distinct_loaded: int
    """Bytes, each counted once."""
    distinct_stored: int
    distinct_sectors: int
    """Sectors of 32 bytes, loaded ones and stored ones: what memory must move if every cache were
    perfect."""
    simple: dict[str, int]
    """Floating-point operations outside tl.dot, by type."""
    special: dict[str, int]
    """Exponentials, logarithms, roots and the like, by type."""
    dot: dict[str, int]
    """Operations of tl.dot, by the type of what it multiplies."""
    resources: Resources | None = field(repr=False)
    notes: tuple[str, ...] = ()
    measured_us: float | None = None
    """The median on this machine's GPU, if that is `gpu`."""
    own: Gpu | None = None
    """The reader's own GPU, if `course doctor --measure` has measured it."""

    @property
    def all_programs(self) -> int:
        return math.prod(self.grid)

    @property
    def exact(self) -> bool:
        return self.programs == self.all_programs

    def _accesses(self, *kinds: Kind) -> Iterable[AccessCost]:
        return (access for access in self.accesses if access.kind in kinds)

    @property
    def bytes_loaded(self) -> int:
        """Bytes of the lanes that no mask keeps out; an atomic update counts as both."""
        return sum(access.bytes for access in self._accesses("load", "update"))

    @property
    def bytes_stored(self) -> int:
        return sum(access.bytes for access in self._accesses("store", "update"))

    @property
    def sectors_loaded(self) -> int:
        """Sectors of loads, without atomics."""
        return sum(access.sectors for access in self._accesses("load"))

    @property
    def sectors_stored(self) -> int:
        """Sectors of stores, without atomics."""
        return sum(access.sectors for access in self._accesses("store"))

    @property
    def flops(self) -> int:
        """Floating-point operations of all kinds, a special function counted as one."""
        return sum(sum(counts.values()) for counts in (self.simple, self.special, self.dot))

    @property
    def bytes_asked(self) -> int:
        """Bytes that loads and stores ask for, each time anew.

        The L2 cache must answer them all, but for what an L1 cache still holds.
        """
        return self.bytes_loaded + self.bytes_stored

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte that memory must move."""
        return self.flops / max(1, self.distinct_sectors * SECTOR_BYTES)

    @property
    def l2_intensity(self) -> float:
        """Floating-point operations for each byte that is asked of the L2 cache."""
        return self.flops / max(1, self.bytes_asked)

    @property
    def roofs(self) -> list[Roof]:
        """What keeps the GPU busy, the longest first.

        All can go on at once, so the longest alone is the least time.
        """
        return self.roofs_on(self.gpu)

    def roofs_on(self, gpu: Gpu) -> list[Roof]:
        """The roofs of another GPU over the same work.

        The L2 cache has one where its speed was measured. What a launch finds in L1 again it does
        not ask of L2, so one that reads the same bytes over and over may be faster than that roof.
        """
        moved = self.distinct_sectors * SECTOR_BYTES
        roofs = [Roof("memory", moved, "bytes", moved / gpu.memory / 1e6)]
        if gpu.l2:
            asked = self.bytes_asked
            roofs.append(Roof(L2, asked, "bytes", asked / gpu.l2 / 1e6))
        # Without tensor cores for a type, its products are multiply-adds like others.
        plain_dots = {kind: n for kind, n in self.dot.items() if not gpu.dot_rate(kind)}
        plain = [*self.simple.items(), *plain_dots.items()]
        if us := sum(count / gpu.vector_rate(kind) for kind, count in plain) / 1e6:
            roofs.append(Roof("arithmetic", sum(count for _, count in plain), "operations", us))
        rates = {kind: gpu.dot_rate(kind) for kind in self.dot}
        if us := sum(self.dot[kind] / rate for kind, rate in rates.items() if rate) / 1e6:
            roofs.append(Roof("tensor cores", sum(self.dot.values()), "operations", us))
        if self.special and gpu.special:
            work = sum(self.special.values())
            roofs.append(Roof("special functions", work, "results", work / gpu.special / 1e6))
        return sorted(roofs, key=lambda roof: -roof.us)

    @property
    def least_us(self) -> float:
        """The least time on the GPU, in microseconds. A launch alone takes a few.

        An estimate where not all programs were followed: see `exact`.
        """
        return self.roofs[0].us

    @property
    def bound(self) -> str:
        """The roof that binds."""
        return self.roofs[0].name

    def on(self, name: str) -> "Cost":
        """The same work on another GPU, as compiled for this one."""
        return replace(self, gpu=gpu_of(name), measured_us=None)

    def __str__(self) -> str:
        lines = [self._head()]
        width = max((len(f"{each.kind} {each.tensor}") for each in self.accesses), default=0)
        lines += [_access_text(access, width) for access in self.accesses]
        for done, count, distinct in (
            ("loaded", self.bytes_loaded, self.distinct_loaded),
            ("stored", self.bytes_stored, self.distinct_stored),
        ):
            lines.append(f"{done} {count:,} bytes, of which distinct {distinct:,}")
        lines += [f"{n:,} operations in {kind}" for kind, n in self.simple.items()]
        lines += [f"{n:,} special functions in {kind}" for kind, n in self.special.items()]
        for kind, n in self.dot.items():
            precision = "float32 (ieee)" if kind == "ieee" else kind
            lines.append(f"{n:,} operations of tl.dot in {precision}")
        if self.resources:
            lines += str(self.resources).split("\n")
        lines.append(self._least_on(self.gpu))
        if self.own and not self.gpu.measured:
            lines.append(self._least_on(self.own))
        if self.measured_us is not None:
            times = self.measured_us / self.least_us
            lines.append(
                f"measured here: {time_text(self.measured_us)}, {times:.2f} times the least"
            )
        notes = (note.replace("\n", "\n    ") for note in self.notes)
        return "\n    ".join([*lines, *notes])

    __repr__ = __str__

    def _head(self) -> str:
        programs = f"{self.all_programs:,} program{'s' if self.all_programs != 1 else ''}"
        head = f"{self.kernel}, {programs}"
        if self.exact:
            return head
        if not self.programs:
            return f"{head}, none of which ended: what the first one did"
        return f"{head}, scaled up from {self.programs:,} of them"

    def _least_on(self, gpu: Gpu) -> str:
        least, *_ = roofs = self.roofs_on(gpu)
        name = f"{gpu.name}, by the speeds measured on it" if gpu.measured else gpu.name
        parts = ", ".join(f"{roof.name} {time_text(roof.us)}" for roof in roofs)
        # Programs that were not followed may do less, and L1 may answer in place of L2.
        is_least = self.exact and least.name != L2
        bound = "at least" if is_least else "least time about"
        return f"{name}: {bound} {time_text(least.us)}, bound by {least.name} ({parts})"


def _access_text(access: AccessCost, width: int) -> str:
    """A row of the table of accesses."""
    tensor = f"{access.kind} {access.tensor}".ljust(width)
    ratio = "by descriptor" if access.by_descriptor else f"{access.times:.2f} times the least"
    counts = f"{access.bytes:>15,} bytes {access.sectors:>12,} sectors"
    return f"line {access.line:<4} {tensor} {counts}, {ratio}"


def time_text(us: float) -> str:
    """A time in the unit that fits it."""
    for unit, size_us in (("ns", 1e-3), ("us", 1), ("ms", 1e3)):
        if us < 999.5 * size_us:  # a thousand of a unit would be written with an exponent
            return f"{us / size_us:.3g} {unit}"
    seconds = us / 1e6
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"
