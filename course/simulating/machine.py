"""One program of a kernel, run as Python with the names of its module replaced."""

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from triton.experimental.gluon import language as gl
from triton.runtime.jit import JITFunction

from course.type_names import AnyValue

from .names import replacements
from .partitions import Order, Turns
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
        self._program.turns.run([self._program.partition(kernel.__name__, function)])

    def _function(self, kernel: JITFunction) -> Callable[..., Any]:
        """A jitted function as Python's, with the names of its module replaced."""
        own = kernel.fn
        return FunctionType(
            own.__code__,
            self._names(own.__globals__),
            own.__name__,
            own.__defaults__,
            own.__closure__,
        )

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
        fields = original.__aggregate_fields__
        methods = {
            name: _Method(self, value)
            for name, value in vars(original).items()
            if isinstance(value, JITFunction)
        }

        def init(self: Any, *args: AnyValue, **kwargs: AnyValue) -> None:
            self.__dict__.update(dict(zip(fields, args, strict=False)) | kwargs)

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
