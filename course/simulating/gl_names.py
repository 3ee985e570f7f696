"""`gl` as a simulated kernel sees it."""

import math
import operator
from collections.abc import Callable, Sequence, Sized
from functools import partial
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper.mbarrier import MBarrierLayout

from course.gpus.limits import TARGETS

from .barriers import Barriers
from .constants import Constant, Layout, SharedLayout, unwrapped
from .faults import HazardError, SimulationError
from .kernel_values import KernelFunction, Value
from .layouts import check_warps, common_layout
from .program import ProgramNames
from .shared_memory import Buffer
from .values import (
    NUMPY,
    Block,
    Operand,
    Pointer,
    Shape,
    common_type,
    elementwise,
    layout_of,
    plain,
    rounded,
    undefined,
)

MOST_SHARED_BYTES = TARGETS["sm_90"].shared_bytes
LAYOUTS = tuple(name for name in dir(gl) if name.endswith("Layout"))
TYPES = (
    *("bfloat16", "float16", "float32", "float64", "int1", "int8", "int16", "int32", "int64"),
    *("uint8", "uint32", "tensor", "shared_memory_descriptor"),
)


def elementwise_functions() -> dict[str, Callable[..., Block]]:
    """Functions of `gl` that NumPy computes element by element, by their names."""
    functions: dict[str, Callable[..., ArrayLike]] = {
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
        "abs": np.abs, "maximum": np.fmax, "minimum": np.fmin, "floor": np.floor,
        "rsqrt": lambda x: 1 / np.sqrt(x), "fma": lambda x, y, z: x * y + z,
        "cdiv": lambda x, y: (x + y - 1) // y,
    }  # fmt: skip
    return {name: partial(elementwise, function) for name, function in functions.items()}


def _refuse_lengths(functions: Sized, num_warps: Sized, num_regs: Sized | None) -> None:
    for name, numbers in (("worker_num_warps", num_warps), ("worker_num_regs", num_regs)):
        if numbers is not None and len(numbers) != len(functions) - 1:
            raise SimulationError(
                f"{name} needs one number for every partition but the first, "
                f"{len(functions) - 1} in all, and has {len(numbers)}."
            )


def _refuse_race(pointer: Pointer, places: np.ndarray, stored: np.ndarray) -> None:
    """Raises HazardError where lanes of one store write different values to one place."""
    order = np.argsort(places, kind="stable")
    places, stored = places[order], np.ascontiguousarray(stored[order])
    bits = stored.view(f"u{stored.itemsize}")
    twice = np.flatnonzero((places[1:] == places[:-1]) & (bits[1:] != bits[:-1]))
    if twice.size:
        place = f"{pointer.name}[{places[twice[0]] - pointer.first}]"
        raise HazardError(f"Two lanes write different values to {place}: either may be the last.")


class GlNames(ProgramNames):
    """Functions of `gl` that are more than arithmetic."""

    constexpr = staticmethod(plain)

    def static_range(
        self, arg1: SupportsIndex, arg2: SupportsIndex | None = None, step: SupportsIndex = 1
    ) -> range:
        first, end = (0, arg1) if arg2 is None else (arg1, arg2)
        return range(int(first), int(end), int(step))

    def program_id(self, axis: int = 0) -> Block:
        return Block(self._program.place[unwrapped(axis)], gl.int32)

    def num_programs(self, axis: int = 0) -> Block:
        return Block(self._program.grid[unwrapped(axis)], gl.int32)

    def num_warps(self) -> int:
        return self._program.turns.current.num_warps

    def arange(
        self, start: SupportsIndex, end: SupportsIndex, layout: Layout | None = None
    ) -> Block:
        self._check_form([int(end) - int(start)], layout)
        return Block(np.arange(int(start), int(end), dtype=np.int32), gl.int32, layout)

    def full(
        self, shape: Shape, value: Operand, dtype: gl.dtype, layout: Layout | None = None
    ) -> Block:
        sizes = [*map(operator.index, shape)]
        self._check_form(sizes, layout)
        return Block(rounded(np.full(sizes, plain(value)), dtype), dtype, layout)

    def zeros(self, shape: Shape, dtype: gl.dtype, layout: Layout | None = None) -> Block:
        return self.full(shape, 0, dtype, layout)

    def convert_layout(self, value: Block, layout: Layout, assert_trivial: bool = False) -> Block:
        self._check_form(value.shape, layout)
        return Block(value.values(), value.dtype, layout)

    def where(self, condition: Operand, x: Operand, y: Operand) -> Block:
        return elementwise(np.where, condition, x, y, dtype=common_type(x, y))

    max = staticmethod(Block.max)
    min = staticmethod(Block.min)
    sum = staticmethod(Block.sum)

    def load(
        self,
        pointer: Pointer,
        mask: Operand | None = None,
        other: Operand | None = None,
        **_: Constant,
    ) -> Block:
        """Lanes that are masked out hold `other`; without it, what nobody would expect there."""
        self._program.turns.step()
        layout = common_layout(pointer.layout, layout_of(mask), layout_of(other))
        places, wanted = pointer.places(mask)
        filled = undefined(pointer.element) if other is None else plain(other)
        array = np.zeros(places.shape, pointer.storage.array.dtype)
        array[wanted] = pointer.storage.read(places[wanted])
        array = np.where(wanted, array, filled)
        return Block(rounded(array, pointer.element), pointer.element, layout)

    def store(
        self, pointer: Pointer, value: Operand, mask: Operand | None = None, **_: Constant
    ) -> None:
        self._program.turns.step()
        common_layout(pointer.layout, layout_of(mask), layout_of(value))
        places, wanted = pointer.places(mask)
        array = np.broadcast_to(rounded(plain(value), pointer.element), places.shape)
        _refuse_race(pointer, places[wanted], array[wanted])
        pointer.storage.write(places[wanted], array[wanted])

    def static_assert(self, condition: Operand, message: str = "") -> None:
        if not plain(condition):
            raise SimulationError(f"static_assert failed: {message}")

    def barrier(self) -> None:
        """All warps of a partition are one here."""

    def allocate_shared_memory(
        self, element_ty: gl.dtype, shape: Shape, layout: SharedLayout, value: Block | None = None
    ) -> Buffer | Barriers:
        program = self._program
        if isinstance(layout, MBarrierLayout):
            return Barriers.named(program.assigned_name("a barrier"), int(shape[0]))
        sizes = [*map(operator.index, shape)]
        if (wanted := math.prod(sizes) * element_ty.primitive_bitwidth // 8) > MOST_SHARED_BYTES:
            raise SimulationError(
                f"{wanted:,} bytes of shared memory: a program may have {MOST_SHARED_BYTES:,}."
            )
        array = np.full(sizes, np.nan if element_ty.is_floating() else 0)
        array = array.astype(NUMPY[element_ty])
        name = program.assigned_name("shared memory")
        written = np.zeros(array.shape, bool)
        buffer = Buffer(program.memory, array, element_ty, layout, name, written)
        if value is not None:
            buffer.store(value)
        return buffer

    def warp_specialize(
        self,
        functions_and_args: Sequence[tuple[KernelFunction, Sequence[Value]]],
        worker_num_warps: Sequence[SupportsIndex],
        worker_num_regs: Sequence[SupportsIndex] | None = None,
    ) -> Value:
        """The first function runs in the program's own warps, the others beside it."""
        program, turns = self._program, self._program.turns
        _refuse_lengths(functions_and_args, worker_num_warps, worker_num_regs)
        if program.specialized:
            raise SimulationError(
                "A partition cannot call gl.warp_specialize: call it once, from the kernel."
            )
        parent = turns.current
        warps = [parent.num_warps, *map(int, worker_num_warps)]
        names = [function.__name__ for function, _ in functions_and_args]
        partitions = []
        for number, (function, arguments) in enumerate(functions_and_args):
            name, before = names[number], names[:number]
            if names.count(name) > 1:
                name += f" ({before.count(name)})"
            partitions.append(program.partition(name, warps[number], function, *arguments))
        partitions[0].under_way = parent.under_way  # the same warps, and what they have under way
        accesses, program.specialized = program.memory.accesses, True
        accesses.share(parent, partitions)
        result = turns.run(partitions)[0]
        for partition in partitions:
            accesses.share(partition, [parent])
        program.specialized = False
        return result

    def _check_form(self, shape: Sequence[int], layout: Layout | None) -> None:
        """Raises SimulationError for a block that Gluon's compiler refuses to make."""
        for size in shape:
            if size < 1 or size & (size - 1):
                raise SimulationError(
                    f"The sizes of a block are powers of two, and this one has {size}."
                )
        check_warps(layout, self.num_warps())
