"""Which elements of a block in global memory each warp of a compiled kernel asks for at once.

A load or store of a block becomes instructions of one warp each. What an instruction asks for
follows from the layout of the block of addresses in the TTGIR, and from how many bytes of each
thread one instruction moves, which the assembly says.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from course.triton_internals.ir import Bases, block_types

from .call_sites import CallPath, CallSites
from .layouts import aliases_of, expanded
from .result import Lowered

Kind = Literal["load", "store", "update"]


@dataclass(frozen=True)
class Requests:
    """The instructions for one tl.load, tl.store or atomic of a block."""

    kind: Kind
    path: CallPath
    """The call in the kernel's source, and the calls that led there."""
    shape: tuple[int, ...]
    bases: Bases
    """As `layouts.Layout.bases`; empty for a scalar or a tensor descriptor's block."""
    bytes_per_thread: int
    """Bytes of each thread that one instruction moves."""
    num_warps: int
    """Warps of a program."""
    merged: bool = False
    """Whether a thread has several instructions for one address in PTX: NVIDIA's assembler makes
    one of them."""
    itemsize: int = 0
    """Bytes of an element; 0 for a tensor descriptor's."""
    by_descriptor: bool = False
    """Whether a tensor memory accelerator moves it, which asks for whole rows of the block."""

    def numbers(self, itemsize: int) -> np.ndarray:
        """[requests, lanes x elements] numbers of elements, along the block's rows, or -1.

        itemsize: bytes of an element.
        """
        elements, asks = self._held
        warps, lanes, registers = elements.shape
        vector = self.vector(itemsize)
        elements = np.where(asks[:, :, None], elements, -1)
        by_instruction = elements.reshape(warps, lanes, registers // vector, vector)
        return by_instruction.swapaxes(1, 2).reshape(-1, lanes * vector)

    def vector(self, itemsize: int) -> int:
        """Elements of a thread, of so many bytes, that one instruction moves."""
        registers: int = self._held[0].shape[2]
        return max(1, min(self.bytes_per_thread // itemsize, registers))

    @cached_property
    def _held(self) -> tuple[np.ndarray, np.ndarray]:
        """[warps, lanes, registers] elements, and [warps, lanes] whether a thread asks for them."""
        if not self.bases:  # a scalar: every thread loads it, and the first one stores it
            warps = self.num_warps if self.kind == "load" else 1
            return np.zeros((warps, 1, 1), dtype=np.int64), np.ones((warps, 1), dtype=bool)
        weights = np.cumprod([1, *self.shape[:0:-1]])[::-1]
        steps = {
            name: [int(np.dot(base, weights)) for base in bases]
            for name, bases in self.bases.items()
        }
        warp, lane, register = (_combinations(steps[name]) for name in ("warp", "lane", "register"))
        elements = warp[:, None, None] ^ lane[None, :, None] ^ register[None, None, :]
        # All threads that hold the same element load it, and one stores it.
        asks = np.ones((len(warp), len(lane)), dtype=bool)
        if self.kind != "load":
            asks &= _is_first(steps["warp"])[:, None] & _is_first(steps["lane"])[None, :]
        return elements, asks


def _combinations(steps: list[int]) -> np.ndarray:
    """The 2^n elements that a layout's bases lead to, from how far each moves along the block.

    Bits of different bases never overlap in such a number, since sizes are powers of two.
    """
    elements = np.zeros(1, dtype=np.int64)
    for step in steps:
        elements = np.concatenate([elements, elements ^ step])
    return elements


def _is_first(steps: list[int]) -> np.ndarray:
    """Which of the 2^n combinations are the first to lead to their element.

    Those that use a base of 0 lead where the combination without it does.
    """
    first = np.ones(1, dtype=bool)
    for step in steps:
        first = np.concatenate([first, first & (step != 0)])
    return first


Key = tuple[CallPath, Kind]
"""A call, and what it does."""

_OPERATION = re.compile(
    r"(tt\.load|tt\.store|tt\.atomic_rmw|tt\.atomic_cas|ttg\.async_copy_global_to_local"
    r"|amdg\.buffer_(?:load|store|atomic)\w*|ttng\.async_tma_\w+|tt\.descriptor_\w+)\b"
)
_KINDS: dict[str, Kind] = {
    "store": "store", "local_to_global": "store", "scatter": "store", "atomic": "update",
    "reduce": "update",
}  # fmt: skip

# NVIDIA: ld.global.v4.b32, st.global.b16, atom.global.…, and the number of bytes that cp.async
# names.
_PTX = re.compile(
    r"\b(ld|st|atom|red)\.(?:\w+\.)*?global(?:\.[\w:]+)*?(?:\.v(\d))?\.(?:bf|[bfus])(\d+)(x2)?"
    r"|cp\.async\.\w+\.shared\.global[^,]*,[^,]*, (\w+)"
)
# AMD: global_load_dwordx4, buffer_store_short, global_load_b128, global_atomic_pk_add_f16.
_GCN = re.compile(
    r"\b(?:global|buffer|flat)_(load|store|atomic)\w*?_"
    r"(?:(dword|short|ushort|byte|ubyte|pk)(?:x(\d))?|b(\d+))"
)
_GCN_BYTES = {"dword": 4, "pk": 4, "short": 2, "ushort": 2, "byte": 1, "ubyte": 1}


def requests_of(lowered: Lowered) -> list[Requests]:
    """For every access to global memory, in the TTGIR's order, the instructions that it became."""
    calls = CallSites(lowered.listing)
    rows, aliases = lowered.ttgir.split("\n"), aliases_of(lowered.ttgir)
    moved, merged = _moved(lowered, calls)
    requests = []
    for number, chain in lowered.lines.places("ttgir"):
        row = rows[number - 1]
        operation = _OPERATION.search(row)
        if operation is None:
            continue
        kind: Kind = next((kind for word, kind in _KINDS.items() if word in operation[0]), "load")
        path = calls.path(chain, kind)
        by_descriptor = "tma" in operation[0] or "descriptor" in operation[0]
        shape, bases = ((), Bases()) if by_descriptor else _address_layout(lowered, row, aliases)
        requests.append(
            Requests(
                kind=kind,
                path=path,
                shape=shape,
                bases=bases,
                bytes_per_thread=0 if by_descriptor else max(moved[path, kind], default=0),
                num_warps=lowered.launch_options["num_warps"],
                merged=(path, kind) in merged,
                itemsize=_itemsize(row),
                by_descriptor=by_descriptor,
            )
        )
    return _unrolled(requests, moved)


def _unrolled(requests: list[Requests], moved: Mapping[Key, list[int]]) -> list[Requests]:
    """The requests, each copy that an unrolled loop has of a call with the width of its own
    instructions: copies differ in how their addresses are aligned.

    moved: as `_moved` gives it. The copies take their instructions in order, where these move as
    many bytes as all copies hold; otherwise each has the widest.
    """
    copies: dict[Key, list[int]] = defaultdict(list)
    for place, each in enumerate(requests):
        copies[each.path, each.kind].append(place)
    for key, places in copies.items():
        left = list(moved[key])
        held = [
            2 ** len(requests[i].bases.get("register", ())) * requests[i].itemsize for i in places
        ]
        if len(places) == 1 or len({*left}) < 2 or sum(left) != sum(held):
            continue
        for place, bytes in zip(places, held, strict=True):
            own: list[int] = []
            while left and sum(own) < bytes:
                own.append(left.pop(0))
            requests[place] = replace(requests[place], bytes_per_thread=max(own, default=0))
    return requests


def _itemsize(row: str) -> int:
    """Bytes of what the first pointers in a line of TTGIR point to; 0 if there are none."""
    bits = re.search(r"!tt\.ptr<[a-zA-Z]+(\d+)", row)
    return max(1, int(bits[1]) // 8) if bits else 0


def _address_layout(
    lowered: Lowered, row: str, aliases: Mapping[str, str]
) -> tuple[tuple[int, ...], Bases]:
    """The shape and the bases of the addresses (or of AMD's offsets) in a line of TTGIR."""
    for type in block_types(row):
        if not type.shared:
            written = expanded(type.layout, aliases)
            for layout in lowered.layouts:
                known = layout.attribute == written and layout.shape == type.shape
                if known and "register" in layout.bases:
                    return type.shape, layout.bases
            return type.shape, {}
    return (), {}


def _moved(lowered: Lowered, calls: CallSites) -> tuple[dict[Key, list[int]], set[Key]]:
    """For each call the bytes of each thread that its instructions move, in their order.

    And the calls of which several instructions load from one address.
    """
    stage = "ptx" if lowered.target.nvidia else "amdgcn"
    rows = lowered.text(stage).split("\n")
    widths: dict[Key, list[int]] = defaultdict(list)
    addresses: dict[Key, list[str]] = defaultdict(list)
    for row, chain in lowered.lines.places(stage):
        if moved := _moved_bytes(rows[row - 1]):
            kind, width = moved
            key = calls.path(chain, kind), kind
            widths[key].append(width)
            guard = rows[row - 1].split("ld.global")[0].strip()
            addresses[key].append(guard + rows[row - 1].partition("[")[2])
    if not lowered.target.nvidia:
        return widths, set()
    loads = {key: texts for key, texts in addresses.items() if key[1] == "load"}
    return widths, {key for key, texts in loads.items() if len(set(texts)) < len(texts)}


def _moved_bytes(instruction: str) -> tuple[Kind, int] | None:
    """What an instruction does to global memory, and the bytes of each thread that it moves."""
    if match := _PTX.search(instruction):
        if match[5]:  # into shared memory
            return "load", int(match[5], 0)
        elements = int(match[2] or 1) * (2 if match[4] else 1)
        kinds: dict[str, Kind] = {"ld": "load", "st": "store"}
        return kinds.get(match[1], "update"), elements * int(match[3]) // 8
    if match := _GCN.search(instruction):
        kind: Kind = "update" if match[1] == "atomic" else "load" if match[1] == "load" else "store"
        return kind, int(match[4]) // 8 if match[4] else _GCN_BYTES[match[2]] * int(match[3] or 1)
    return None


def load_widths(ptx: str) -> list[int]:
    """Bytes that each load instruction of a thread moves from global memory, in the PTX's order."""
    moved = filter(None, map(_moved_bytes, ptx.split("\n")))
    return [width for kind, width in moved if kind == "load"]
