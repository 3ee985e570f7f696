"""How long a launch may take: the longest of what it asks of each part of a GPU.

A bound says the least time; this says what a launch is likely to take, so that two changes to a
kernel can be compared. Counts are exact or scaled up from a sample; the rates are published peaks,
or what was measured where no peak is published; latencies are rounded from what others have
measured on an H100 (see SOURCES). Only ratios of its times mean anything.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

from course.gpus.peaks import Gpu
from course.lowering.memory_requests import SECTOR_BYTES

REACHED = 0.88
"""The part of the published bandwidth that a large copy reaches: 4.25 of 4.8 TB/s on an H200."""
L1_BYTES_A_CLOCK = 64
"""What the L1 cache of a multiprocessor takes from L2 in a clock (NVIDIA's whitepapers)."""
L2_REACHED = 0.65
"""The part of that rate at which all multiprocessors together read L2: 9.7 TB/s on an H200."""
LATENCY_US = 0.7
"""From a load to its value, from memory, on a busy GPU."""
START_US = 0.7
"""For a program to start, and for its last stores to leave it."""
CLOCK_MHZ = 1500
"""The clock where none is known."""


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
    """Sectors that pass between L2 and the multiprocessors."""
    l1_sectors: float = 0
    """Sectors that the requests of warps ask for."""
    rounds: float = 1
    """Loads of a program that wait for one another, one after the other."""
    simple: dict[str, float] = field(default_factory=dict)
    """Floating-point operations outside the tensor cores, by type."""
    special: float = 0
    """Exponentials, roots and the like."""
    dot: dict[str, float] = field(default_factory=dict)
    """Operations in the tensor cores, by type."""
    dot_share: float = 1
    """The part of the tensor cores' rate that the chosen instruction can reach."""

    @cached_property
    def parts(self) -> dict[str, float]:
        """Microseconds by what takes them."""
        gpu, per_multiprocessor = self.gpu, self.imbalance
        clock = gpu.clock_mhz or CLOCK_MHZ
        l1 = L1_BYTES_A_CLOCK * gpu.multiprocessors * clock / 1e6  # TB/s
        memory = gpu.memory * (1 if gpu.measured else REACHED)
        simple = sum(count / gpu.vector_rate(kind) for kind, count in self.simple.items())
        dot = sum(count / (gpu.dot_rate(kind) or math.inf) for kind, count in self.dot.items())
        special = self.special / gpu.special if gpu.special else 0
        waves = math.ceil(self.programs / (self.slots * gpu.multiprocessors))
        return {
            "memory": self.memory_sectors * SECTOR_BYTES / memory / 1e6,
            "L2": self.l2_sectors * SECTOR_BYTES / (l1 * L2_REACHED) / 1e6,
            "L1": self.l1_sectors * SECTOR_BYTES / l1 / 1e6 * per_multiprocessor,
            "arithmetic": (simple + special) / 1e6 * per_multiprocessor,
            "tensor cores": dot / self.dot_share / 1e6 * per_multiprocessor,
            "waiting for loads": waves * (START_US + self.rounds * LATENCY_US),
        }

    @property
    def imbalance(self) -> float:
        """The work of the busiest multiprocessor over the average, if programs are alike."""
        share = self.programs / self.gpu.multiprocessors
        return math.ceil(share) / share

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
