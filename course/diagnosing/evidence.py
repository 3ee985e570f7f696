"""What the rules look at: a kernel as compiled for a launch, and what its programs touch."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from course.gpus.limits import SECTOR_BYTES, Target, target_of
from course.gpus.peaks import Gpu
from course.gpus.throughput import LOCAL
from course.lowering.instruction_counts import count
from course.lowering.memory_requests import requests_of
from course.lowering.result import Lowered
from course.tracing.launch import LaunchRequest
from course.tracing.records import AccessCounts, LaunchCounts
from course.triton_internals.jit_functions import is_gluon
from course.type_names import AnyValue

from .executed import Executed, executed
from .gathers import Gathers, gathers_of
from .iterations import Iterations, iterations_of
from .locks import Lock, locks_of
from .loops import Loop, loops_of
from .machine_code import Instruction, MachineCode
from .time_model import STORED_LINE, Work

WARPS_WITHOUT_A_LIMIT = 32
"""Warps that a multiprocessor is taken to hold where its limits are not known here (AMD)."""
LINE_SECTORS = 4
"""Sectors of a cache line."""
MMA_ON_HOPPER = 0.62
"""The part of Hopper's tensor-core rate that mma.sync reaches (Luo and others, "Benchmarking and
Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024)."""
UNEVEN = 4
"""Iterations of one program, over the average of all, from which on programs are not alike."""
TENSOR_CORES = ("mma", "wgmma", "tcgen05", "mfma", "wmma")


@dataclass(frozen=True)
class Evidence:
    """A launch as compiled and, if it could be followed, as counted."""

    launch: LaunchRequest
    lowered: Lowered
    counts: LaunchCounts | None
    """None if the launch could not be followed."""
    gpu: Gpu
    code: MachineCode | None = None
    """None if it was not read: of AMD's GPUs, and where the disassembler fails."""

    @property
    def target(self) -> Target:
        return target_of(self.gpu.target)

    @property
    def gluon(self) -> bool:
        """Whether the kernel is written in Gluon, where layouts and copies are its author's."""
        return is_gluon(self.launch.kernel)

    @property
    def programs(self) -> int:
        """Programs of the grid."""
        return math.prod(self.launch.grid)

    @property
    def threads(self) -> int:
        """Threads of a program."""
        return self.lowered.resources.num_warps * self.target.warp_size

    @property
    def slots(self) -> int:
        """Programs that a multiprocessor holds at a time; 1 at least."""
        resources = self.lowered.resources
        if resources.programs_per_sm is not None:
            return max(1, resources.programs_per_sm)
        return max(1, WARPS_WITHOUT_A_LIMIT // resources.num_warps)

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
    def loops(self) -> list[Loop]:
        """The kernel's loops, an inner one before the one around it."""
        return loops_of(self.lowered)

    @cached_property
    def gathers(self) -> Gathers:
        """The accesses whose addresses the kernel computes from blocks that it has loaded."""
        return gathers_of(self.lowered)

    @cached_property
    def locks(self) -> list[Lock]:
        """The locks that programs wait for."""
        return locks_of(self)

    @cached_property
    def iterations(self) -> list[Iterations]:
        """How often the loops are run by each program, where that is known of all programs."""
        return iterations_of(self) if self.counts is not None else []

    @property
    def uneven(self) -> list[Iterations]:
        """The loops that some program runs many times as often as programs do on average."""
        return [each for each in self.iterations if each.most >= UNEVEN * max(1, each.average)]

    def is_gather(self, access: AccessCounts) -> bool:
        """Whether an access goes to places that the kernel has loaded."""
        return (access.call, access.kind) in self.gathers

    @property
    def unreal_indices(self) -> list[str]:
        """The tensors on the device "meta", which hold zeros, that places are loaded from."""
        if self.counts is None:
            return []
        calls = {call for calls in self.gathers.values() for call in calls}
        loaded = {self.tensor(access) for access in self.accesses if access.call in calls}
        arguments = self.launch.arguments().items()
        return [name for name, value in arguments if name in loaded and is_meta(value)]

    @cached_property
    def stages(self) -> int:
        """The depth of pipelines that was asked for, for the whole kernel."""
        return int(self.lowered.metadata["options"].get("num_stages", 1))

    def stages_of(self, loop: Loop) -> int:
        """The depth of a loop's pipeline that was asked for; 1 is none.

        Without tl.dot in it, a loop has one only if it asks for it itself.
        """
        if loop.stages is not None:
            return loop.stages
        return self.stages if loop.dots else 1

    @cached_property
    def instructions(self) -> dict[str, int]:
        """The instructions of PTX, or of AMD's assembly, by what `lower(…).counts` calls them."""
        stage = "ptx" if self.target.nvidia else "amdgcn"
        return count({stage: self.lowered.text(stage)})[stage]

    @property
    def dot_instruction(self) -> str:
        """The tensor-core instruction that tl.dot became; empty if there is none."""
        return next((name for name in TENSOR_CORES if self.instructions.get(name)), "")

    @cached_property
    def rounds(self) -> float:
        """Loads of one program that wait for one another, on average over programs.

        Loads that stand in one loop are asked for together, iteration by iteration; those of a
        pipelined loop so many iterations ahead; those in no loop all at once.
        """
        if self.counts is None:
            return 1
        groups: dict[int, float] = defaultdict(float)
        for access in self.accesses:
            if access.kind == "store":
                continue
            times = access.executions / self.programs
            for number, loop in enumerate(self.loops, start=1):
                if access.call in loop.plain:
                    groups[number] = max(groups[number], times)
                    break
                if access.call in loop.ahead:
                    stages = self.stages if loop.stages is None else loop.stages
                    groups[number] = max(groups[number], times / max(1, stages - 1))
                    break
            else:
                groups[0] = 1
        return max(1, sum(groups.values()))

    @cached_property
    def executed(self) -> Executed | None:
        """The instructions that a warp runs; None if the launch was not followed, or its machine
        code not read."""
        if self.code is None or self.counts is None:
            return None
        own = frozenset(line.frame for line in self.lowered.source_lines())
        return executed(self.code, self.counts, requests_of(self.lowered), own)

    @property
    def warps(self) -> int:
        """Warps of all programs."""
        return self.programs * self.lowered.resources.num_warps

    def instructions_without(
        self, holds: Callable[[Instruction, bool], bool], part: float = 1
    ) -> dict[str, float]:
        """The launch's instructions by unit, without those for which `holds`, or a part of them."""
        assert self.work is not None and self.executed is not None
        gone = self.executed.units_where(holds)
        return {
            unit: count - part * gone.get(unit, 0) * self.warps
            for unit, count in self.work.instructions.items()
        }

    @property
    def elements(self) -> float:
        """Elements that the line moves which moves most of them; 1 at least."""
        moved = (access.bytes / max(1, access.itemsize) for access in self.accesses)
        return max(1, max(moved, default=0))

    @cached_property
    def work(self) -> Work | None:
        """What the launch asks of the GPU; None if nothing was counted."""
        if self.counts is None:
            return None
        counts = self.counts
        simple: dict[str, float] = {**counts.simple}
        dot: dict[str, float] = {**counts.dot}
        if not self.dot_instruction:
            for kind, number in dot.items():
                name = kind if kind in self.gpu.vector else "fp32"
                simple[name] = simple.get(name, 0) + number
            dot = {}
        hopper = self.target.capability // 10 == 9
        units = self.executed.units if self.executed else {}
        spilled = self.spilled
        return Work(
            gpu=self.gpu,
            programs=self.programs,
            slots=self.slots,
            memory_sectors=self._memory[0] + spilled.memory,
            l2_sectors=sum(map(l2_sectors, counts.accesses)) + spilled.l2,
            l1_sectors=sum(access.sectors for access in counts.accesses) + spilled.l1,
            requests=sum(access.requests for access in counts.accesses),
            rounds=self.rounds,
            longest_rounds=max((each.rounds * each.most for each in self.uneven), default=0),
            lock_trips=max((lock.turns * lock.trips for lock in self.locks), default=0),
            fences=self.executed.fences() if self.executed else 0,
            simple=simple,
            special=sum(counts.special.values()),
            dot=dot,
            instructions={unit: times * self.warps for unit, times in units.items()},
            dot_share=MMA_ON_HOPPER if hopper and self.dot_instruction == "mma" else 1,
        )

    @cached_property
    def spilled(self) -> "Spilled":
        """Sectors that move what found no register, by how far they go.

        They stay in L1 as long as what the programs of a multiprocessor spill fits beside their
        shared memory, and in L2 as long as that of all programs which are there fits.
        """
        resources = self.lowered.resources
        if not resources.spill_bytes:
            return Spilled()
        if self.executed:
            moves = (each for each in self.executed.times if each[0].unit == LOCAL)
            # An instruction of a warp moves a sector for each byte of a thread.
            sectors = sum(each.bytes * times for each, times, _ in moves) * self.warps
        else:
            bytes = 2 * resources.spill_bytes * self.threads
            sectors = bytes / SECTOR_BYTES * self.rounds * self.programs
        there = min(self.slots, -(-self.programs // self.gpu.multiprocessors))
        kept = there * self.threads * resources.spill_bytes
        room = self.target.sm_shared_bytes - there * resources.shared_bytes
        past_l1 = bool(self.target.sm_shared_bytes) and kept > room
        past_l2 = past_l1 and 0 < self.gpu.l2_mb * 1e6 < kept * self.gpu.multiprocessors
        return Spilled(sectors, sectors * past_l1, sectors * past_l2)

    @property
    def unused_sectors(self) -> float:
        """Sectors that memory moves, over those that the bytes which are used would fill."""
        sectors, bytes = self._memory
        return max(0, sectors - bytes / SECTOR_BYTES)

    @cached_property
    def _memory(self) -> tuple[float, float]:
        """The sectors that memory must move, each once, and the bytes of them that are used."""
        storages = self.counts.storages if self.counts else []
        parts = [part for storage in storages for part in (storage.loaded, storage.stored)]
        return sum(part.sectors for part in parts), sum(part.bytes for part in parts)


@dataclass(frozen=True)
class Spilled:
    """Sectors that move what found no register."""

    l1: float = 0
    l2: float = 0
    memory: float = 0


def is_meta(value: AnyValue) -> bool:
    """Whether an argument is a tensor without values, which hold zeros in a trace."""
    return isinstance(value, torch.Tensor) and value.is_meta


def l2_sectors(access: AccessCounts) -> float:
    """What an access costs L2, in loaded sectors: what a block loads twice, it finds in L1."""
    if access.kind == "load":
        return min(access.touched, access.sectors)
    return access.lines * STORED_LINE


def sectors_of(count: int) -> int:
    """The sectors that so many bytes take, side by side and aligned."""
    return -(-count // SECTOR_BYTES)
