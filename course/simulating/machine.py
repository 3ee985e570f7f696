"""One program of a kernel, run as Python with the names of its module replaced."""

from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FunctionType
from typing import Self, SupportsIndex

from triton import JITFunction
from triton.experimental.gluon import language as gl

from course.triton_internals.aggregates import AggregateFields, aggregate_fields

from .constants import unwrapped
from .faults import SimulationError, UnsupportedError
from .kernel_values import Aggregate, Value
from .names import replacements
from .partitions import Order, Turns
from .program import Axes, Program
from .values import Block


class Machine:
    """One program of a kernel: its functions, run as Python."""

    def __init__(self, place: Axes, grid: Axes, num_warps: int, order: Order) -> None:
        self._program = Program(place, grid, num_warps, Turns(order))
        self._replacements = replacements(self._program)
        self._modules: dict[int, dict[str, object]] = {}

    def run(self, kernel: JITFunction, arguments: dict[str, Value]) -> None:
        function = partial(self._function(kernel), **arguments)
        program = self._program
        program.turns.run([program.partition(kernel.__name__, program.num_warps, function)])
        program.end()

    def _function(self, kernel: JITFunction) -> Callable[..., Value]:
        """A jitted function as Python's, with the names of its module replaced."""
        own = kernel.fn
        self._program.codes.add(own.__code__)
        function = FunctionType(
            own.__code__,
            self._names(own.__globals__),
            own.__name__,
            tuple(map(self._replaced, own.__defaults__ or ())),
            tuple(map(self._cell, own.__closure__ or ())) or None,
        )
        names = own.__kwdefaults__ or {}
        function.__kwdefaults__ = {name: self._replaced(value) for name, value in names.items()}
        return function

    def _cell(self, cell: CellType) -> CellType:
        """A name that a kernel takes from the function around it, replaced."""
        return CellType(self._replaced(cell.cell_contents))

    def _names(self, module: dict[str, object]) -> dict[str, object]:
        if id(module) not in self._modules:
            names = self._modules[id(module)] = {"range": _range}
            names |= {name: self._replaced(value) for name, value in module.items()}
        return self._modules[id(module)]

    def _replaced(self, value: object) -> object:
        """What a kernel finds under a name of its module, which may be anything."""
        if id(value) in self._replacements:
            return self._replacements[id(value)]
        if isinstance(value, JITFunction):
            return _Helper(self, value)
        if fields := aggregate_fields(value):
            return self._aggregate(fields)
        return unwrapped(value)

    def _aggregate(self, original: AggregateFields) -> type[Aggregate]:
        """A class of a kernel, with its fields and methods."""
        name, fields, machine = original.name, original.fields, self
        methods = {method: _Method(self, value) for method, value in original.methods.items()}

        def init(self: Aggregate, *args: Value, **kwargs: Value) -> None:
            if original.has_own_init:
                raise UnsupportedError(
                    f"simulate does not know aggregates with an __init__ of their own, as "
                    f"{name}: give all fields when you construct it."
                )
            values = original.defaults | dict(zip(fields, args, strict=False)) | kwargs
            if len(args) > len(fields) or values.keys() != set(fields):
                raise SimulationError(
                    f"{name} has the fields {', '.join(fields)}: give each of them a "
                    "value, and nothing else."
                )
            self.__dict__.update({key: machine._replaced(value) for key, value in values.items()})

        return type(name, (Aggregate,), {"__init__": init, **methods})


class _Helper:
    """A jitted function that a kernel calls or gives to warp_specialize."""

    def __init__(self, machine: Machine, kernel: JITFunction) -> None:
        self._machine, self._kernel = machine, kernel
        self.__name__ = kernel.__name__

    def __call__(self, *args: Value, **kwargs: Value) -> Value:
        return self._machine._function(self._kernel)(*args, **kwargs)


class _Method(_Helper):
    """A jitted method of an aggregate."""

    def __get__(self, instance: Aggregate | None, owner: type) -> Self | partial[Value]:
        return self if instance is None else partial(self, instance)


def _range(*bounds: SupportsIndex) -> Iterator[Block]:
    """`range` of a kernel, whose numbers are scalars of 32 bits."""
    return (Block(number, gl.int32) for number in range(*bounds))
