"""How a compiled kernel goes to global memory: which elements of a block each warp asks for at
once.

A load or store of a block becomes instructions of one warp each. What an instruction asks for follows from the layout of
the block of addresses in the TTGIR, and from how many bytes of each thread one instruction moves, which the assembly says.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from .api import Lowered
from .call_sites import CallPath, Calls

SECTOR_BYTES = 32
"""What an NVIDIA GPU moves at least, aligned (Nsight Compute, profiling guide)."""

Kind = Literal["load", "store", "update"]


@dataclass(frozen=True)
class Requests:
    """The instructions for one tl.load, tl.store or atomic of a block."""

    kind: Kind
    path: CallPath
    """The call in the kernel's source, and the calls that led there."""
    shape: tuple[int, ...]
    bases: dict[str, list[list[int]]]
    """Of the layout, as `layouts.Layout.bases`; empty for what has none, a scalar or a tensor
    descriptor's block."""
    bytes_per_thread: int
    """Of one instruction."""
    num_warps: int
    """Of a program."""
    merged: bool = False
    """Whether a thread has several instructions for one address in PTX: NVIDIA's assembler makes
    one of them."""
    by_descriptor: bool = False
    """Whether a tensor memory accelerator moves it, which asks for whole rows of the block."""

    def numbers(self, itemsize: int) -> np.ndarray:
        """[requests, lanes x elements]: by number, along the rows of the block, the element of each
        lane; -1 for none.

        itemsize: bytes of an element.
        """
        held, asks = self._held
        vector = max(1, min(self.bytes_per_thread // itemsize, held.shape[2]))
        found = np.where(asks[:, :, None], held, -1)
        warps, lanes, registers = found.shape
        return (
            found.reshape(warps, lanes, registers // vector, vector)
            .swapaxes(1, 2)
            .reshape(-1, lanes * vector)
        )

    @cached_property
    def _held(self) -> tuple[np.ndarray, np.ndarray]:
        """[warps, lanes, registers] elements by number, and [warps, lanes] whether the thread asks
        for its own."""
        if not self.bases:  # a scalar: every thread loads it, and the first one stores it
            warps = self.num_warps if self.kind == "load" else 1
            return np.zeros((warps, 1, 1), dtype=np.int64), np.ones((warps, 1), dtype=bool)
        weights = np.cumprod([1, *self.shape[:0:-1]])[::-1]
        numbers = {
            name: [int(np.dot(base, weights)) for base in found]
            for name, found in self.bases.items()
        }

        def combined(name: str) -> np.ndarray:
            # Bits of different bases never overlap in a block's number, since sizes are powers of
            # two.
            found = np.zeros(1, dtype=np.int64)
            for base in numbers[name]:
                found = np.concatenate([found, found ^ base])
            return found

        warp, lane, register = combined("warp"), combined("lane"), combined("register")
        held = warp[:, None, None] ^ lane[None, :, None] ^ register[None, None, :]
        # Of threads that hold the same element all load it, and one stores it.
        asks = np.ones((len(warp), len(lane)), dtype=bool)
        if self.kind != "load":
            asks &= _first(numbers["warp"])[:, None] & _first(numbers["lane"])[None, :]
        return held, asks


def _first(bases: list[int]) -> np.ndarray:
    """Of the 2^n combinations of bases, those that use none that moves nothing."""
    found = np.ones(1, dtype=bool)
    for base in bases:
        found = np.concatenate([found, found & (base != 0)])
    return found


_OPERATION = re.compile(
    r"(tt\.load|tt\.store|tt\.atomic_rmw|tt\.atomic_cas|ttg\.async_copy_global_to_local|amdg\.buffer_load|amdg\.buffer_store"
    r"|ttng\.async_tma_copy_\w+|tt\.descriptor_\w+)\b"
)
_BLOCK = re.compile(
    r"tensor<((?:\d+x)+)(?:!tt\.ptr<[^>]*>|\w+), (#\w+)>"
)  # of the addresses, or of AMD's offsets
_KINDS: dict[str, Kind] = {"store": "store", "local_to_global": "store", "atomic": "update"}

# NVIDIA: ld.global.v4.b32, st.global.b16, atom.global.…, and the number of bytes that cp.async
# names.
_PTX = re.compile(
    r"\b(ld|st|atom|red)\.(?:\w+\.)*?global(?:\.\w+)*?(?:\.v(\d))?\.[bfus](\d+)"
    r"|cp\.async\.\w+\.shared\.global[^,]*,[^,]*, (\w+)"
)
# AMD: global_load_dwordx4, buffer_store_short, global_load_b128.
_GCN = re.compile(
    r"\b(?:global|buffer|flat)_(load|store|atomic)\w*?_(?:(dword|short|ushort|byte|ubyte)(?:x(\d))?|b(\d+))"
)
_GCN_BYTES = {"dword": 4, "short": 2, "ushort": 2, "byte": 1, "ubyte": 1}


def requests_of(lowered: Lowered) -> list[Requests]:
    """For every access to global memory in the TTGIR, in its order, the instructions that it
    became."""
    calls = Calls(lowered.listing)
    rows = lowered.ttgir.split("\n")
    widths, merged = _widths(lowered, calls)
    found = []
    for row, chain in lowered.lines.places("ttgir"):
        operation = _OPERATION.search(rows[row - 1])
        if operation is None:
            continue
        kind: Kind = next((kind for word, kind in _KINDS.items() if word in operation[0]), "load")
        path = calls.path(chain, kind)
        block = _BLOCK.search(rows[row - 1])
        by_descriptor = "tma" in operation[0] or "descriptor" in operation[0]
        shape: tuple[int, ...] = ()
        bases: dict[str, list[list[int]]] = {}
        if block and not by_descriptor:
            shape = tuple(int(size) for size in block[1].split("x")[:-1])
            known = [
                each
                for each in lowered.layouts.all(block[2])
                if each.shape == shape and "register" in each.bases
            ]
            bases = known[0].bases if known else {}
        width = 0 if by_descriptor else widths.get((path, kind), 0)
        num_warps = lowered.metadata["options"]["num_warps"]
        found.append(
            Requests(
                kind, path, shape, bases, width, num_warps, (path, kind) in merged, by_descriptor
            )
        )
    return found


Key = tuple[CallPath, Kind]


def _widths(lowered: Lowered, calls: Calls) -> tuple[dict[Key, int], set[Key]]:
    """For each call the bytes of each thread that the widest of its instructions moves; and the
    calls of which several load
    from one address."""
    stage = "ptx" if lowered.target.nvidia else "amdgcn"
    rows = lowered.texts[stage].split("\n")
    widths: dict[Key, int] = {}
    instructions: dict[Key, list[str]] = {}
    for row, chain in lowered.lines.places(stage):
        if moved := _bytes(rows[row - 1]):
            kind, width = moved
            key = calls.path(chain, kind), kind
            widths[key] = max(width, widths.get(key, 0))
            guard = rows[row - 1].split("ld.global")[0].strip()
            instructions.setdefault(key, []).append(guard + rows[row - 1].partition("[")[2])
    twice = {
        key
        for key, found in instructions.items()
        if key[1] == "load" and len(set(found)) < len(found)
    }
    return widths, twice if lowered.target.nvidia else set()


def _bytes(instruction: str) -> tuple[Kind, int] | None:
    """What an instruction does to global memory, and how many bytes of each thread it moves; None
    for others."""
    if match := _PTX.search(instruction):
        if match[4]:  # into shared memory
            return "load", int(match[4], 0)
        kinds: dict[str, Kind] = {"ld": "load", "st": "store"}
        return kinds.get(match[1], "update"), int(match[2] or 1) * int(match[3]) // 8
    if match := _GCN.search(instruction):
        kind: Kind = "update" if match[1] == "atomic" else "load" if match[1] == "load" else "store"
        return kind, int(match[4]) // 8 if match[4] else _GCN_BYTES[match[2]] * int(match[3] or 1)
    return None
