"""Bank conflicts: how often a warp must go to shared memory for one access.

Shared memory has 32 banks of 4 bytes. What a warp moves in one go is 128 bytes: all its threads
where each takes up to 4 bytes, half of them at 8, a quarter at 16. Threads that ask one bank for
different words in one go have to take turns (NVIDIA, CUDA C++ best practices guide, "Shared Memory
and Memory Banks").
"""

from collections import defaultdict
from dataclasses import dataclass

from course.errors import CourseError

from .layouts import BANK_BYTES, BANKS, Index, Layout

MOST_BYTES = 16
"""The widest access of one thread."""


@dataclass(frozen=True)
class Access:
    """What one warp does at its first go of an access."""

    bytes_per_thread: int
    turns: int
    """1 if no two threads want different words of one bank."""
    elements: tuple[Index, ...]
    """Those that are moved in the go that takes most turns."""

    def __str__(self) -> str:
        conflict = f"{self.turns} turns ({self.turns}-way bank conflict)"
        how = conflict if self.turns > 1 else "no conflict"
        return f"{self.bytes_per_thread} bytes a thread, {how}"


def access(shared: Layout, registers: Layout, warp: int = 0) -> Access:
    """How a warp moves a block between shared memory and registers: layouts of the same shape.

    The access is as wide as neighbours in a thread's registers are neighbours in shared memory.
    (`ldmatrix` and the like, by which a warp loads for tensor cores, move rows of 16 bytes in the
    same goes of 128.)
    """
    shape = shared.shape[-len(registers.shape) :]
    if not shared.shared or registers.shared or shape != registers.shape:
        layouts = f"{shared.kind} of {shared.shape} and {registers.kind} of {registers.shape}"
        raise CourseError(
            "An access is between a layout in shared memory and one in registers of the same "
            f"shape; these are {layouts}."
        )
    elements = [registers.held_by(warp, thread) for thread in range(registers.threads)]
    offsets = [[shared.offset(*index) for index in indexes] for indexes in elements]
    itemsize = max(1, shared.element_bits // 8)
    vector = _vector(offsets, MOST_BYTES // itemsize)
    threads_per_go = max(1, BANKS * BANK_BYTES // max(vector * itemsize, BANK_BYTES))
    most_turns, moved = 0, tuple[Index, ...]()
    for start in range(0, len(elements), threads_per_go):
        go = slice(start, start + threads_per_go)
        words: dict[int, set[int]] = defaultdict(set)
        for thread_offsets in offsets[go]:
            for offset in thread_offsets[:vector]:
                word = offset * itemsize // BANK_BYTES
                words[word % BANKS].add(word)
        turns = max(map(len, words.values()))
        if turns > most_turns:
            most_turns = turns
            moved = tuple(index for indexes in elements[go] for index in indexes[:vector])
    return Access(vector * itemsize, most_turns, moved)


def _vector(offsets: list[list[int]], most: int) -> int:
    """How many registers of every thread lie side by side in shared memory: a power of two."""
    width = 1
    while width * 2 <= min(most, len(offsets[0])) and all(
        row[register] == row[0] + register for row in offsets for register in range(width * 2)
    ):
        width *= 2
    return width
