"""How often each program of a grid runs a loop, where that can be computed without running any.

Start, stop and step of a loop are followed back in the TTIR to what a program is given: its number,
scalars, and single elements of tensors that it loads. They are computed for all programs at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from course.lowering.call_sites import CallSite
from course.lowering.ttir_values import Value, Values

from .loops import Loop

if TYPE_CHECKING:
    from .evidence import Evidence

Numbers = np.ndarray
"""An integer for each program, in the order in which programs start."""
MOST_PROGRAMS = 2**22
"""Programs of a grid that are looked at; of a larger one nothing is known."""

_OPERATIONS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minui": np.minimum,
    "arith.maxui": np.maximum,
}
_SAME = ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast")


@dataclass(frozen=True)
class Iterations:
    """How often programs run one loop."""

    loop: Loop
    each: Numbers
    """Iterations by program."""
    rounds: float
    """Loads that wait for one another in an iteration: below 1 where several iterations' loads are
    under way together."""

    @property
    def most(self) -> int:
        return int(self.each.max())

    @property
    def average(self) -> float:
        return float(self.each.mean())


def iterations_of(evidence: Evidence) -> list[Iterations]:
    """The loops that load, as far as it can be told for all programs how often they are run."""
    if not 0 < evidence.programs <= MOST_PROGRAMS or "ttir" not in evidence.lowered.texts:
        return []
    known = []
    given = _Given(evidence)
    loops = {loop.line.frame: loop for loop in evidence.loops if loop.line}
    for row, bounds in Values(evidence.lowered.ttir).loops:
        line = evidence.lowered.lines.back("ttir", row)
        loop = loops.get(line.frame) if line else None
        if loop is None or not (loop.plain or loop.ahead):
            continue
        start, stop, step = (given.numbers(bound) for bound in bounds)
        if start is None or stop is None or step is None or step.min() < 1:
            continue
        each = np.maximum(0, -((start - stop) // step))
        known.append(Iterations(loop, each, _rounds(evidence, loop)))
    return known


def _rounds(evidence: Evidence, loop: Loop) -> float:
    """Loads that wait for one another in an iteration: those of a gather wait for their places."""

    def depth(call: CallSite, after: frozenset[CallSite]) -> int:
        places = evidence.gathers.get((call, "load"), frozenset()) & set(loop.plain) - after
        return 1 + max((depth(place, after | {place}) for place in places), default=0)

    if loop.plain:
        return max(depth(call, frozenset([call])) for call in loop.plain)
    return 1 / max(1, evidence.stages_of(loop) - 1)


class _Given:
    """What the programs of a launch are given, and what follows from it."""

    def __init__(self, evidence: Evidence) -> None:
        x, y, z = (*evidence.launch.grid, 1, 1)[:3]
        number = np.arange(x * y * z, dtype=np.int64)
        self._programs = {"x": number % x, "y": number // x % y, "z": number // (x * y)}
        self._sizes = {"x": x, "y": y, "z": z}
        self._arguments = evidence.launch.arguments()
        self._known: dict[int, tuple[Value, Numbers | None]] = {}

    def numbers(self, value: Value) -> Numbers | None:
        """An integer by program; None where it comes from something else."""
        if id(value) not in self._known:  # the value is kept, and so is its id
            self._known[id(value)] = value, self._computed(value)
        return self._known[id(value)][1]

    def _computed(self, value: Value) -> Numbers | None:
        name, operands = value.operation, value.operands
        words = value.text.split()
        if name == "tt.get_program_id":
            return self._programs[words[0]]
        if name == "tt.get_num_programs":
            return self._all(self._sizes[words[0]])
        if name == "arith.constant":
            return self._all(int(words[0])) if words[0].lstrip("-").isdigit() else None
        if name == "argument":
            argument = self._arguments.get(value.name)
            return self._all(argument) if type(argument) is int else None
        if name == "tt.load" and len(operands) == 1:
            return self._loaded(operands[0])
        if name in _SAME:
            return self.numbers(operands[0])
        # A value without text is what a loop counts, which is another in each iteration.
        if not value.text or len(operands) != 2:
            return None
        left, right = map(self.numbers, operands)
        if left is None or right is None:
            return None
        if name in _OPERATIONS:
            return _OPERATIONS[name](left, right)
        if name in ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui"):
            if left.min() < 0 or right.min() < 1:
                return None
            return left // right if "div" in name else left % right
        return None

    def _all(self, number: int) -> Numbers:
        return np.full_like(self._programs["x"], number)

    def _loaded(self, pointer: Value) -> Numbers | None:
        place = self._place(pointer)
        if place is None:
            return None
        tensor, offsets = place
        if tensor.dtype not in (torch.int32, torch.int64) or tensor.is_meta or not tensor.numel():
            return None
        there = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
        if offsets.min() < 0 or offsets.max() >= there:
            return None
        flat = tensor.detach().as_strided((there,), (1,))
        return flat[torch.from_numpy(offsets).to(flat.device)].cpu().numpy().astype(np.int64)

    def _place(self, pointer: Value) -> tuple[torch.Tensor, Numbers] | None:
        """The tensor that a pointer goes to, and how many elements from its first."""
        if pointer.operation == "argument":
            tensor = self._arguments.get(pointer.name)
            return (tensor, self._all(0)) if isinstance(tensor, torch.Tensor) else None
        if pointer.operation != "tt.addptr" or len(pointer.operands) != 2:
            return None
        place, offset = self._place(pointer.operands[0]), self.numbers(pointer.operands[1])
        return None if place is None or offset is None else (place[0], place[1] + offset)
