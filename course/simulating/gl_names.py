"""`gl` as a simulated kernel sees it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from triton.experimental.gluon import language as gl

from .memory import Buffer
from .problems import SimulationError
from .program import Program
from .values import NUMPY, Block, Pointer, elementwise, plain, rounded, small_integer, undefined

LAYOUTS = tuple(name for name in dir(gl) if name.endswith("Layout"))
TYPES = (
    *("bfloat16", "float16", "float32", "float64", "int1", "int8", "int16", "int32", "int64"),
    *("uint8", "uint32", "tensor", "shared_memory_descriptor"),
)


def elementwise_functions() -> dict[str, Any]:
    """Functions of `gl` that NumPy computes element by element, by their names."""
    functions: dict[str, Callable[..., Any]] = {
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
        "abs": np.abs, "maximum": np.fmax, "minimum": np.fmin, "floor": np.floor,
        "rsqrt": lambda x: 1 / np.sqrt(x), "fma": lambda x, y, z: x * y + z,
        "cdiv": lambda x, y: (x + y - 1) // y,
    }  # fmt: skip
    return {name: partial(elementwise, function) for name, function in functions.items()}


def _refuse_lengths(functions: Any, num_warps: Any, num_regs: Any) -> None:
    for name, numbers in (("worker_num_warps", num_warps), ("worker_num_regs", num_regs)):
        if numbers is not None and len(numbers) != len(functions) - 1:
            raise SimulationError(
                f"{name} needs one number for every partition but the first, "
                f"{len(functions) - 1} in all, and has {len(numbers)}."
            )


class GlNames:
    """Functions of `gl` that are more than arithmetic."""

    constexpr = staticmethod(plain)
    static_range = staticmethod(range)

    def __init__(self, program: Program) -> None:
        self._program = program

    def program_id(self, axis: int = 0) -> Block:
        return Block(self._program.number if axis == 0 else 0, gl.int32)

    def num_programs(self, axis: int = 0) -> Block:
        return Block(self._program.programs if axis == 0 else 1, gl.int32)

    def num_warps(self) -> int:
        return self._program.turns.current.num_warps

    def arange(self, start: Any, end: Any, layout: Any = None) -> Block:
        return Block(np.arange(plain(start), plain(end), dtype=np.int32), gl.int32, layout)

    def full(self, shape: Any, value: Any, dtype: Any, layout: Any = None) -> Block:
        array = np.full([*map(plain, shape)], plain(value))
        return Block(rounded(array, dtype), dtype, layout)

    def zeros(self, shape: Any, dtype: Any, layout: Any = None) -> Block:
        return self.full(shape, 0, dtype, layout)

    def convert_layout(self, value: Block, layout: Any, assert_trivial: bool = False) -> Block:
        return Block(value.values(), value.dtype, layout)

    def where(self, condition: Any, x: Any, y: Any) -> Block:
        typed = elementwise(np.add, x, y).dtype  # the type that x and y have together
        return elementwise(np.where, condition, x, y, dtype=typed)

    def max(self, value: Block, axis: int | None = None) -> Block:
        return self._reduced(np.max, value, axis)

    def min(self, value: Block, axis: int | None = None) -> Block:
        return self._reduced(np.min, value, axis)

    def sum(self, value: Block, axis: int | None = None) -> Block:
        return self._reduced(np.sum, value.to(gl.int32) if small_integer(value) else value, axis)

    def load(self, pointer: Pointer, mask: Any = None, other: Any = None, **_: Any) -> Block:
        """Lanes that are masked out hold `other`; without it, what nobody would expect there."""
        self._program.turns.step()
        places, wanted = pointer.places(mask)
        other = undefined(pointer.dtype) if other is None else other
        array = np.where(wanted, pointer.storage[np.where(wanted, places, 0)], plain(other))
        return Block(rounded(array, pointer.dtype), pointer.dtype)

    def store(self, pointer: Pointer, value: Any, mask: Any = None, **_: Any) -> None:
        self._program.turns.step()
        places, wanted = pointer.places(mask)
        array = np.broadcast_to(rounded(plain(value), pointer.dtype), places.shape)
        pointer.storage[places[wanted]] = array[wanted]

    def static_assert(self, condition: Any, message: str = "") -> None:
        if not plain(condition):
            raise SimulationError(f"static_assert failed: {message}")

    def barrier(self) -> None:
        """All warps of a partition are one here."""

    def allocate_shared_memory(
        self, element_ty: Any, shape: Any, layout: Any, value: Any = None
    ) -> Buffer:
        program = self._program
        array = np.full([*map(plain, shape)], np.nan if element_ty.is_floating() else 0)
        array = array.astype(NUMPY[element_ty])
        name = program.assigned_name("shared memory")
        written = np.zeros(array.shape, bool)
        buffer = Buffer(program.memory, array, element_ty, layout, name, written)
        if value is not None:
            buffer.store(value)
        return buffer

    def warp_specialize(
        self, functions_and_args: Any, worker_num_warps: Any, worker_num_regs: Any = None
    ) -> Any:
        """The first function runs in the program's own warps, the others beside it."""
        program, turns = self._program, self._program.turns
        _refuse_lengths(functions_and_args, worker_num_warps, worker_num_regs)
        if program.specialized:
            raise SimulationError(
                "A partition cannot call gl.warp_specialize: call it once, from the kernel."
            )
        parent = turns.current
        warps = [parent.num_warps, *map(plain, worker_num_warps)]
        names = [function.__name__ for function, _ in functions_and_args]
        partitions = []
        for number, (function, arguments) in enumerate(functions_and_args):
            name, before = names[number], names[:number]
            if names.count(name) > 1:
                name += f" ({before.count(name)})"
            partitions.append(program.partition(name, warps[number], function, *arguments))
        partitions[0].state = parent.state  # the same warps, and what they have under way
        accesses, program.specialized = program.memory.accesses, True
        accesses.share(parent, partitions)
        result = turns.run(partitions)[0]
        for partition in partitions:
            accesses.share(partition, [parent])
        program.specialized = False
        return result

    def _reduced(self, function: Any, value: Block, axis: int | None) -> Block:
        axis = plain(axis)
        layout = None if axis is None else gl.SliceLayout(axis, value.layout)
        return Block(function(value.values(), axis=axis), value.dtype, layout)
