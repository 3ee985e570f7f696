"""One program of a kernel, run as Python with the names of its module replaced."""

from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType
from typing import Any

from triton.experimental.gluon import language as gl
from triton.runtime.jit import JITFunction

from course.type_names import AnyValue

from .names import replacements
from .partitions import Order, Turns
from .problems import SimulationError, UnsupportedError
from .program import Program
from .values import Block, plain


class Machine:
    """One program of a kernel: its functions, run as Python."""

    def __init__(self, program: int, programs: int, num_warps: int, order: Order) -> None:
        self._program = Program(program, programs, num_warps, Turns(order))
        self._replacements = replacements(self._program)
        self._modules: dict[int, dict[str, Any]] = {}

    def run(self, kernel: JITFunction, arguments: dict[str, Any]) -> None:
        function = partial(self._function(kernel), **arguments)
        program = self._program
        program.turns.run([program.partition(kernel.__name__, program.num_warps, function)])
        program.end()

    def _function(self, kernel: JITFunction) -> Callable[..., Any]:
        """A jitted function as Python's, with the names of its module replaced."""
        own = kernel.fn
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

    def _names(self, module: dict[str, Any]) -> dict[str, Any]:
        if id(module) not in self._modules:
            names = self._modules[id(module)] = {"range": _range}
            names |= {name: self._replaced(value) for name, value in module.items()}
        return self._modules[id(module)]

    def _replaced(self, value: Any) -> Any:
        if id(value) in self._replacements:
            return self._replacements[id(value)]
        if isinstance(value, JITFunction):
            return _Helper(self, value)
        if isinstance(value, type) and getattr(value, "__triton_aggregate__", False):
            return self._aggregate(value)
        return plain(value) if isinstance(value, gl.constexpr) else value

    def _aggregate(self, original: Any) -> type:
        """A class of a kernel, with its fields and methods."""
        fields, defaults = original.__aggregate_fields__, original.__aggregate_defaults__
        own_init = not hasattr(original.hash_attrs[0], "__triton_builtin__")
        machine = self
        methods = {
            name: _Method(self, value)
            for name, value in vars(original).items()
            if isinstance(value, JITFunction)
        }

        def init(self: Any, *args: AnyValue, **kwargs: AnyValue) -> None:
            if own_init:
                raise UnsupportedError(
                    f"simulate does not know aggregates with an __init__ of their own, as "
                    f"{original.__name__}: give all fields when you construct it."
                )
            values = defaults | dict(zip(fields, args, strict=False)) | kwargs
            if len(args) > len(fields) or values.keys() != set(fields):
                raise SimulationError(
                    f"{original.__name__} has the fields {', '.join(fields)}: give each of them a "
                    "value, and nothing else."
                )
            self.__dict__.update({name: machine._replaced(value) for name, value in values.items()})

        return type(original.__name__, (), {"__init__": init, **methods})


class _Helper:
    """A jitted function that a kernel calls or gives to warp_specialize."""

    def __init__(self, machine: Machine, kernel: JITFunction) -> None:
        self._machine, self._kernel = machine, kernel
        self.__name__ = kernel.__name__

    def __call__(self, *args: AnyValue, **kwargs: AnyValue) -> Any:
        return self._machine._function(self._kernel)(*args, **kwargs)


class _Method(_Helper):
    """A jitted method of an aggregate."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else partial(self, instance)


def _range(*bounds: Any) -> Any:
    """`range` of a kernel, whose numbers are scalars of 32 bits."""
    return (Block(number, gl.int32) for number in range(*map(plain, bounds)))
