"""The size of what a reference adds up, which decides how far a result may lie from it.

A sum may be small where its terms are large: then one rounding on the way is large beside the
result, in whatever order the terms are added, and PyTorch's own result is off by as much.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from course.type_names import AnyValue, AnyValues

from .guarded_memory import without_dynamo

SUMS = ("add", "sub", "rsub")
PRODUCTS = ("mul",)
NEUTRAL = ("neg", "clone", "alias", "detach")

Size = Callable[[], Any]
"""Computes the sizes of a result's terms, added up: a tensor, or a number. Only computed when it is
asked for, since large cases fill a GPU."""


@dataclass(frozen=True)
class _Computed:
    """How a tensor was computed."""

    operations: int
    """Operations that led to it, each of which may round."""
    sums: int
    """The additions and subtractions among them."""
    size: Size | None
    """None where it is not known, and for a term."""
    is_term: bool = False
    """Whether it is a term of its own, as what another operation made of inputs."""


@without_dynamo
class Summands(TorchDispatchMode):
    """While active, follows additions and multiplications back to the inputs.

    Any other operation on inputs alone, such as a sigmoid, gives a new term. On a result it ends
    what is known.
    """

    def __init__(self) -> None:
        super().__init__()
        self._computed = WeakTensorKeyDictionary()

    def size(self, result: torch.Tensor) -> torch.Tensor | None:
        """The sizes of a result's terms, added up, for each operation before the last.

        The last rounding is relative to the result itself. None where the result is no sum of more
        than one operation, or what it was computed from is not known.
        """
        known = self._known(result)
        if known is None or known.size is None or not known.sums or known.operations < 2:
            return None
        size: torch.Tensor = known.size() * (known.operations - 1)
        return size.expand(result.shape)

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: tuple[AnyValue, ...] = (),
        kwargs: AnyValues | None = None,
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            name = function._schema.name.removeprefix("aten::")
            is_binary = len(args) == 2 and not kwargs
            self._computed[result] = self._followed(name if is_binary else "", args)
            if name in NEUTRAL and (known := self._known(args[0])):
                self._computed[result] = known
        return result

    def _followed(self, name: str, args: tuple[AnyValue, ...]) -> _Computed:
        """How the result of an operation was computed. name: empty for one that is no sum and no
        product of two operands."""
        known = [each for each in map(self._known, args) if each]
        operations = 1 + sum(each.operations for each in known)
        sums = (name in SUMS) + sum(each.sums for each in known)
        if name not in SUMS + PRODUCTS:
            return _Computed(operations, sums, None, is_term=not known)
        one, other = map(self._size, args)
        if one is None or other is None:
            return _Computed(operations, sums, None)
        if name in SUMS:
            return _Computed(operations, sums, lambda: one() + other())
        return _Computed(operations, sums, lambda: one() * other())

    def _known(self, value: AnyValue) -> _Computed | None:
        """How a value was computed; None for inputs and numbers."""
        known: _Computed | None = None
        if isinstance(value, torch.Tensor):
            known = self._computed.get(value)
        return known

    def _size(self, operand: AnyValue) -> Size | None:
        """The size of an operand's terms; None where that is not known."""
        known = self._known(operand)
        if known is None or known.is_term:
            return lambda: abs(operand)
        return known.size
