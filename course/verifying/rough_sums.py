"""Sums that are as far off as adding in the dtype may take them, in whatever order.

PyTorch's own sums say little of that: on a CPU it adds in double, or in many short pieces. What a
kernel is off by that adds n terms one after another is close to a normal distribution. Each of the
partial sums is rounded, and the sum of their squares is about n times half of the squares of all
terms, plus n times a third of the square of their sum.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from course.type_names import AnyValue, AnyValues

from .guarded_memory import OperationsWatched

TWO_TERMS = ("add", "sub", "rsub")
MANY_TERMS = (
    "sum", "mean", "cumsum", "mm", "bmm", "mv", "dot", "addmm", "addmv", "baddbmm", "convolution",
    "index_add", "scatter_add", "scatter_reduce", "index_put", "_index_put_impl", "bincount",
    "embedding_dense_backward", "col2im", "trace",
)  # fmt: skip
VARIANCES = (
    "var", "std", "var_mean", "std_mean",
    "native_layer_norm", "native_group_norm", "native_batch_norm",
)  # fmt: skip
ROUNDINGS_OF_A_TERM = 4
"""Roundings of each term of a variance: a mean is taken from it, which is rounded as it runs."""
DEVIATIONS = 6
"""How many standard deviations a sum of many terms is off at most."""
TWO_ROUNDINGS = 1.5
"""The units in the last place that a sum of three is off at most: half a unit for each rounding, of
a partial sum that is half as large again as the terms."""


class RoughSums(OperationsWatched):
    """While active, every sum is off by a half of that or more, at random.

    Sums in 16 bits are added up in float32, as PyTorch does. Where three vectors are added by two
    operations, each of them rounds to their dtype.
    """

    def __init__(self, seed: int) -> None:
        TorchDispatchMode.__init__(self)
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}
        self._sizes = WeakTensorKeyDictionary()
        """The size of the terms of each sum of two: the root of the sum of their squares."""
        self.overflow = False
        """Whether terms of some sum, added first, are too large for its dtype."""

    def run(
        self, function: Any, name: str, args: tuple[AnyValue, ...], kwargs: AnyValues
    ) -> AnyValue:
        if name in TWO_TERMS:
            return self._sum_of_two(function, args, kwargs)
        if name in MANY_TERMS:
            return self._sum_of_many(function, args, kwargs, averaged=name == "mean")
        if name in VARIANCES:
            return self._variance(function, args, kwargs)
        out = function(*args, **kwargs)
        if function.is_view and isinstance(out, Tensor) and args[0] in self._sizes:
            self._sizes[out] = function(self._sizes[args[0]], *args[1:], **kwargs)
        return out

    def _sum_of_two(self, function: Any, args: tuple[AnyValue, ...], kwargs: AnyValues) -> Any:
        """The sum of two is one rounding of an exact result, unless one of them is a sum: then
        their terms may be added in another order."""
        known = [isinstance(each, Tensor) and each in self._sizes for each in args[:2]]
        size = torch.hypot(*map(self._size, args[:2]))  # before it is computed in place
        out = function(*args, **kwargs)
        if out.is_floating_point():
            self._sizes[out] = size = size.expand(out.shape)
            if any(known):
                info = torch.finfo(out.dtype)
                large = 2 * size > info.max
                if self._seed % 2 and bool(large.any()):
                    self.overflow = True
                    size = size.masked_fill(large, torch.inf)
                self._move(out, out.double(), TWO_ROUNDINGS * info.eps * size)
        return out

    def _size(self, term: Any) -> Tensor:
        if isinstance(term, Tensor) and term in self._sizes:
            size: Tensor = self._sizes[term]
            return size
        return torch.as_tensor(term).double()

    def _sum_of_many(
        self, function: Any, args: tuple[AnyValue, ...], kwargs: AnyValues, averaged: bool
    ) -> Any:
        def computed(of: Callable[[Tensor], Tensor]) -> Tensor:
            """The sum of other terms, in double: none of it is computed in place."""
            terms, named = tree_map_only(Tensor, lambda each: _changed(each, of), (args, kwargs))
            result: Tensor = function(*terms, **named)
            return result

        exact, count = computed(torch.clone), computed(torch.ones_like)
        squares = computed(torch.square)
        out = function(*args, **kwargs)
        if not out.is_floating_point():
            return out
        if out.dtype != torch.float64 and torch.equal(out.double(), exact):
            return out
        if averaged:
            count = count * (args[0].numel() / max(out.numel(), 1))
            squares = squares / count
        unit = _unit(out)
        partial_sums = (count.abs() - 1).clamp(0) * (squares / 2 + exact.square() / 3)
        self._move(out, exact, DEVIATIONS * unit * (partial_sums / 3).sqrt())
        return out

    def _variance(self, function: Any, args: tuple[AnyValue, ...], kwargs: AnyValues) -> Any:
        """A variance is as far off as one of terms that are rounded where they are, and not where
        they lie about their mean."""
        out = function(*args, **kwargs)
        terms: Any = args[0]
        error = ROUNDINGS_OF_A_TERM * _unit(terms) * self._share(terms)
        others, named = tree_map_only(Tensor, _in_double, (args[1:], kwargs))
        result = function(terms.double() * (1 + error), *others, **named)
        if isinstance(out, Tensor):
            out.copy_(result)
        else:  # with the mean
            for own, moved in zip(out, result, strict=True):
                own.copy_(moved)
        return out

    def _move(self, out: Tensor, exact: Tensor, error: Tensor) -> None:
        out.copy_(exact + self._share(out) * error)

    def _share(self, tensor: Tensor) -> Tensor:
        """For each element a share of its error: to either side by a half or more, so that errors
        rarely end one another."""
        generator = self._generators.get(tensor.device)
        if generator is None:
            generator = torch.Generator(tensor.device).manual_seed(self._seed)
            self._generators[tensor.device] = generator
        share = torch.rand(tensor.shape, generator=generator, device=tensor.device) - 0.5
        return share + 0.5 * share.sign()


def _unit(tensor: Tensor) -> float:
    """Half a unit in the last place of 1, of a sum that is added up in float32 at least."""
    return min(torch.finfo(tensor.dtype).eps, torch.finfo(torch.float32).eps) / 2


def _in_double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _changed(tensor: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    return change(_in_double(tensor).clone()) if tensor.is_floating_point() else tensor
