"""What the rules look at: a kernel as compiled for a launch, and what its programs touch."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from course.gpus.limits import LINE_BYTES, SECTOR_BYTES, Target, target_of
from course.gpus.peaks import Gpu
from course.gpus.throughput import LOCAL
from course.lowering.instruction_counts import count
from course.lowering.locations import Frame
from course.lowering.memory_requests import requests_of
from course.lowering.result import Lowered
from course.lowering.source_map import SourceLine
from course.tracing.launch import LaunchRequest
from course.tracing.records import AccessCounts, LaunchCounts
from course.triton_internals.jit_functions import is_gluon

from .executed import Run, executed, units_of
from .gathers import Gathers, Touches, deciding_loads, gathers_of, touches_of
from .iterations import Iterations, iterations_of
from .locks import Lock, locks_of
from .loops import Loop, loops_of
from .machine_code import MachineCode
from .time_model import STORED_LINE, Work

WARPS_WITHOUT_A_LIMIT = 32
"""Warps that a multiprocessor is taken to hold where its limits are not known here (AMD)."""
MMA_ON_HOPPER = 0.62
"""The part of Hopper's tensor-core rate that mma.sync reaches (Luo and others, "Benchmarking and
Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024)."""
UNEVEN = 4
"""Iterations of one program, over the average of all, from which on programs are not alike."""
HOT = 4
"""Updates of one line, over the average of a tensor's lines, from which on that line decides."""
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
    """None if it was not read: for AMD's GPUs, and where the disassembler fails."""

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
    def warps(self) -> int:
        """Warps of all programs."""
        return self.programs * self.lowered.resources.num_warps

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

    def tensors(self, accesses: Iterable[AccessCounts]) -> str:
        """The names of the tensors that accesses go to, each once: "x_ptr and y_ptr"."""
        return " and ".join(dict.fromkeys(map(self.tensor, accesses)))

    def argument(self, access: AccessCounts) -> torch.Tensor | None:
        """The argument that an access goes to, if it is a tensor."""
        value = self.launch.given.get(self.tensor(access))
        return value if isinstance(value, torch.Tensor) else None

    def line(self, frame: Frame) -> SourceLine:
        """One of the kernel's lines; without a text if it is not among them."""
        return self._lines.get(frame, SourceLine(*frame, ""))

    def place(self, access: AccessCounts) -> SourceLine:
        """The line of an access."""
        return self.line((access.file, access.line))

    @cached_property
    def _lines(self) -> dict[Frame, SourceLine]:
        return {line.frame: line for line in self.lowered.source_lines()}

    @cached_property
    def loops(self) -> list[Loop]:
        """The kernel's loops, an inner one before the one around it."""
        return list(loops_of(self.lowered))

    @cached_property
    def touches(self) -> Touches:
        """(call, kind of access) -> its operations in the TTIR."""
        return touches_of(self.lowered)

    @cached_property
    def gathers(self) -> Gathers:
        """The accesses whose addresses the kernel computes from blocks that it has loaded."""
        return gathers_of(self.touches)

    @cached_property
    def locks(self) -> list[Lock]:
        """The locks that programs wait for."""
        return locks_of(self)

    @cached_property
    def contended(self) -> dict[str, float]:
        """Tensor -> the requests of warps that update each of its lines: the line that most come
        to, if it is updated far more often than the average of all.

        Without what waits for a lock, which is a time of its own.
        """
        assert self.counts is not None
        locked = {self.tensor(lock.access) for lock in self.locks}
        contended = dict(self.evenly_contended)
        for name, evenly in self.evenly_contended.items():
            most = self.counts.most_updated.get(name, 0)
            if name not in locked and most > HOT * evenly:
                contended[name] = most
        return contended

    @cached_property
    def evenly_contended(self) -> dict[str, float]:
        """The same as if updates came to all lines of a tensor alike."""
        waiting = {lock.access.call for lock in self.locks}
        requests: dict[str, float] = defaultdict(float)
        for access in self.accesses:
            tensor = self.argument(access)
            if access.kind == "update" and tensor is not None and access.call not in waiting:
                lines = max(1, tensor.nbytes / LINE_BYTES)
                requests[self.tensor(access)] += access.lines / lines
        return requests

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
    def unreal_values(self) -> list[str]:
        """The tensors on the device "meta", which hold zeros, that decide what is touched."""
        arguments = self.launch.given.items()
        tensors = [name for name, value in arguments if getattr(value, "is_meta", False)]
        if self.counts is None or not tensors:
            return []
        calls = deciding_loads(self.lowered)
        loaded = {self.tensor(access) for access in self.accesses if access.call in calls}
        return [name for name in tensors if name in loaded]

    def stages_of(self, loop: Loop) -> int:
        """The pipeline stages requested for a loop; 1 means no pipeline.

        A loop without tl.dot has a pipeline only if it asks for it itself.
        """
        if loop.stages is not None:
            return loop.stages
        has_one = loop.dots or loop.ahead
        return int(self.lowered.metadata["options"].get("num_stages", 1)) if has_one else 1

    def ahead(self, loop: Loop) -> int:
        """The iterations of a pipelined loop whose loads are under way together."""
        return max(1, self.stages_of(loop) - 1)

    @cached_property
    def instructions(self) -> dict[str, int]:
        """The instructions of PTX, or of AMD's assembly, by what `lower(…).counts` calls them."""
        stage = "ptx" if self.target.nvidia else "amdgcn"
        return count({stage: self.lowered.text(stage)})[stage]

    @property
    def dot_instruction(self) -> str:
        """The tensor-core instruction that tl.dot became; empty if it became none."""
        return next((name for name in TENSOR_CORES if self.instructions.get(name)), "")

    @cached_property
    def rounds(self) -> float:
        """Loads of one program that wait for one another, on average over programs.

        Loads that stand in one loop are asked for together, iteration by iteration; those of a
        pipelined loop so many iterations ahead; those in no loop all at once.
        """
        groups: dict[int, float] = defaultdict(float)
        for access in self.accesses:
            if access.kind == "store":
                continue
            loop = next((loop for loop in self.loops if access.call in loop.loads), None)
            if loop is None:
                groups[0] = 1
            else:
                times = access.executions / self.programs
                times /= 1 if access.call in loop.plain else self.ahead(loop)
                groups[id(loop)] = max(groups[id(loop)], times)
        return max(1, sum(groups.values()))

    @cached_property
    def executed(self) -> list[Run]:
        """The instructions that a warp runs; none if the launch was not followed, or its machine
        code not read."""
        if self.code is None or self.counts is None:
            return []
        return executed(self.code, self.counts, requests_of(self.lowered), self._lines)

    def instructions_without(
        self, holds: Callable[[Run], bool], part: float = 1
    ) -> dict[str, float]:
        """The launch's instructions by unit, without those for which `holds`, or a part of them."""
        assert self.work is not None
        gone = units_of(filter(holds, self.executed))
        return {
            unit: count - part * gone.get(unit, 0) * self.warps
            for unit, count in self.work.instructions.items()
        }

    @cached_property
    def work(self) -> Work | None:
        """What the launch asks of the GPU; None if nothing was counted."""
        if self.counts is None:
            return None
        counts, spilled = self.counts, self.spilled
        simple: dict[str, float] = {**counts.simple}
        dot: dict[str, float] = {**counts.dot}
        if not self.dot_instruction:
            for kind, number in dot.items():
                name = kind if kind in self.gpu.vector else "fp32"
                simple[name] = simple.get(name, 0) + number
            dot = {}
        mma_on_hopper = self.target.capability // 10 == 9 and self.dot_instruction == "mma"
        return Work(
            gpu=self.gpu,
            programs=self.programs,
            slots=self.slots,
            memory_sectors=self._memory[0] + spilled["memory_sectors"],
            l2_sectors=sum(map(l2_sectors, counts.accesses)) + spilled["l2_sectors"],
            l1_sectors=sum(each.sectors for each in counts.accesses) + spilled["l1_sectors"],
            requests=sum(access.requests for access in counts.accesses),
            rounds=self.rounds,
            longest_rounds=max((each.rounds * each.most for each in self.uneven), default=0),
            lock_trips=max((lock.turns * lock.trips for lock in self.locks), default=0),
            contended=max(self.contended.values(), default=0),
            fences=sum(run.times for run in self.executed if run.instruction.fences),
            simple=simple,
            special=sum(counts.special.values()),
            dot=dot,
            instructions={
                unit: times * self.warps for unit, times in units_of(self.executed).items()
            },
            dot_share=MMA_ON_HOPPER if mma_on_hopper else 1,
        )

    @cached_property
    def spilled(self) -> dict[str, float]:
        """A field of Work -> the sectors of it that move what found no register.

        They stay in L1 as long as what the programs of a multiprocessor spill fits beside their
        shared memory, and in L2 as long as that of all programs which are there fits.
        """
        resources = self.lowered.resources
        if not resources.spill_bytes:
            sectors = 0.0
        elif self.executed:
            moves = (run for run in self.executed if run.instruction.unit == LOCAL)
            # An instruction of a warp moves a sector for each byte of a thread.
            sectors = sum(run.instruction.bytes * run.times for run in moves) * self.warps
        else:
            bytes = 2 * resources.spill_bytes * self.threads
            sectors = bytes / SECTOR_BYTES * self.rounds * self.programs
        there = min(self.slots, -(-self.programs // self.gpu.multiprocessors))
        kept = there * self.threads * resources.spill_bytes
        room = self.target.sm_shared_bytes - there * resources.shared_bytes
        past_l1 = bool(self.target.sm_shared_bytes) and kept > room
        past_l2 = past_l1 and 0 < self.gpu.l2_mb * 1e6 < kept * self.gpu.multiprocessors
        return {
            "l1_sectors": sectors,
            "l2_sectors": sectors * past_l1,
            "memory_sectors": sectors * past_l2,
        }

    @property
    def unused_sectors(self) -> float:
        """Sectors that memory moves, over those that the bytes which are used would fill."""
        sectors, bytes = self._memory
        return max(0, sectors - bytes / SECTOR_BYTES)

    def least_us(self, busy: float = 1) -> float:
        """The microseconds that the bytes which a launch uses take, each once; 0 if not counted.

        busy: the part of the multiprocessors that ask for them.
        """
        if self.work is None:
            return 0
        _, bytes = self._memory
        sectors = bytes / SECTOR_BYTES
        # Each as much as it can take, by as many of them as there are at work.
        used = replace(self.work, memory_sectors=sectors, l1_sectors=sectors / busy, requests=0)
        return max(used.parts["memory"], replace(used, even=True).parts["loads and stores"])

    @cached_property
    def _memory(self) -> tuple[float, float]:
        """The sectors that memory must move, each once, and the bytes of them that are used."""
        storages = self.counts.storages if self.counts else []
        parts = [part for storage in storages for part in (storage.loaded, storage.stored)]
        return sum(part.sectors for part in parts), sum(part.bytes for part in parts)


def l2_sectors(access: AccessCounts) -> float:
    """What an access costs L2, in loaded sectors: what a block loads twice, it finds in L1."""
    if access.kind == "load":
        return min(access.touched, access.sectors)
    return access.lines * STORED_LINE


def sectors_of(count: int) -> int:
    """The sectors that so many bytes take, side by side and aligned."""
    return -(-count // SECTOR_BYTES)
