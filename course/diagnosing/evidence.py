"""What the rules look at: a kernel as compiled for a launch, and what its programs touch."""

import math
from dataclasses import dataclass
from functools import cached_property

from course.gpus.limits import Target, target_of
from course.gpus.peaks import Gpu
from course.lowering.memory_requests import SECTOR_BYTES
from course.lowering.request import Request
from course.lowering.result import Lowered
from course.tracing.launch import LaunchRequest
from course.tracing.records import AccessCounts, LaunchCounts

from .time_model import Work

WARPS_WITHOUT_A_LIMIT = 32
"""Warps that a multiprocessor is taken to hold where its limits are not known here (AMD)."""


@dataclass(frozen=True)
class Evidence:
    """A launch as compiled and, if it could be followed, as counted."""

    launch: LaunchRequest
    lowered: Lowered
    counts: LaunchCounts | None
    """None if the launch could not be followed."""
    gpu: Gpu

    @property
    def request(self) -> Request:
        """What was compiled, to be compiled again with a change."""
        assert self.lowered.request is not None
        return self.lowered.request

    @property
    def target(self) -> Target:
        return target_of(self.gpu.target)

    @property
    def programs(self) -> int:
        """Programs of the grid."""
        return math.prod(self.launch.grid)

    @property
    def slots(self) -> int:
        """Programs that a multiprocessor holds at a time; 1 at least."""
        resources = self.lowered.resources
        if resources.programs_per_sm is not None:
            return max(1, resources.programs_per_sm)
        return max(1, WARPS_WITHOUT_A_LIMIT // resources.num_warps)

    @property
    def scale(self) -> float:
        """Programs of the grid for each that was counted."""
        ended = self.counts.programs if self.counts else 0
        return self.programs / ended if ended else 1

    @property
    def accesses(self) -> list[AccessCounts]:
        """The calls that touch memory, in the order of the source; none if nothing was counted."""
        return self.counts.accesses if self.counts else []

    def tensor(self, access: AccessCounts) -> str:
        """The name of the tensor that an access goes to, as the kernel has it."""
        assert self.counts is not None
        return "memory" if access.tensor is None else self.counts.tensors[access.tensor].name

    def text(self, file: str, line: int) -> str:
        """The text of one of the kernel's lines."""
        return self._texts.get((file, line), "")

    @cached_property
    def _texts(self) -> dict[tuple[str, int], str]:
        return {line.frame: line.text.strip() for line in self.lowered.source_lines()}

    @cached_property
    def work(self) -> Work | None:
        """What the launch asks of the GPU; None if nothing was counted."""
        if self.counts is None:
            return None
        counts, scale = self.counts, self.scale
        return Work(
            gpu=self.gpu,
            programs=self.programs,
            slots=self.slots,
            memory_sectors=self._memory[0],
            l2_sectors=scale * sum(map(l2_sectors, counts.accesses)),
            l1_sectors=scale * sum(access.sectors for access in counts.accesses),
            rounds=1,
            simple={kind: count * scale for kind, count in counts.simple.items()},
            special=scale * sum(counts.special.values()),
            dot={kind: count * scale for kind, count in counts.dot.items()},
        )

    @property
    def unused_sectors(self) -> float:
        """Sectors that memory moves, over those that the bytes which are used would fill."""
        sectors, bytes = self._memory
        return max(0, sectors - bytes / SECTOR_BYTES)

    @cached_property
    def _memory(self) -> tuple[float, float]:
        """The sectors that memory must move, each once, and the bytes of them that are used."""
        sectors = used = 0.0
        for storage in self.counts.storages if self.counts else []:
            most = storage.most
            for part in (storage.loaded, storage.stored):
                # Of no storage is more touched than the tensors in it have.
                sectors += min(part.sectors * self.scale, max(part.sectors, most.sectors))
                used += min(part.bytes * self.scale, max(part.bytes, most.bytes))
        return sectors, used


def l2_sectors(access: AccessCounts) -> int:
    """The sectors of an access that go to L2: what a block loads twice, it finds in L1."""
    return min(access.touched, access.sectors) if access.kind == "load" else access.sectors


def sectors_of(count: int) -> int:
    """The sectors that so many bytes take, side by side and aligned."""
    return -(-count // SECTOR_BYTES)
