"""How often each program of a grid runs its loops, where that follows from what it is given.

Start, stop and step of a loop are followed back in the TTIR to what a program is given: its number,
scalars, and single elements of tensors that it loads. They are computed for all programs at once,
and no loop is run.
"""

from collections.abc import Callable

import numpy as np
import torch

from course.lowering.result import Lowered
from course.lowering.ttir_values import EITHER, CountedLoop, TtirValue, Values

from .launch import LaunchRequest

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
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
}
_COMPARISONS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
}
_DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")
_SAME = ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast")
_CONSTANTS = {"true": 1, "false": 0}


def program_sizes(launch: LaunchRequest, lowered: Lowered) -> Numbers | None:
    """For each program the iterations of all its loops; None if nothing is known of them.

    A loop whose bounds are not known counts for nothing, and for one iteration around others.
    """
    given = Given(launch, lowered)
    iterations: dict[int, Numbers] = {}
    known: list[Numbers] = []
    for loop in given.loops:
        outer = iterations.get(loop.around.row) if loop.around else None
        each = given.iterations(loop)
        if each is not None and outer is not None:
            each = each * outer
        if each is not None:
            known.append(each)
        elif outer is not None:
            each = outer
        if each is not None:
            iterations[loop.row] = each
    return np.sum(known, axis=0) if known else None


class Given:
    """What the programs of a launch are given, and what follows from it."""

    def __init__(self, launch: LaunchRequest, lowered: Lowered) -> None:
        x, y, z = launch.grid
        self.loops: list[CountedLoop] = []
        """The kernel's loops, an outer one before those in it; none where the grid is too large."""
        if x * y * z > MOST_PROGRAMS or "ttir" not in lowered.texts:
            return
        number = np.arange(x * y * z, dtype=np.int64)
        self._programs = {"x": number % x, "y": number // x % y, "z": number // (x * y)}
        self._sizes = {"x": x, "y": y, "z": z}
        values = Values(lowered.ttir)
        self.loops = values.loops
        # The compiler may name a parameter by a variable that the kernel gives its value to.
        signature = lowered.metadata.get("signature", {})
        names = [name for name, kind in signature.items() if kind != "constexpr"]
        if len(names) != len(values.arguments):  # a tuple or a descriptor has several
            names = [argument.name for argument in values.arguments]
        arguments = launch.given
        pairs = zip(values.arguments, names, strict=True)
        self._arguments = {id(value): arguments.get(name) for value, name in pairs}
        self._known: dict[int, tuple[TtirValue, Numbers | None]] = {}

    def iterations(self, loop: CountedLoop) -> Numbers | None:
        """How often each program runs a loop whenever it comes to it; None if it is not known."""
        start, stop, step = map(self.numbers, loop.bounds)
        if start is None or stop is None or step is None or step.min() < 1:
            return None
        times: Numbers = np.maximum(0, -((start - stop) // step))
        return times

    def numbers(self, value: TtirValue) -> Numbers | None:
        """An integer by program; None where it comes from something else."""
        if id(value) not in self._known:  # the value is kept, and so is its id
            self._known[id(value)] = value, None  # while what it comes from is computed
            self._known[id(value)] = value, self._computed(value)
        return self._known[id(value)][1]

    def _computed(self, value: TtirValue) -> Numbers | None:
        name, words = value.operation, value.text.split()
        if name == "argument":
            argument = self._arguments.get(id(value))
            return self._all(argument) if type(argument) is int else None
        if name == "tt.get_program_id":
            return self._programs[words[0]]
        if name == "tt.get_num_programs":
            return self._all(self._sizes[words[0]])
        if name == "arith.constant":
            number = _CONSTANTS.get(words[0], words[0])
            return self._all(int(number)) if str(number).lstrip("-").isdigit() else None
        if name == "tt.load" and len(value.operands) == 1:
            return self._loaded(value.operands[0])
        operands = [*value.operands]
        if name == EITHER and value.condition is not None:
            operands.insert(0, value.condition)
        elif not value.text:  # what a loop counts or carries is another in each iteration
            return None
        numbers = [each for each in map(self.numbers, operands) if each is not None]
        if len(numbers) < len(operands):
            return None
        return _result(name, words, numbers)

    def _all(self, number: int) -> Numbers:
        return np.full_like(self._programs["x"], number)

    def _loaded(self, pointer: TtirValue) -> Numbers | None:
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

    def _place(self, pointer: TtirValue) -> tuple[torch.Tensor, Numbers] | None:
        """The tensor that a pointer goes to, and how many elements from its first."""
        if pointer.operation == "argument":
            tensor = self._arguments.get(id(pointer))
            return (tensor, self._all(0)) if isinstance(tensor, torch.Tensor) else None
        if pointer.operation != "tt.addptr" or len(pointer.operands) != 2:
            return None
        place, offset = self._place(pointer.operands[0]), self.numbers(pointer.operands[1])
        return None if place is None or offset is None else (place[0], place[1] + offset)


def _result(name: str, words: list[str], numbers: list[Numbers]) -> Numbers | None:
    """What an operation makes of integers; None if it is another than these."""
    if name in (EITHER, "arith.select") and len(numbers) == 3:
        condition, one, other = numbers
        return np.where(condition != 0, one, other)
    if name in _SAME:
        return numbers[0]
    if len(numbers) != 2:
        return None
    left, right = numbers
    if name in _OPERATIONS:
        return _OPERATIONS[name](left, right)
    if name == "arith.cmpi" and (compare := _COMPARISONS.get(words[0].rstrip(","))):
        return compare(left, right).astype(np.int64)
    if name in _DIVISIONS and left.min() >= 0 and right.min() >= 1:
        result: Numbers = left // right if "div" in name else left % right
        return result
    return None
