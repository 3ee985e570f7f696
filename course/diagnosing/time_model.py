"""How long a launch may take: the longest of what it asks of each part of a GPU.

A bound says the least time; this says what a launch is likely to take, so that two versions of a
kernel can be compared. Counts are exact, or scaled up from a sample. Rates are published peaks, and
the constants below are fitted to what is recorded of an H200 in `benching/recorded`; the rates of
instructions are documented ones (`gpus/throughput.py`) and fitted to nothing. Only the ratios of
its times are meant to be used.

Left out is how long an instruction waits for the one before it, and a barrier for the slowest warp:
where few warps are there, or each waits often, a launch takes longer. So does one whose parts do
not go on beside one another.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

from course.gpus.limits import SECTOR_BYTES, target_of
from course.gpus.peaks import Gpu
from course.gpus.throughput import clocks

REACHED = 0.88
"""The part of the published bandwidth that a large copy reaches (4.25 of 4.8 TB/s)."""
L1_BYTES_A_CLOCK = 64
"""Bytes that a multiprocessor takes from L2 in a clock (NVIDIA's whitepapers)."""
L2_REACHED = 0.65
"""The part of that rate at which all multiprocessors together read L2 (9.7 TB/s)."""
STORED_LINE = 5.5
"""Loaded sectors in whose time L2 takes what one request stores to one line, a part of the line or
all of it (transpose_v1: 55 lines a nanosecond)."""
REQUEST_CLOCKS = 6
"""Clocks of a multiprocessor for each request of a warp, with its address and its mask (matmul_v1
at 4,097 rows, where an instruction loads 2 bytes of each thread)."""
LATENCY_US = 0.55
"""The time from a load to the use of its value (with START_US: vector add by 8 and 16 warps, whose
programs last 0.65 us each)."""
START_US = 0.1
"""The time that a program takes to start, and its last stores to leave it."""
UPDATED_LINE_NS = 10
"""The time between two requests of warps that update the same line of 128 bytes: 8 to 13 in four
kernels of docs/diagnose-trial.md, for 1 to 32 elements of the line."""
PROGRAM_NS = 0.6
"""The time between the starts of two programs on the whole GPU (vector add in blocks of 32 and of
64)."""
CLOCK_MHZ = 1500
"""The clock where none is published."""


@dataclass(frozen=True)
class Work:
    """What a launch asks of a GPU."""

    gpu: Gpu
    programs: int
    slots: int
    """Programs that a multiprocessor holds at a time."""
    memory_sectors: float = 0
    """Sectors that memory must move, each once."""
    l2_sectors: float = 0
    """Sectors that pass between L2 and the multiprocessors; stores count by lines."""
    l1_sectors: float = 0
    """Sectors that the requests of warps ask for."""
    lock_trips: float = 0
    """Trips to L2 that programs make one after the other, because each holds a lock meanwhile."""
    contended: float = 0
    """Requests of warps that update one line of memory, of the line that has most."""
    requests: float = 0
    """Instructions of one warp that load or store."""
    rounds: float = 1
    """Loads of one program that wait for one another."""
    longest_rounds: float = 0
    """The same of the program that has most; 0 if programs are about alike, or it is not known."""
    fences: float = 0
    """Fences of one warp, each of which waits for what the warp has stored before it."""
    simple: dict[str, float] = field(default_factory=dict)
    """Floating-point operations outside the tensor cores, by type."""
    special: float = 0
    """Exponentials, roots and the like."""
    dot: dict[str, float] = field(default_factory=dict)
    """Operations in the tensor cores, by type."""
    instructions: dict[str, float] = field(default_factory=dict)
    """Instructions of warps by the unit that computes them, as `gpus.throughput` calls it; empty
    where the machine code was not read."""
    dot_share: float = 1
    """The part of the tensor cores' rate that the chosen instruction can reach."""
    even: bool = False
    """Whether every multiprocessor has as much to do as any other."""

    def less(self, **amounts: float) -> "Work":
        """This work with so much less of some of its fields."""
        fields = {name: getattr(self, name) - amount for name, amount in amounts.items()}
        return replace(self, **fields)

    @cached_property
    def parts(self) -> dict[str, float]:
        """Microseconds by what takes them."""
        gpu, busiest = self.gpu, self.imbalance
        clocks_a_us = gpu.multiprocessors * (gpu.clock_mhz or CLOCK_MHZ)
        l2_bytes = clocks_a_us * L1_BYTES_A_CLOCK * L2_REACHED
        memory_bytes = gpu.memory * 1e6 * (1 if gpu.measured else REACHED)
        simple = sum(count / gpu.vector_rate(kind) for kind, count in self.simple.items())
        dot = sum(count / (gpu.dot_rate(kind) or math.inf) for kind, count in self.dot.items())
        special = self.special / gpu.special if gpu.special else 0
        issue, _ = self.issue
        l1 = self.l1_sectors * SECTOR_BYTES / L1_BYTES_A_CLOCK
        return {
            "memory": self.memory_sectors * SECTOR_BYTES / memory_bytes,
            "L2": self.l2_sectors * SECTOR_BYTES / l2_bytes,
            "loads and stores": max(l1, self.requests * REQUEST_CLOCKS) / clocks_a_us * busiest,
            "arithmetic": (simple + special) / 1e6 * busiest,
            "instructions": issue / clocks_a_us * busiest,
            "tensor cores": dot / self.dot_share / 1e6 * busiest,
            "waiting for loads": self.waves * (START_US + self.rounds * LATENCY_US),
            "longest program": (
                START_US + self.longest_rounds * LATENCY_US if self.longest_rounds else 0
            ),
            "fences": self.waves * self.fences * LATENCY_US,
            "locks": self.lock_trips * LATENCY_US,
            "updates of one line": self.contended * UPDATED_LINE_NS / 1e3,
            "starting programs": self.programs * PROGRAM_NS / 1e3,
        }

    @property
    def issue(self) -> tuple[float, str]:
        """The clocks that one multiprocessor would take for all instructions, and the unit that
        takes them, or "issue"."""
        return clocks(self.instructions, self.gpu, target_of(self.gpu.target))

    @property
    def imbalance(self) -> float:
        """The work of the busiest multiprocessor over the average, if programs are alike."""
        share = self.programs / self.gpu.multiprocessors
        return 1 if self.even else math.ceil(share) / share

    @property
    def waves(self) -> float:
        """How often a multiprocessor is filled with programs, one after the other."""
        waves = self.programs / (self.slots * self.gpu.multiprocessors)
        return waves if self.even and waves > 1 else math.ceil(waves)

    @property
    def longest(self) -> tuple[str, float]:
        """The part that takes longest, and its microseconds."""
        return max(self.parts.items(), key=lambda part: part[1])

    @property
    def us(self) -> float:
        """The estimated time in microseconds."""
        return self.longest[1]

    @property
    def sum_us(self) -> float:
        """All parts together, as if none went on beside another."""
        return sum(self.parts.values())
