"""What rounding alone makes of a reference, measured where a result is not within its tolerance.

A sum may be small where its terms are large. Then one rounding on the way is large beside the
result, in whatever order the terms are added, and PyTorch's own result is off by as much.
"""

import contextlib
from dataclasses import replace

import torch
from torch import Tensor

from course.type_names import Function

from .compare import Rounding, Tolerance, close, comparable
from .rough_sums import RoughSums

FEW, ENOUGH = 4, 16
"""Runs of the reference that show that a result is far off, and runs that decide."""
DEVIATIONS = 8
"""How many of the standard deviations that these runs show a result may be off: a right one is
farther off in one of some million elements."""
HOPELESS = 50
"""How many times farther off a result may be for more runs to be worth their time."""


def allowance(
    out: Tensor, exact: Tensor, own: Tensor, reference: Function, tensors: list[Tensor],
    allowed: Tolerance,
) -> Tolerance:  # fmt: skip
    """What is allowed for a result: more than `allowed`, where that is not enough and rounding
    explains more.

    reference: a function of tensors alone.
    exact, own: what it gives in float64, and of `tensors`.
    """

    def suffices(tolerance: Tolerance) -> bool:
        return bool(close(out, exact, tolerance).all())

    if suffices(allowed):
        return allowed
    runs = _Runs(reference, tensors, own, exact)
    wider = replace(allowed, rounding=runs.after(0))
    computes = any(each.is_floating_point() for each in tensors)
    if suffices(wider) or not computes:
        return wider
    if own.is_floating_point():
        few = runs.after(FEW, times=HOPELESS)
        hopeful = replace(allowed, relative=HOPELESS * allowed.relative, rounding=few)
        if not suffices(hopeful):  # what these few runs explain is not what is named as wrong
            return replace(allowed, rounding=runs.after(FEW))
    return replace(allowed, rounding=runs.after(ENOUGH))


class _Runs:
    """Runs of a reference that round, each in its own way."""

    def __init__(
        self, reference: Function, tensors: list[Tensor], own: Tensor, exact: Tensor
    ) -> None:
        self._reference = reference
        self._tensors = tensors
        self._results = [own]
        self._moved = torch.zeros_like(exact, dtype=torch.float64)
        """How far sums in other orders are from PyTorch's own result, at most."""
        self._infinite = torch.zeros_like(exact, dtype=torch.bool)
        self._squares = torch.zeros_like(self._moved)
        """The errors of other runs, squared and added up."""
        self._count = 0

    def after(self, count: int, times: int = 1) -> Rounding:
        """What so many runs show, with so many times their spread."""
        while self._count < count:
            self._count += 1
            self._add_in_another_order()
            self._run_beside()
        deviation = (self._squares / max(self._count, 1)).sqrt()
        spread = times * (self._moved + DEVIATIONS * deviation)
        return Rounding(tuple(self._results), spread, self._infinite)

    def _add_in_another_order(self) -> None:
        own = self._results[0]
        with RoughSums(self._count) as sums:
            result = self._reference(*self._tensors)
        if own.is_floating_point():
            self._moved = torch.maximum(self._moved, _apart(result, own))
            if sums.overflow:
                self._infinite |= ~comparable(result).isfinite()
        else:
            self._results.append(result)

    def _run_beside(self) -> None:
        """In float32 on inputs that differ in their last digits, since PyTorch's own result may
        be exact by luck."""
        whole = not self._results[0].is_floating_point()
        if whole or any(each.dtype == torch.float64 for each in self._tensors):
            return
        moved = [self._neighbor(each) for each in self._tensors]
        in_double = [each.double() if each.is_floating_point() else each for each in moved]
        with contextlib.suppress(Exception):  # a reference may ask for the case's own dtype
            result = self._reference(*moved)
            self._squares += _apart(result, self._reference(*in_double)).square()
            self._infinite |= ~comparable(result).isfinite()

    def _neighbor(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        generator = torch.Generator(tensor.device).manual_seed(self._count)
        share = torch.rand(tensor.shape, generator=generator, device=tensor.device)
        return tensor.float() * (1 + 2**-20 * share)


def _apart(one: Tensor, other: Tensor) -> Tensor:
    """How far two results are apart, elementwise; 0 where one of them is no finite number."""
    return (one.double() - other.double()).abs().nan_to_num(0, 0)
