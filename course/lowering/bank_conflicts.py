"""Bank conflicts: how many cycles shared memory takes for one request of a warp.

Shared memory has 32 banks of 4 bytes, and each delivers one word per cycle. A request moves 128
bytes: those of all threads where each takes up to 4 bytes, of half of them at 8, of a quarter at
16. Different words of one bank take a cycle each (NVIDIA, CUDA C++ best practices guide, "Shared
Memory and Memory Banks").
"""

from dataclasses import dataclass

import numpy as np

from course.errors import CourseError
from course.gpus.limits import WIDEST_BYTES

from .layouts import BANK_BYTES, BANKS, Index, Layout


@dataclass(frozen=True)
class SharedAccess:
    """The slowest request among those by which one warp moves its first elements."""

    bytes_per_thread: int
    cycles: int
    """1 if no two threads want different words of one bank."""
    elements: tuple[Index, ...]
    """Those that this request moves."""

    def __str__(self) -> str:
        conflict = f"{self.cycles} cycles ({self.cycles}-way bank conflict)"
        how = conflict if self.cycles > 1 else "1 cycle (no bank conflict)"
        return f"{self.bytes_per_thread} bytes per thread, {how}"


def access(shared: Layout, registers: Layout, warp: int = 0) -> SharedAccess:
    """How a warp moves a block between shared memory and registers: layouts of the same shape.

    The access is as wide as neighbors in a thread's registers are neighbors in shared memory.
    (`ldmatrix` and the like, by which a warp loads for tensor cores, move rows of 16 bytes in the
    same requests of 128.)
    """
    shape = shared.shape[-len(registers.shape) :]
    if not shared.shared or registers.shared or shape != registers.shape:
        layouts = f"{shared.kind} of {shared.shape} and {registers.kind} of {registers.shape}"
        raise CourseError(
            "An access is between a layout in shared memory and one in registers of the same "
            f"shape; these are {layouts}."
        )
    elements = [registers.held_by(warp, thread) for thread in range(registers.threads)]
    offsets = np.array([[shared.offset(*index) for index in held] for held in elements])
    itemsize = max(1, shared.element_bits // 8)
    vector = _vector(offsets, WIDEST_BYTES // itemsize)
    words = offsets[:, :vector] * itemsize // BANK_BYTES
    threads = max(1, BANKS * BANK_BYTES // max(vector * itemsize, BANK_BYTES))

    def cycles(request: slice) -> int:
        return int(np.bincount(np.unique(words[request]) % BANKS).max())

    requests = [slice(start, start + threads) for start in range(0, len(elements), threads)]
    slowest = max(requests, key=cycles)
    moved = tuple(index for held in elements[slowest] for index in held[:vector])
    return SharedAccess(vector * itemsize, cycles(slowest), moved)


def _vector(offsets: np.ndarray, most: int) -> int:
    """How many registers of every thread lie side by side in shared memory: a power of two.

    offsets: [threads, registers]
    """
    width, beyond_first = 1, offsets - offsets[:, :1]
    while (
        width * 2 <= min(most, offsets.shape[1])
        and (beyond_first[:, : width * 2] == np.arange(width * 2)).all()
    ):
        width *= 2
    return width
