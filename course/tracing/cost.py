"""cost: what a launch moves and computes, and the least time that this takes on a GPU, found with none there."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from course import MODE
from course.errors import CourseError
from course.gpus.limits import target_of
from course.gpus.own_gpu import own_gpu
from course.gpus.peaks import Gpu, gpu_of
from course.lowering.memory_requests import SECTOR_BYTES
from course.lowering.occupancy import Resources

from .launch_time import measured_us
from .traced import traced


@dataclass(frozen=True)
class AccessCost:
    """One tl.load, tl.store or atomic over the whole launch."""

    line: int
    text: str
    """The line's."""
    kind: str
    """load, store or update, which is atomic."""
    tensor: str
    bytes: int
    masked: int
    """Lanes that a mask keeps out."""
    requests: int
    """Instructions of one warp."""
    sectors: int
    least: int
    """Sectors that the same bytes would take, request by request, side by side and aligned."""
    by_descriptor: bool

    @property
    def times(self) -> float:
        """Sectors over the least: 1.0 is coalesced."""
        return self.sectors / self.least if self.least else 1.0


@dataclass(frozen=True)
class Roof:
    """A part of a GPU that the launch keeps busy for at least so long."""

    name: str
    work: float
    unit: str
    us: float


@dataclass(frozen=True)
class Cost:
    """What a launch moves and computes. Prints as a few lines."""

    kernel: str
    grid: tuple[int, int, int]
    programs: int
    """That came to their end in the interpreter; where they are not all, the other numbers are scaled up from them. Where
    none did, the numbers are of what the first one had done."""
    gpu: Gpu
    accesses: tuple[AccessCost, ...]
    distinct_loaded: int
    """Bytes, each counted once."""
    distinct_stored: int
    distinct_sectors: int
    """Of 32 bytes, loaded ones and stored ones: what memory must move if every cache were perfect."""
    simple: dict[str, int]
    """Floating-point operations outside tl.dot, by type."""
    special: dict[str, int]
    """Exponentials, logarithms, roots and the like, by type."""
    dot: dict[str, int]
    """Operations of tl.dot, by the type of what it multiplies."""
    resources: Resources | None = field(repr=False)
    notes: tuple[str, ...] = ()
    measured_us: float | None = None
    """The median on this machine's GPU, where that is `gpu`."""
    own: Gpu | None = None
    """The reader's own GPU, where `course doctor --measure` has measured it."""

    @property
    def all_programs(self) -> int:
        return math.prod(self.grid)

    @property
    def exact(self) -> bool:
        return self.programs == self.all_programs

    def _sum(self, name: str, *kinds: str) -> int:
        return sum(getattr(each, name) for each in self.accesses if each.kind in kinds)

    @property
    def bytes_loaded(self) -> int:
        """Of the lanes that are not masked; an atomic update counts as both."""
        return self._sum("bytes", "load", "update")

    @property
    def bytes_stored(self) -> int:
        return self._sum("bytes", "store", "update")

    @property
    def sectors_loaded(self) -> int:
        """By loads; atomics are apart."""
        return self._sum("sectors", "load")

    @property
    def sectors_stored(self) -> int:
        """By stores; atomics are apart."""
        return self._sum("sectors", "store")

    @property
    def flops(self) -> int:
        """Floating-point operations of all kinds, a special function counted as one."""
        return sum(sum(found.values()) for found in (self.simple, self.special, self.dot))

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte that memory must move."""
        return self.flops / max(1, self.distinct_sectors * SECTOR_BYTES)

    @property
    def roofs(self) -> list[Roof]:
        """What keeps the GPU busy, the longest first. All can go on at once, so the longest alone is the least time."""
        return self.roofs_on(self.gpu)

    def roofs_on(self, gpu: Gpu) -> list[Roof]:
        """The roofs of another GPU over the same work."""
        moved = self.distinct_sectors * SECTOR_BYTES
        found = [Roof("memory", moved, "bytes", moved / gpu.memory / 1e6)]
        vector = sum(count / gpu.vector_rate(kind) for kind, count in self.simple.items())
        tensor = 0.0
        for kind, count in self.dot.items():
            if rate := gpu.dot_rate(kind):
                tensor += count / rate
            else:  # as multiply-adds
                vector += count / gpu.vector_rate(kind)
        if vector:
            work = sum(self.simple.values()) + sum(
                n for kind, n in self.dot.items() if not gpu.dot_rate(kind)
            )
            found.append(Roof("arithmetic", work, "operations", vector / 1e6))
        if tensor:
            found.append(Roof("tensor cores", sum(self.dot.values()), "operations", tensor / 1e6))
        if self.special and gpu.special:
            work = sum(self.special.values())
            found.append(Roof("special functions", work, "results", work / gpu.special / 1e6))
        return sorted(found, key=lambda roof: -roof.us)

    @property
    def least_us(self) -> float:
        """The least time on the GPU, in microseconds. A launch alone takes a few."""
        return self.roofs[0].us

    @property
    def bound(self) -> str:
        """The roof that binds."""
        return self.roofs[0].name

    def on(self, name: str) -> "Cost":
        """The same work on another GPU: as compiled for this one."""
        return Cost(**vars(self) | {"gpu": gpu_of(name), "measured_us": None})

    def __str__(self) -> str:
        scaled = (
            f", scaled up from {self.programs:,} of them"
            if self.programs
            else ", none of which ended: what the first one did"
        )
        about = "" if self.exact else scaled
        lines = [
            f"{self.kernel}, {self.all_programs:,} program{'s' if self.all_programs != 1 else ''}{about}"
        ]
        width = max((len(f"{each.kind} {each.tensor}") for each in self.accesses), default=0)
        for each in self.accesses:
            what = f"{each.kind} {each.tensor}".ljust(width)
            ratio = "by descriptor" if each.by_descriptor else f"{each.times:.2f} times the least"
            lines.append(
                f"    line {each.line:<4} {what} {each.bytes:>15,} bytes {each.sectors:>12,} sectors, {ratio}"
            )
        lines.append(
            f"    loaded {self.bytes_loaded:,} bytes, of which distinct {self.distinct_loaded:,}"
        )
        lines.append(
            f"    stored {self.bytes_stored:,} bytes, of which distinct {self.distinct_stored:,}"
        )
        lines += [f"    {count:,} operations in {kind}" for kind, count in self.simple.items()]
        lines += [
            f"    {count:,} special functions in {kind}" for kind, count in self.special.items()
        ]
        lines += [
            f"    {count:,} operations of tl.dot in {kind}" for kind, count in self.dot.items()
        ]
        if self.resources:
            lines += [f"    {line}" for line in str(self.resources).split("\n")]
        lines.append(f"    {self._least_on(self.gpu)}")
        if self.own and not self.gpu.measured:
            lines.append(f"    {self._least_on(self.own)}")
        if self.measured_us is not None:
            lines.append(
                f"    measured here: {time_text(self.measured_us)}, {self.measured_us / self.least_us:.2f} times the least"
            )
        return "\n".join([*lines, *(f"    {note}" for note in self.notes)])

    __repr__ = __str__

    def _least_on(self, gpu: Gpu) -> str:
        least, *_ = roofs = self.roofs_on(gpu)
        name = f"{gpu.name}, by the speeds measured on it" if gpu.measured else gpu.name
        every = ", ".join(f"{roof.name} {time_text(roof.us)}" for roof in roofs)
        return f"{name}: at least {time_text(least.us)}, bound by {least.name} ({every})"


def time_text(us: float) -> str:
    """A time in the unit that fits it."""
    return (
        f"{us / 1000:,.3g} ms"
        if us >= 1000
        else f"{us:.3g} us"
        if us >= 1
        else f"{us * 1000:.3g} ns"
    )


def cost(kernel: Any, grid: Any, *args: Any, target: str | None = None, **kwargs: Any) -> Cost:
    """What one launch moves and computes, and the least time it takes on a GPU.

    kernel, grid, args, kwargs: as in kernel[grid](*args, **kwargs). It is run in the interpreter, on copies of the tensors;
        of a grid of more than 1,024 programs a sample is run. Tensors on the device "meta" take no memory and hold zeros.
    target: a GPU with known peak figures, as "H200", "A100", "RTX 4090" or "MI300X"; by default this machine's, and an H200
        where there is none. The kernel is compiled for it: sectors follow from the layouts that the compiler has chosen.
    On that very GPU the launch is timed too. A GPU that `course doctor --measure` has measured stands beside it, and takes
    the place of peak figures where there are none for this machine's.

    Raises CourseError where the launch is none, or fails.
    """
    own = own_gpu()
    gpu = gpu_of(target) if target is not None else _this_gpu(own)
    surveyed = traced("cost", kernel, grid, args, kwargs, gpu.target)
    launch, found, texts = surveyed.launch, surveyed.content, surveyed.texts
    # Where no program has ended, what the first one had done is shown as it is.
    scale = math.prod(launch.grid) / found["programs"] if found["programs"] else 1

    def scaled(number: int) -> int:
        return number if scale == 1 else round(number * scale)

    tensors = found["tensors"]
    accesses = tuple(
        AccessCost(
            line=each["line"],
            text=texts.get((each["file"], each["line"]), ""),
            kind=each["kind"],
            tensor=tensors[each["tensor"]]["name"] if each["tensor"] is not None else "memory",
            bytes=scaled(each["bytes"]),
            masked=scaled(each["masked"]),
            requests=scaled(each["requests"]),
            sectors=scaled(each["sectors"]),
            least=scaled(each["least"]),
            by_descriptor=each["by_descriptor"],
        )
        for each in found["accesses"]
    )

    def distinct(name: str) -> int:
        # Programs of a sample may share what they touch with others: of no storage is more touched than is described.
        most = f"most_{name.partition('_')[0]}"
        return sum(
            min(scaled(each[name]), max(each[name], each[most])) for each in found["storages"]
        )

    operations = {
        name: {kind: scaled(n) for kind, n in counted.items() if n}
        for name, counted in found["operations"].items()
    }
    return Cost(
        found["kernel"], launch.grid, found["programs"], gpu, accesses,
        distinct("bytes_loaded"), distinct("bytes_stored"),
        distinct("sectors_loaded") + distinct("sectors_stored"), **operations,
        resources=surveyed.resources, notes=tuple(surveyed.notes), measured_us=measured_us(launch, gpu), own=own,
    )  # fmt: skip


def _this_gpu(own: Gpu | None) -> Gpu:
    if not MODE.gpu:
        return gpu_of("H200")
    try:
        return gpu_of(torch.cuda.get_device_name())
    except CourseError as error:
        if own is None:
            raise CourseError(
                f"{error} Name one of them as `target`, or run `course doctor --measure` once."
            ) from None
        return replace(own, target=target_of(None).name)
